"""Nobody on the network: who can reach a run's workers, and who cannot.

The stranger speaks to a worker as TFF does, and asks for a file of the user's.
"""

import contextlib
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence

import bare_client
import file_reading
import networks
import numpy as np
import processes
import psutil
import pytest
import tensorflow_federated as tff

from tff_textpriv.runtime import (
  doors,
  isolated_launcher,
  isolation,
  worker_process,
)
from tff_textpriv.runtime.execution import execution
from tff_textpriv.runtime.worker_process import WorkerDiedError, WorkerProcess
from tff_textpriv.settings import SettingsError

_SECRET = b'what the user wrote'
_NOBODY = 65534
# Nobody may not enter the folder where Python stands, if that is root's.
_AS_NOBODY = (
  'setpriv',
  f'--reuid={_NOBODY}',
  f'--regid={_NOBODY}',
  '--clear-groups',
  '--bounding-set=-all,+dac_read_search',
  '--inh-caps=-all,+dac_read_search',
  '--ambient-caps=-all,+dac_read_search',
)

needs_root = pytest.mark.skipif(
  os.geteuid() != 0 or shutil.which('setpriv') is None,
  reason='to become another user needs root and setpriv',
)


@tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
def _total(values):
  return tff.federated_sum(values)


@pytest.fixture
def folder():
  """A folder that other users can reach, with a secret and the message that reads it."""
  with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    secret = folder / 'secret'
    secret.touch(0o600)
    secret.write_bytes(_SECRET)
    (folder / 'value').write_bytes(file_reading.message(secret))
    yield folder


def _stranger(
  folder: pathlib.Path, address: str, prefix: Sequence[str] = ()
) -> subprocess.CompletedProcess:
  """Asks whoever listens there for the secret."""
  program = [sys.executable, bare_client.__file__, address, str(folder / 'value')]
  return subprocess.run([*prefix, *program], capture_output=True)


