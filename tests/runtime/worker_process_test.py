"""Tests of starting and stopping a worker; none of them imports TensorFlow."""

import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import threading

import processes
import psutil
import pytest

from tff_textpriv.runtime import worker_process
from tff_textpriv.runtime.doors import OpenPort, PortInUseError, PrivateSocket
from tff_textpriv.runtime.worker_process import (
  Limits,
  WorkerDiedError,
  WorkerProcess,
  share_cores,
)

_PARENT = """
import os, sys, threading, time
from pathlib import Path
from tff_textpriv.runtime import doors
from tff_textpriv.runtime.worker_process import WorkerProcess
worker = WorkerProcess(Path(sys.argv[1]), getattr(doors, sys.argv[2])())
print(worker.pid, flush=True)
sys.stdin.readline()
"""


@pytest.fixture(
  params=[OpenPort, pytest.param(PrivateSocket, marks=processes.needs_isolation)]
)
def door(request):
  """Each kind of door."""
  door = request.param()
  yield door
  door.close()


@pytest.fixture
def parent(tmp_path, door):
  """Starts a Python process that starts a worker and then runs a given ending."""
  started = []

  def start(ending: str) -> tuple[subprocess.Popen, list[psutil.Process]]:
    process = subprocess.Popen(
      [
        sys.executable,
        '-c',
        _PARENT + ending,
        str(tmp_path / 'worker.log'),
        type(door).__name__,
      ],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.DEVNULL,
      text=True,
    )
    started.append(process)
    worker = psutil.Process(int(process.stdout.readline()))
    assert worker.name() == 'worker_binary'
    children = worker.children()
    assert len(children) == (1 if isinstance(door, PrivateSocket) else 0)
    started.extend([worker, *children])
    return process, [worker, *children]

  yield start
  for process in started:
    try:
      process.kill()
    except psutil.NoSuchProcess:
      continue
    if isinstance(process, subprocess.Popen):
      process.communicate()


@pytest.mark.parametrize(
  ('ending', 'code'),
  [
    ('', 0),
    ('raise RuntimeError', 1),
    ('sys.exit(3)', 3),
    ('os._exit(4)', 4),
  ],
  ids=['end', 'exception', 'sys.exit', 'os._exit'],
)
def test_no_worker_survives_the_end_of_its_parent(parent, ending, code):
  process, workers = parent(ending)
  process.stdin.write('\n')
  process.stdin.flush()
  assert process.wait(10) == code
  assert all(map(processes.ends, workers))


