"""Who is let in by a host of workers, and what becomes of workers whose run is gone."""

import contextlib
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import bare_client
import file_reading
import networks
import processes
import psutil
import pytest
import served_workers

from tff_textpriv.runtime import (
  tls_connection,
  worker_host,
  worker_process,
)

pytestmark = processes.needs_isolation
_ROOT = pathlib.Path(__file__).parents[2]
_PORT = 10000
_SECRET = b'what the user wrote'


@pytest.fixture(scope='module')
def keys():
  """Two folders with keys: ours, and those of a stranger."""
  with tempfile.TemporaryDirectory() as name:
    for owner in ('ours', 'foreign'):
      served_workers.make_keys(pathlib.Path(name, owner))
    yield pathlib.Path(name)


@contextlib.contextmanager
def _tool(prefix, key_file, folder):
  """The tool, at its post."""
  log_file = f'--log_file={folder / "worker.log"}'
  command = [*prefix, sys.executable, '-m', 'tff_textpriv.tools.worker']
  tool = subprocess.Popen(
    [*command, f'--port={_PORT}', f'--key_file={key_file}', log_file],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    cwd=_ROOT,
  )
  try:
    assert 'Serving' in tool.stdout.readline()
    yield tool
  finally:
    tool.terminate()
    tool.communicate()


def test_a_stranger_on_the_network_gets_nothing_from_a_served_worker(keys, tmp_path):
  secret = tmp_path / 'secret'
  secret.write_bytes(_SECRET)
  value = tmp_path / 'value'
  value.write_bytes(file_reading.message(secret))

  with (
    networks.hosts(3) as (home, worker, stranger),
    _tool(worker.prefix, keys / 'ours' / 'worker.pem', tmp_path) as tool,
  ):

    def ask(host, *key_files, port=_PORT):
      program = [sys.executable, bare_client.__file__, f'{worker.address}:{port}']
      command = [*host.prefix, *program, str(value), *map(str, key_files)]
      return subprocess.run(command, capture_output=True)

    # The run: it has the key, and what the others ask for is there to be had.
    answer = ask(home, keys / 'ours' / 'run.pem')
    assert answer.returncode == 0, answer.stderr
    assert _SECRET in answer.stdout

    attempts = {
      'in plain text': (),
      'without a certificate': (keys / 'ours' / 'authority.pem',),
      'with the certificate of another run': (keys / 'foreign' / 'run.pem',),
      'with what hosts of workers have': (keys / 'ours' / 'worker.pem',),
    }
    for how, key_files in attempts.items():
      answer = ask(stranger, *key_files)
      assert (answer.returncode, answer.stdout) == (bare_client.NO_ANSWER, b''), how
    # None of them has got as far as to a worker.
    assert processes.comes_true(lambda: not psutil.Process(tool.pid).children())

    # A run is at work: nor is there a way around the door, to its own worker.
    with _session(home, worker, keys / 'ours' / 'run.pem'):
      (process,) = psutil.Process(tool.pid).children()
      (option,) = (each for each in process.cmdline() if '--port=' in each)
      inner_port = int(option.removeprefix('--port='))
      for port in {inner_port, inner_port + 1} - {_PORT}:
        assert b'Connection refused' in ask(stranger, port=port).stderr
      network = pathlib.Path('/proc', str(process.pid), 'ns', 'net').readlink()
      assert network != pathlib.Path('/proc', str(tool.pid), 'ns', 'net').readlink()