_RUN = """
import pathlib, sys
folder, policy, tests = sys.argv[1:]
sys.path.insert(0, tests)
import bare_client
from tff_textpriv.runtime import isolation, worker_process
door = isolation.door_maker(policy)()
worker = worker_process.WorkerProcess(pathlib.Path(folder, 'worker.log'), door)
answer = bare_client.ask(door.address, pathlib.Path(folder, 'value').read_bytes())
print(worker.pid, answer.hex(), flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def _run(
  folder: pathlib.Path, policy: str, prefix: Sequence[str]
) -> Iterator[psutil.Process]:
  """A run by itself, without TFF, whose worker has read the secret; its worker."""
  tests = str(pathlib.Path(__file__).parent)
  run = subprocess.Popen(
    [*prefix, sys.executable, '-c', _RUN, str(folder), policy, tests],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
  )
  try:
    pid, answer = run.stdout.readline().split()
    assert _SECRET in bytes.fromhex(answer)
    yield psutil.Process(int(pid))
  finally:
    run.kill()
    run.communicate()


@pytest.fixture(scope='module')
def hosts():
  """Two hosts on a network: at home, and elsewhere."""
  with networks.hosts(2) as made:
    yield made


def _port(pid: int) -> int:
  """Returns the port on which a worker listens, in whatever network it is."""
  (option,) = (each for each in psutil.Process(pid).cmdline() if '--port=' in each)
  return int(option.removeprefix('--port='))


def _ports_here(pid: int) -> set[int]:
  """Returns the ports of our network on which a process or its children listen."""
  inodes = set()
  root = psutil.Process(pid)
  for process in [root, *root.children(recursive=True)]:
    for link in pathlib.Path(f'/proc/{process.pid}/fd').iterdir():
      inodes.add(os.readlink(link).removeprefix('socket:[').removesuffix(']'))
  ports = set()
  for table in ('tcp', 'tcp6'):
    for line in pathlib.Path('/proc/self/net', table).read_text().splitlines()[1:]:
      _, local, _, state, *_, inode = line.split()[:10]
      if state == '0A' and inode in inodes:  # It listens.
        ports.add(int(local.split(':')[1], 16))
  return ports


@processes.needs_isolation
def test_nobody_else_on_the_machine_gets_to_the_workers_of_a_run(tmp_path, folder):
  with execution(num_workers=2, log_dir=tmp_path) as runtime:
    assert _total([1, 2, 3]) == 6
    for worker in runtime.workers:
      pid = worker.process.pid
      assert _ports_here(pid) == set()
      answer = _stranger(folder, f'localhost:{_port(pid)}')
      assert (answer.returncode, answer.stdout) == (bare_client.NO_ANSWER, b'')
      assert b'UNAVAILABLE' in answer.stderr
    assert _total([1, 2, 3]) == 6


def test_without_isolation_the_same_stranger_reads_a_file(tmp_path, folder):
  # The broken twin: what the test above must be able to notice.
  with execution(isolate_workers='off', log_dir=tmp_path) as runtime:
    pid = runtime.workers[0].process.pid
    assert _ports_here(pid) == {_port(pid)}
    answer = _stranger(folder, f'localhost:{_port(pid)}')
    assert answer.returncode == 0, answer.stderr
    assert _SECRET in answer.stdout


@processes.needs_isolation
def test_a_stranger_on_the_network_does_not_get_to_the_worker_of_a_run(folder, hosts):
  home, elsewhere = hosts
  with _run(folder, 'auto', home.prefix) as worker:
    answer = _stranger(folder, f'{home.address}:{_port(worker.pid)}', elsewhere.prefix)
  assert (answer.returncode, answer.stdout) == (bare_client.NO_ANSWER, b'')
  # The machine was reached, and said that nobody listens.
  assert b'Connection refused' in answer.stderr


def test_without_isolation_a_stranger_on_the_network_reads_a_file(folder, hosts):
  home, elsewhere = hosts
  with _run(folder, 'off', home.prefix) as worker:
    answer = _stranger(folder, f'{home.address}:{_port(worker.pid)}', elsewhere.prefix)
  assert answer.returncode == 0, answer.stderr
  assert _SECRET in answer.stdout


@processes.needs_isolation
def test_the_socket_is_private_while_it_has_a_name_and_then_has_none(
  tmp_path, monkeypatch
):
  held = []
  hold = doors.PrivateSocket._hold

  def look(door, path):
    folder = os.path.dirname(path)
    held.append((path, stat.S_IMODE(os.stat(path).st_mode), os.stat(folder).st_mode))
    hold(door, path)

  monkeypatch.setattr(doors.PrivateSocket, '_hold', look)
  monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path))
  before = os.umask(0)
  try:
    door = doors.PrivateSocket()
    worker = WorkerProcess(tmp_path / 'worker.log', door)
  finally:
    os.umask(before)
  try:
    (folder, folder_mode, _), (path, mode, parent_mode) = held
    assert os.path.dirname(path) == folder
    assert (folder_mode, mode, stat.S_IMODE(parent_mode)) == (0o700, 0o600, 0o700)
    left = os.stat(door.address.removeprefix('unix:'))
    assert stat.S_ISSOCK(left.st_mode) and stat.S_IMODE(left.st_mode) == 0o600
    assert left.st_nlink == 0
    assert sorted(os.listdir(tmp_path)) == ['worker.log']
    assert door.answers()
  finally:
    worker.stop()
    door.close()


@processes.needs_isolation
def test_a_long_name_of_the_temporary_folder_does_not_matter(tmp_path, monkeypatch):
  folder = tmp_path / ('long' * 30)
  folder.mkdir()
  monkeypatch.setattr(tempfile, 'tempdir', str(folder))
  door = doors.PrivateSocket()
  worker = WorkerProcess(tmp_path / 'worker.log', door)
  assert door.answers()
  worker.stop()
  door.close()


_CONNECT = """
import socket, sys
try:
  socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except OSError as error:
  sys.exit(error.strerror)
