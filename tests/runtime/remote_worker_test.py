"""Workers on other machines: found, watched, lost, left out, and found again."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import processes
import psutil
import pytest
import served_workers
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.runtime import (
  certificates,
  execution,
  remote_worker,
  shared_folders,
)
from tff_textpriv.runtime.doors import OpenPort
from tff_textpriv.runtime.worker_process import WorkerDiedError, WorkerProcess
from tff_textpriv.settings import IncompatibleSettingsError, SettingsError

pytestmark = processes.needs_isolation
_AT_CLIENTS = tff.FederatedType(np.int32, tff.CLIENTS)


@tff.federated_computation(_AT_CLIENTS)
def _total(values):
  return tff.federated_sum(values)


@tff.tensorflow.computation(np.int32)
def _multiply(steps):
  _, matrix = tf.while_loop(
    lambda step, _: step < steps,
    lambda step, matrix: (step + 1, tf.matmul(matrix, matrix)),
    (0, tf.eye(200)),
  )
  with tf.control_dependencies([matrix]):
    return tf.identity(steps)


@tff.federated_computation(_AT_CLIENTS)
def _work(steps):
  return tff.federated_sum(tff.federated_map(_multiply, steps))


_LONG = 10**7


@pytest.fixture(scope='module')
def keys(tmp_path_factory):
  folder = tmp_path_factory.mktemp('remote') / 'keys'
  served_workers.make_keys(folder)
  return folder


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
  """Seconds become tenths."""
  monkeypatch.setattr(remote_worker, 'BEAT_SECONDS', 0.2)
  monkeypatch.setattr(remote_worker, 'SILENCE_SECONDS', 1.0)
  monkeypatch.setattr(remote_worker, '_KNOCK_SECONDS', 0.1)
  monkeypatch.setattr(remote_worker, '_ANSWER_SECONDS', 2.0)


@pytest.fixture
def pair(keys, tmp_path):
  """Two hosts of workers, with a cable to each."""
  hosts = [served_workers.Served(keys, tmp_path) for _ in range(2)]
  cables = [served_workers.Cable(host.port) for host in hosts]
  yield cables
  for each in (*cables, *hosts):
    each.close()


@contextlib.contextmanager
def _run(cables, keys, tmp_path, **settings):
  with execution.execution(
    workers=[cable.address for cable in cables],
    workers_key=str(keys / 'run.pem'),
    log_dir=tmp_path,
    connect_seconds=10,
    **settings,
  ) as runtime:
    yield runtime


def _served(runtime: execution.Runtime) -> list[psutil.Process]:
  """Returns the two youngest workers, but for the one that the run has for itself."""
  workers = [
    child
    for child in psutil.Process().children(recursive=True)
    if child.name() == 'worker_binary' and child.pid != runtime.home.process.pid
  ]
  return sorted(workers, key=lambda worker: worker.create_time())[-2:]


def test_a_run_leaves_nothing_on_the_hosts_of_its_workers(pair, keys, tmp_path):
  with _run(pair, keys, tmp_path) as runtime:
    assert _total([1, 2, 3]) == 6
    mine = _served(runtime)
    assert len(mine) == 2
  assert all(map(processes.ends, mine))


def test_a_cut_cable_is_noticed_at_work_and_mended_is_made_good(pair, keys, tmp_path):
  with _run(pair, keys, tmp_path, worker_patience=20) as runtime:
    assert _total([1, 2, 3]) == 6
    threading.Timer(0.5, pair[1].cut).start()
    start = time.monotonic()
    with pytest.raises(WorkerDiedError, match=f'{pair[1].address}: no answer'):
      while True:
        _work([1, 10_000])
    assert time.monotonic() - start < 8
    threading.Timer(1, pair[1].mend).start()
    runtime.restart()
    assert not runtime.left_out
    assert _total([1, 2, 3]) == 6


def test_a_cut_cable_is_noticed_when_nothing_is_under_way(pair, keys, tmp_path):
  with _run(pair, keys, tmp_path) as runtime:
    pair[0].cut()
    assert processes.comes_true(lambda: not runtime.workers[0].answers)
    pair[0].mend()
    assert processes.comes_true(lambda: runtime.workers[0].answers)
    # A round begins as if nothing had been.
    assert _total([1, 2, 3]) == 6


@pytest.mark.slow
def test_a_worker_that_works_long_is_not_taken_for_lost(pair, keys, tmp_path):
  with _run(pair, keys, tmp_path):
    start = time.monotonic()
    while time.monotonic() - start < 4:
      assert _work([5_000, 5_000]) == 10_000


@pytest.mark.slow
def test_a_worker_that_is_halted_is_noticed(pair, keys, tmp_path):
  with _run(pair, keys, tmp_path, worker_patience=20) as runtime:
    assert _total([1, 2]) == 3
    _, halted = _served(runtime)
    halted.suspend()
    with pytest.raises(WorkerDiedError, match='no answer'):
      _work([1, 1])
    # Its place is taken by another one.
    runtime.restart()
    assert _total([1, 2]) == 3
    assert processes.ends(halted, 8)


def test_a_worker_that_is_killed_is_replaced_by_its_host(pair, keys, tmp_path):
  with _run(pair, keys, tmp_path, worker_patience=20) as runtime:
    for victim in _served(runtime):
      threading.Timer(0.5, os.kill, (victim.pid, signal.SIGKILL)).start()
    with pytest.raises(WorkerDiedError, match='The TFF worker at 127.0.0.1'):
      _work([_LONG, _LONG])
    runtime.restart()
    assert not runtime.left_out
    assert _total([1, 2, 3]) == 6


def test_what_is_given_up_is_computed_no_longer(pair, keys, tmp_path):
  with _run(pair, keys, tmp_path, worker_patience=20) as runtime:
    busy = _served(runtime)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
      _work([_LONG, _LONG])
    runtime.restart()
    assert all(map(processes.ends, busy))
    assert _total([1, 2, 3]) == 6


def test_who_stays_away_is_left_out_and_taken_back(pair, keys, tmp_path, capfd):
  with _run(pair, keys, tmp_path, worker_patience=0.5) as runtime:
    pair[1].cut()
    with pytest.raises(WorkerDiedError):
      while True:
        _work([1, 1])
    runtime.restart()
    assert runtime.left_out == 1
    assert _total([1, 2, 3, 4]) == 10
    message = f'{pair[1].address}: no answer; going on without it until it answers'
    assert message in capfd.readouterr().err
    pair[1].mend()
    assert processes.comes_true(lambda: runtime.workers[1].answers)
    runtime.take_back()
    assert not runtime.left_out
    assert f'{pair[1].address} takes part again' in capfd.readouterr().err
    assert _total([1, 2, 3, 4]) == 10


def test_with_too_few_workers_a_run_ends_and_names_them(pair, keys, tmp_path):
  with _run(pair, keys, tmp_path, worker_patience=0.5, min_workers=2) as runtime:
    pair[0].cut()
    with pytest.raises(WorkerDiedError):
      while True:
        _work([1, 1])
    with pytest.raises(execution.TooFewWorkersError) as caught:
      runtime.restart()
  message = str(caught.value)
  assert 'of 2 workers 1 answer within --worker_patience=0.5 s' in message
  assert f'({pair[0].address}: no answer)' in message


def test_a_host_that_lost_power_and_is_back_is_not_waited_for(keys, tmp_path):
  host = served_workers.Served(keys, tmp_path)
  cable = served_workers.Cable(host.port)
  with _run([cable], keys, tmp_path, worker_patience=20) as runtime:
    # Behind a cable that is cut, so that nothing is hung up on.
    def lose_power():
      cable.cut()
      host.close()
      hosts.append(served_workers.Served(keys, tmp_path, host.port))
      cable.mend()

    hosts = [host]
    threading.Timer(0.5, lose_power).start()
    with pytest.raises(WorkerDiedError, match=cable.address):
      _work([_LONG, _LONG])
    runtime.restart()
    assert _total([1, 2, 3]) == 6
  cable.close()
  hosts[-1].close()


def test_an_insecure_worker_is_used_when_that_is_asked_for(tmp_path):
  door = OpenPort()
  worker = WorkerProcess(tmp_path / 'log', door)
  try:
    with execution.execution(
      workers=[door.address], insecure_workers=True, log_dir=tmp_path
    ):
      assert _total([1, 2, 3]) == 6
    assert worker.exit_code is None
  finally:
    worker.stop()


def test_all_that_are_missing_are_named_with_the_reasons(pair, keys, tmp_path):
  foreign = tmp_path / 'foreign'
  served_workers.make_keys(foreign)
  other = served_workers.Served(foreign, tmp_path)
  door = OpenPort()
  open_worker = WorkerProcess(tmp_path / 'log', door)
  addresses = [pair[0].address, 'localhost:1', other.address, door.address]
  try:
    with (
      pytest.raises(SettingsError) as caught,
      execution.execution(
        workers=addresses,
        workers_key=str(keys / 'run.pem'),
        log_dir=tmp_path,
        connect_seconds=3,
      ),
    ):
      pass
  finally:
    open_worker.stop()
    other.close()
  message = str(caught.value)
  assert message.startswith(f'--workers={",".join(addresses[1:])}: no TFF worker')
  assert 'localhost:1: ' in message and 'Connection refused' in message
  wrong_key = 'its key is not the one that goes with --workers_key'
  assert f'{other.address}: {wrong_key}' in message
  assert f'{door.address}: a worker served with --insecure' in message
  assert pair[0].address not in message


@pytest.mark.parametrize(
  ('settings', 'problem'),
  [
    ({}, '--workers needs --workers_key'),
    ({'workers_key': 'x', 'insecure_workers': True}, 'needs --workers_key'),
    ({'insecure_workers': True, 'min_workers': 3}, '--min_workers=3: .* only 2'),
    ({'insecure_workers': True, 'workers': ['a:1', 'a:1']}, 'a:1: is named twice'),
  ],
)
def test_settings_that_do_not_go_together_are_refused_at_once(
  tmp_path, settings, problem
):
  with (
    pytest.raises((SettingsError, IncompatibleSettingsError), match=problem),
    execution.execution(log_dir=tmp_path, **{'workers': ['a:1', 'b:1']} | settings),
  ):
    pass


def test_a_key_file_that_cannot_be_used_is_named(keys, tmp_path):
  run_file = tmp_path / 'run.pem'
  with pytest.raises(certificates.KeyFileError, match='run.pem: No such file.*makes'):
    certificates.read(run_file)
  content = (keys / 'run.pem').read_bytes()
  for wrong in (b'', b'no key', content[:-300], content[300:]):
    run_file.touch(0o600)
    run_file.write_bytes(wrong)
    with pytest.raises(certificates.KeyFileError, match='run.pem is no key file'):
      certificates.read(run_file)
  run_file.write_bytes(content)
  assert 'PRIVATE' not in repr(certificates.read(run_file))
  run_file.chmod(0o640)
  with pytest.raises(certificates.KeyFileError, match='chmod 600'):
    certificates.read(run_file)
  with pytest.raises(certificates.KeyFileError, match='is there already'):
    certificates.make(keys, days=1)


def test_keys_end(tmp_path):
  run_file, worker_file = certificates.make(tmp_path / 'old', days=0)
  assert {file.stat().st_mode & 0o777 for file in (run_file, worker_file)} == {0o600}
  with pytest.raises(certificates.KeyFileError, match='was good until'):
    certificates.read(pathlib.Path(worker_file))


def test_who_has_the_same_folder_is_told_from_who_has_another_one(keys, tmp_path):
  folder = tmp_path / 'devices'
  folder.mkdir()
  hide = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
  hidden = ['unshare', '--mount', 'sh', '-c', hide, str(folder)]
  if subprocess.run([*hidden, 'true'], capture_output=True).returncode:
    pytest.skip('to hide a folder needs root')
  with socket.create_server(('127.0.0.1', 0)) as free:
    port = free.getsockname()[1]
  tool = subprocess.Popen(
    [*hidden, sys.executable, '-m', 'tff_textpriv.tools.worker', f'--port={port}']
    + [f'--key_file={keys / "worker.pem"}', f'--log_file={tmp_path / "log"}'],
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
  )
  host = served_workers.Served(keys, tmp_path)
  try:
    assert b'Serving' in tool.stdout.readline()
    with execution.execution(
      workers=[host.address, f'127.0.0.1:{port}'],
      workers_key=str(keys / 'run.pem'),
      log_dir=tmp_path,
    ) as runtime:
      missing = list(shared_folders.who_misses(runtime, folder))
      assert missing == [f'127.0.0.1:{port}']
      assert _total([1, 2, 3]) == 6
  finally:
    host.close()
    tool.terminate()
    tool.communicate()
  assert not list(folder.iterdir())
