"""Tests of the tool that serves a worker to other machines."""

import signal
import socket
import subprocess
import sys

import processes
import psutil
import pytest

from tff_textpriv.settings import SettingsError
from tff_textpriv.tools import worker


@pytest.fixture
def free_port() -> int:
  with socket.create_server(('', 0)) as server:
    return server.getsockname()[1]


@pytest.mark.parametrize('sent', [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_stop(tmp_path, free_port, sent):
  tool = subprocess.Popen(
    [
      sys.executable,
      '-m',
      'tff_textpriv.tools.worker',
      f'--port={free_port}',
      f'--log_file={tmp_path / "worker.log"}',
    ],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )
  try:
    assert f':{free_port}' in tool.stdout.readline()
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


def test_a_port_in_use_is_refused_in_a_sentence(tmp_path):
  with socket.create_server(('', 0)) as server:
    port = server.getsockname()[1]
    settings = worker.WorkerSettings(port=port, log_file=str(tmp_path / 'log'))
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
  settings = worker.WorkerSettings(port=free_port, log_file=str(tmp_path / 'log'))
  before = signal.getsignal(signal.SIGTERM)
  assert worker.main(settings) == 1
  assert 'SIGKILL' in capsys.readouterr().err
  assert signal.getsignal(signal.SIGTERM) is before