"""


@processes.needs_isolation
@needs_root
def test_another_user_of_the_machine_does_not_get_in(tmp_path):
  door = doors.PrivateSocket()
  worker = WorkerProcess(tmp_path / 'worker.log', door)
  path = door.address.removeprefix('unix:').replace('self', str(os.getpid()))
  connect = [sys.executable, '-c', _CONNECT, path]
  try:
    # The same program, were it ours, finds the way: the path is right.
    assert subprocess.run(connect).returncode == 0
    other = subprocess.run([*_AS_NOBODY, *connect], capture_output=True, text=True)
    assert (other.returncode, other.stderr) == (1, 'Permission denied\n')
  finally:
    worker.stop()
    door.close()


@processes.needs_isolation
@needs_root
def test_an_ordinary_user_has_isolated_workers_who_read_the_users_own_files(folder):
  for path in (folder, *folder.iterdir()):
    os.chown(path, _NOBODY, _NOBODY)
  with _run(folder, 'require', _AS_NOBODY) as worker:
    (relay,) = worker.children()
    assert worker.uids().real == relay.uids().real == _NOBODY
    assert _ports_here(worker.pid) == set()
    for kind in ('net', 'user'):
      assert len({_namespace(pid, kind) for pid in (os.getpid(), worker.pid)}) == 2
      assert len({_namespace(pid, kind) for pid in (relay.pid, worker.pid)}) == 1
  # The run was killed.
  assert processes.ends(worker) and processes.ends(relay)


def _namespace(pid: int, kind: str) -> str:
  return os.readlink(f'/proc/{pid}/ns/{kind}')


@processes.needs_isolation
def test_a_worker_whose_way_in_is_gone_is_reported_and_replaced(tmp_path):
  with execution(log_dir=tmp_path) as runtime:
    (worker,) = runtime.workers
    assert _total([1, 2]) == 3
    (relay,) = psutil.Process(worker.process.pid).children()
    relay.kill()
    with pytest.raises(WorkerDiedError, match='does not answer'):
      _total([1, 2])
    runtime.restart()
    assert _total([1, 2, 3]) == 6


_THREE_WORKERS = """
import os, pathlib, sys
from tff_textpriv.runtime import doors, worker_process
before = os.listdir('/proc/self/fd')
door = doors.PrivateSocket()
for _ in range(3):
  worker_process.WorkerProcess(pathlib.Path(sys.argv[1]), door).stop()
  assert len(os.listdir('/proc/self/fd')) == len(before) + 1
door.close()
assert os.listdir('/proc/self/fd') == before
"""


@processes.needs_isolation
def test_workers_that_take_each_others_place_leave_no_open_files(tmp_path):
  # In a process of its own: here, gRPC opens and closes files when it likes.
  log = str(tmp_path / 'worker.log')
  subprocess.run([sys.executable, '-c', _THREE_WORKERS, log], check=True)


_REFUSED = """
from tff_textpriv.runtime import doors, isolation
from tff_textpriv.settings import SettingsError
for _ in range(2):
  assert isolation.door_maker('auto') is doors.OpenPort
try:
  isolation.door_maker('require')
except SettingsError as error:
  print(error)
