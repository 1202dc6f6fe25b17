"""Tests of the tool that serves a worker to other machines."""

import signal
import socket
import subprocess
import sys

import processes
import psutil
import pytest

from tff_textpriv.runtime import certificates, isolation
from tff_textpriv.settings import IncompatibleSettingsError, SettingsError
from tff_textpriv.tools import certificates as tools_certificates
from tff_textpriv.tools import worker


@pytest.fixture
def free_port() -> int:
  with socket.create_server(('', 0)) as server:
    return server.getsockname()[1]


@pytest.fixture(scope='module')
def key_file(tmp_path_factory):
  _, worker_file = certificates.make(tmp_path_factory.mktemp('keys') / 'keys', days=1)
  return str(worker_file)


def _start(port, folder, *settings):
  program = [sys.executable, '-m', 'tff_textpriv.tools.worker', *settings]
  return subprocess.Popen(
    [*program, f'--port={port}', f'--log_file={folder / "worker.log"}'],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


@pytest.mark.parametrize('sent', [signal.SIGINT, signal.SIGTERM])
def test_insecure_it_serves_until_it_is_told_to_stop(tmp_path, free_port, sent):
  tool = _start(free_port, tmp_path, '--insecure')
  try:
    assert f':{free_port} --insecure_workers' in tool.stdout.readline()
    (process,) = psutil.Process(tool.pid).children()
    assert process.name() == 'worker_binary'
    socket.create_connection(('localhost', free_port)).close()
    tool.send_signal(sent)
    output, errors = tool.communicate(timeout=10)
  finally:
    tool.kill()
  assert tool.returncode == 0
  assert output == 'Stopped.\n'
  assert 'no authentication' in errors and 'Traceback' not in errors
  assert processes.ends(process)


@processes.needs_isolation
def test_with_keys_no_worker_runs_before_somebody_with_a_key_asks(
  tmp_path, free_port, key_file
):
  tool = _start(free_port, tmp_path, f'--key_file={key_file}')
  try:
    assert '--workers_key=keys/run.pem' in tool.stdout.readline()
    for host in ('127.0.0.1', '::1') if socket.has_ipv6 else ('127.0.0.1',):
      with socket.create_connection((host, free_port)) as stranger:
        stranger.sendall(b'GET / HTTP/1.1\r\n\r\n')
        assert b'HTTP' not in stranger.recv(1000)
    assert not psutil.Process(tool.pid).children()
    tool.send_signal(signal.SIGINT)
    output, errors = tool.communicate(timeout=10)
  finally:
    tool.kill()
  assert (tool.returncode, output) == (0, 'Stopped.\n')
  assert 'refused a connection from' in errors and 'Traceback' not in errors


def test_without_a_key_it_must_be_told_to_be_insecure(key_file):
  for settings in ({}, {'insecure': True, 'key_file': key_file}):
    with pytest.raises(IncompatibleSettingsError, match='--insecure to let in'):
      worker.WorkerSettings(**settings)


def test_a_machine_that_cannot_isolate_workers_does_not_serve_them(
  monkeypatch, key_file, free_port
):
  monkeypatch.setattr(isolation, 'obstacle', lambda: 'this kernel says no')
  settings = worker.WorkerSettings(port=free_port, key_file=key_file)
  with pytest.raises(
    SettingsError, match='open to whoever.*kernel says no.*--insecure'
  ):
    worker.main(settings)


def test_keys_are_made_by_one_command_and_never_written_over(tmp_path, capsys):
  settings = tools_certificates.CertificateSettings(folder=str(tmp_path / 'keys'))
  assert tools_certificates.main(settings) == 0
  output = capsys.readouterr().out
  for name in ('run.pem', 'worker.pem'):
    file = tmp_path / 'keys' / name
    assert str(file) in output
    assert file.stat().st_mode & 0o777 == 0o600
  with pytest.raises(certificates.KeyFileError, match='is there already'):
    tools_certificates.main(settings)


@pytest.mark.parametrize(
  'insecure', [True, pytest.param(False, marks=processes.needs_isolation)]
)
def test_a_port_in_use_is_refused_in_a_sentence(tmp_path, key_file, insecure):
  with socket.create_server(('', 0)) as server:
    port = server.getsockname()[1]
    settings = worker.WorkerSettings(
      port=port,
      insecure=insecure,
      key_file=None if insecure else key_file,
      log_file=str(tmp_path / 'log'),
    )
    with pytest.raises(SettingsError, match=f'--port={port}: .*in use.*another port'):
      worker.main(settings)


def test_the_end_of_the_worker_itself_is_an_error(
  tmp_path, free_port, monkeypatch, capsys
):
  def start_and_kill(*args):
    process = worker_process(*args)
    psutil.Process(process.pid).kill()
    return process

  worker_process = worker.WorkerProcess
  monkeypatch.setattr(worker, 'WorkerProcess', start_and_kill)
  settings = worker.WorkerSettings(
    port=free_port, insecure=True, log_file=str(tmp_path / 'log')
  )
  before = signal.getsignal(signal.SIGTERM)
  assert worker.main(settings) == 1
  assert 'SIGKILL' in capsys.readouterr().err
  assert signal.getsignal(signal.SIGTERM) is before