@pytest.mark.parametrize('sent', [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_survives_a_signal_that_ends_its_parent(parent, sent):
  process, workers = parent('')
  process.send_signal(sent)
  assert process.wait(10) == -sent
  assert all(map(processes.ends, workers))


def test_a_process_without_the_death_signal_would_survive(parent):
  # The twin without protection: what the test above must be able to notice.
  process, _ = parent(
    textwrap.dedent("""
      import subprocess
      child = subprocess.Popen(['sleep', '30'])
      print(child.pid, flush=True)
      time.sleep(30)
    """)
  )
  process.stdin.write('\n')
  process.stdin.flush()
  orphan = psutil.Process(int(process.stdout.readline()))
  process.kill()
  process.wait()
  assert not processes.ends(orphan, 0.5)
  orphan.kill()


def test_a_worker_outlives_the_thread_that_asked_for_it(tmp_path, door):
  workers = []
  thread = threading.Thread(
    target=lambda: workers.append(WorkerProcess(tmp_path / 'worker.log', door))
  )
  thread.start()
  thread.join()
  process = psutil.Process(workers[0].pid)
  assert not processes.ends(process, 0.5)
  assert door.answers()
  workers[0].stop()
  assert not process.is_running()


def test_a_worker_has_a_session_of_its_own_so_that_ctrl_c_misses_it(tmp_path, door):
  worker = WorkerProcess(tmp_path / 'worker.log', door)
  try:
    assert os.getsid(worker.pid) == worker.pid != os.getsid(0)
  finally:
    worker.stop()


def test_stop_reaps_the_worker_and_can_be_repeated(tmp_path, door):
  worker = WorkerProcess(tmp_path / 'worker.log', door)
  assert worker.exit_code is None
  worker.stop()
  worker.stop()
  assert worker.exit_code == -signal.SIGTERM
  assert not psutil.pid_exists(worker.pid)


def test_the_log_is_private_and_appended_to(tmp_path, door):
  log_file = tmp_path / 'logs' / 'worker.log'
  log_file.parent.mkdir()
  log_file.write_text('before\n')
  WorkerProcess(log_file, door).stop()
  assert stat.S_IMODE(log_file.stat().st_mode) == 0o600
  text = log_file.read_text()
  # What the worker says last may be lost when it is stopped at once.
  assert text.startswith('before\n') and len(text) > len('before\n')


def test_the_worker_gets_its_settings(tmp_path, door):
  worker = WorkerProcess(
    tmp_path / 'worker.log', door, Limits(max_concurrent_clients=3, num_threads=2)
  )
  try:
    process = psutil.Process(worker.pid)
    assert process.cmdline()[1:] == [
      f'--port={door.port if isinstance(door, OpenPort) else 10000}',
      '--max_concurrent_computation_calls=3',
    ]
    assert process.environ()['TF_NUM_INTRAOP_THREADS'] == '2'
    assert process.environ()['TF_ENABLE_ONEDNN_OPTS'] == '1'
    assert process.environ()['MALLOC_ARENA_MAX'] == str(len(os.sched_getaffinity(0)))
  finally:
    worker.stop()


@pytest.mark.parametrize(
  ('num_cores', 'max_concurrent', 'cohort_size', 'expected'),
  [
    (8, 0, None, (8, 1)),  # A client a core.
    (8, 0, 100, (8, 1)),
    (8, 0, 3, (3, 2)),  # Few clients: several cores each.
    (8, 0, 1, (1, 8)),
    (8, 2, 100, (2, 4)),  # Bounded, for the sake of memory.
    (2, 16, None, (16, 1)),
    (2, 0, 0, (1, 2)),
  ],
)
def test_clients_at_a_time_and_threads_share_the_cores(
  num_cores, max_concurrent, cohort_size, expected
):
  assert share_cores(num_cores, max_concurrent, cohort_size) == expected


def test_a_port_in_use_is_refused(tmp_path):
  # A second worker would start all the same and share the first one's port.
  door = OpenPort()
  worker = WorkerProcess(tmp_path / 'worker.log', door)
  try:
    with pytest.raises(PortInUseError, match=f'port {door.port} .* in use'):
      WorkerProcess(tmp_path / 'other.log', OpenPort(door.port))
  finally:
    worker.stop()


def test_the_port_of_a_stopped_worker_can_be_used_at_once(tmp_path):
  door = OpenPort()
  first = WorkerProcess(tmp_path / 'worker.log', door)
  port = door.port
  with socket.create_connection(('localhost', port)):
    first.stop()
  WorkerProcess(tmp_path / 'worker.log', door).stop()
  assert door.port == port


def test_the_worker_in_place_of_another_is_reached_by_the_same_address(tmp_path, door):
  first = WorkerProcess(tmp_path / 'worker.log', door)
  address = door.address
  first.stop()
  # The kernel ends what stands beside a worker a moment after it.
  assert processes.comes_true(lambda: not door.answers())
  second = WorkerProcess(tmp_path / 'worker.log', door)
  assert door.answers() and door.address == address
  second.stop()


def _use_instead_of_tffs_worker(monkeypatch, tmp_path, code: str) -> None:
  program = tmp_path / 'fake_worker'
  program.write_text(f'#!{sys.executable}\n{textwrap.dedent(code)}')
  program.chmod(0o700)
  monkeypatch.setattr(worker_process, 'worker_binary', lambda: program)


def test_a_worker_that_crashes_at_once_is_reported_with_its_log(
  monkeypatch, tmp_path, door
):
  _use_instead_of_tffs_worker(
    monkeypatch, tmp_path, "import sys; sys.exit('no such instruction')"
  )
  with pytest.raises(WorkerDiedError, match='exit code 1(.|\n)*no such instruction'):
    WorkerProcess(tmp_path / 'worker.log', door)


def test_a_worker_that_ignores_the_polite_signal_is_killed(monkeypatch, tmp_path, door):
  _use_instead_of_tffs_worker(
    monkeypatch,
    tmp_path,
    """
    import signal, socket, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(('', int(sys.argv[1].split('=')[1])))
    server.listen()
    time.sleep(60)
    """,
  )
  monkeypatch.setattr(worker_process, '_GRACE_SECONDS', 0.2)
  worker = WorkerProcess(tmp_path / 'worker.log', door)
  worker.stop()
  assert worker.exit_code == -signal.SIGKILL


def test_the_runtime_is_imported_without_tensorflow():
  subprocess.run(
    [
      sys.executable,
      '-c',
      'import sys, tff_textpriv.runtime.execution, tff_textpriv.tools.worker\n'
      "assert 'tensorflow' not in sys.modules",
    ],
    check=True,
  )