"""


def test_a_kernel_that_refuses_is_told_of_once_with_the_remedy():
  # In a user namespace of its own, whose limit on networks it can set: none.
  limit = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'
  inside = ['unshare', '--user', '--map-root-user', 'sh', '-c', limit, 'sh']
  if shutil.which('unshare') is None or subprocess.run([*inside, 'true']).returncode:
    pytest.skip('the kernel cannot be made to refuse: no unshare, or no limit to set')
  refused = subprocess.run(
    [*inside, sys.executable, '-c', _REFUSED], capture_output=True, text=True
  )
  assert refused.returncode == 0, refused.stderr
  assert refused.stderr.count('WARNING') == refused.stderr.count('\n') == 1
  remedy = '`sysctl -w user.max_net_namespaces='
  assert remedy in refused.stderr
  assert 'read and write files as you' in refused.stderr
  assert refused.stdout.startswith('--isolate_workers=require: the kernel allows no')
  assert remedy in refused.stdout


@pytest.mark.parametrize(
  ('switches', 'remedy'),
  [
    ({}, 'run as root; in a container'),
    ({'kernel/unprivileged_userns_clone': '1'}, 'run as root'),
    (
      {'kernel/unprivileged_userns_clone': '0', 'user/max_user_namespaces': '0'},
      'kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000`',
    ),
    (
      {'kernel/apparmor_restrict_unprivileged_userns': '1'},
      'kernel.apparmor_restrict_unprivileged_userns=0`',
    ),
  ],
)
def test_the_remedy_is_that_of_the_machine(tmp_path, monkeypatch, switches, remedy):
  for name, text in switches.items():
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(f'{text}\n')
  monkeypatch.setattr(isolation, '_SYSCTL', tmp_path)
  refusal = f'echo Operation not permitted >&2; exit {isolated_launcher.REFUSED}'
  monkeypatch.setattr(doors, 'ISOLATED', ('sh', '-c', refusal))
  problem = isolation.obstacle()
  assert '(Operation not permitted)' in problem
  assert remedy in problem


@pytest.mark.parametrize('end', ['kill -9 $$', 'exit 1'])
def test_an_attempt_that_is_cut_short_does_not_open_the_door(
  tmp_path, monkeypatch, end
):
  monkeypatch.setattr(doors, 'ISOLATED', ('/bin/sh', '-c', end))
  make_door = isolation.door_maker('auto')
  assert make_door is doors.PrivateSocket
  with pytest.raises(WorkerDiedError):
    WorkerProcess(tmp_path / 'worker.log', make_door())


def test_a_run_that_must_be_isolated_refuses_what_cannot_be(tmp_path, monkeypatch):
  monkeypatch.setattr(isolation, 'obstacle', lambda: 'the kernel says no')
  with (
    pytest.raises(SettingsError, match='--isolate_workers=require: the kernel says no'),
    execution(isolate_workers='require', log_dir=tmp_path / 'none'),
  ):
    pass
  assert not (tmp_path / 'none').exists()


def test_a_run_that_cannot_be_isolated_goes_on_with_a_warning(
  tmp_path, monkeypatch, capfd
):
  monkeypatch.setattr(isolation, 'obstacle', lambda: 'this kernel says no')
  for _ in range(2):
    with execution(log_dir=tmp_path) as runtime:
      assert _total([1, 2, 3]) == 6
      assert _ports_here(runtime.workers[0].process.pid)
  assert capfd.readouterr().err.count('WARNING: while this run lasts') == 1


_ECHO = """
import socket, sys, threading
def echo(connection):
  while data := connection.recv(10_000):
    connection.sendall(data)
  connection.close()
server = socket.create_server(('127.0.0.1', int(sys.argv[1].split('=')[1])))
while True:
  threading.Thread(target=echo, args=server.accept()[:1], daemon=True).start()
"""


@processes.needs_isolation
def test_bytes_pass_as_they_are_in_both_directions(tmp_path, monkeypatch):
  program = tmp_path / 'echo'
  program.write_text(f'#!{sys.executable}\n{_ECHO}')
  program.chmod(0o700)
  monkeypatch.setattr(worker_process, 'worker_binary', lambda: program)
  door = doors.PrivateSocket()
  worker = WorkerProcess(tmp_path / 'log', door)
  with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
    for client in (first, second):
      client.connect(door.address.removeprefix('unix:'))
    for client in (first, second, first):
      sent = os.urandom(5_000_001)
      sender = threading.Thread(target=client.sendall, args=(sent,))
      sender.start()
      received = bytearray()
      while len(received) < len(sent):
        received += client.recv(2**20)
      sender.join()
      assert received == sent
    second.shutdown(socket.SHUT_RDWR)
    assert first.send(b'still here') and first.recv(100) == b'still here'
    worker.stop()
    assert first.recv(1) == b''
  door.close()
  assert (tmp_path / 'log').read_text() == ''