_HOLD = """
import pathlib, ssl, socket, sys
address, key_file, authority = sys.argv[1:]
context = ssl.create_default_context(cafile=authority)
context.load_cert_chain(key_file)
context.set_alpn_protocols(['h2'])
connection = socket.create_connection((address, 10000))
tls = context.wrap_socket(connection, server_hostname='b-1.worker.tff-textpriv')
tls.recv(1)  # The worker's first words.
print('here', flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def _session(home, worker, key_file):
  """A run that is connected."""
  authority = key_file.with_name('authority.pem')
  command = [sys.executable, '-c', _HOLD, worker.address, str(key_file), str(authority)]
  client = subprocess.Popen(
    [*home.prefix, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
  )
  try:
    assert client.stdout.readline() == 'here\n'
    yield
  finally:
    client.kill()
    client.communicate()


@pytest.fixture
def served(keys, tmp_path, monkeypatch):
  started = []

  class Noted(worker_process.WorkerProcess):
    def __init__(self, *arguments):
      super().__init__(*arguments)
      started.append(psutil.Process(self.pid))

  monkeypatch.setattr(worker_host, 'WorkerProcess', Noted)
  monkeypatch.setattr(worker_host, '_LOOK_SECONDS', 0.05)
  host = served_workers.Served(keys / 'ours', tmp_path)
  host.started = started
  yield host
  host.close()
  assert all(map(processes.ends, started))


def test_a_session_has_one_worker_which_ends_with_its_last_connection(served):
  one, two = served.connect('a-1'), served.connect('a-1')
  (worker,) = served.started
  one.close()
  assert not processes.ends(worker, 0.3)
  two.close()
  assert processes.ends(worker)


def test_runs_have_workers_of_their_own(served):
  one, _ = served.connect('a-1'), served.connect('b-1')
  first, second = served.started
  one.close()
  assert processes.ends(first)
  assert not processes.ends(second, 0.3)


def test_what_a_run_has_given_up_is_computed_no_longer(served):
  old, new = served.connect('a-1'), served.connect('a-2')
  given_up, worker = served.started
  assert processes.ends(given_up)
  assert old.recv(100) is not None and worker.is_running()
  # One that comes late does not bring the old one back.
  assert served.connect('a-1') is None
  assert len(served.started) == 2
  new.close()


def test_a_run_that_fell_silent_without_hanging_up_is_gone(served, monkeypatch):
  monkeypatch.setattr(worker_host, 'SILENCE_SECONDS', 0.5)
  client = served.connect('a-1')
  (worker,) = served.started
  for byte in b'PRI * HTTP/2.0':  # The beginning of what gRPC says first.
    client.send(bytes([byte]))
    time.sleep(0.1)
  assert worker.is_running()
  assert processes.ends(worker)
  assert client.recv(1000) is not None


@pytest.mark.parametrize('name', ['worker', 'a', 'a-b', '../x-1'])
def test_another_name_is_refused(served, name):
  with pytest.raises((ssl.SSLError, ConnectionError, ValueError, AssertionError)):
    assert served.connect(name)
  assert not served.started


def test_strangers_who_say_nothing_do_not_keep_a_run_out(served, monkeypatch):
  monkeypatch.setattr(worker_host, '_HANDSHAKE_SECONDS', 0.5)
  silent = [
    socket.create_connection((served_workers.HERE, served.port)) for _ in range(100)
  ]
  assert processes.comes_true(lambda: _is_let_in(served))
  for each in silent:
    each.close()


def _is_let_in(served):
  try:
    return served.connect('a-1') is not None
  except OSError:
    return False


def test_large_messages_pass_as_they_are_in_both_directions(keys):
  context = tls_connection.server_context(keys / 'ours' / 'worker.pem')
  with socket.create_server(('127.0.0.1', 0)) as server:

    def echo():
      connection, _ = server.accept()
      tls = tls_connection.TlsConnection(connection, context)
      tls.shake_hands(5)
      answers = []
      writer = threading.Thread(target=lambda: _send_all(tls, answers))
      writer.start()
      buffer = memoryview(bytearray(2**18))
      while count := tls.recv_into(buffer):
        answers.append(bytes(buffer[:count]))
      answers.append(b'')
      writer.join()
      tls.close()

    thread = threading.Thread(target=echo)
    thread.start()
    client = ssl.create_default_context(cafile=keys / 'ours' / 'authority.pem')
    client.load_cert_chain(keys / 'ours' / 'run.pem')
    plain = socket.create_connection(server.getsockname())
    sent = bytes(range(256)) * 20_000
    with client.wrap_socket(plain, server_hostname='a-1.worker.tff-textpriv') as tls:
      tls.sendall(sent)
      received = bytearray()
      while len(received) < len(sent):
        received += tls.recv(2**20)
      assert received == sent
    thread.join()


def _send_all(tls, answers):
  """Sends what is put into a list, up to an empty part."""
  sent = 0
  while True:
    if len(answers) > sent:
      if not answers[sent]:
        return
      tls.sendall(memoryview(answers[sent]))
      sent += 1
    else:
      time.sleep(0.001)
