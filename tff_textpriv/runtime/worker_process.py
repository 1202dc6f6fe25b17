"""One TFF worker process of this machine: start, watch, stop, leave no orphan.

Nothing here imports TensorFlow, so that tools that only start a worker answer at
once.
"""

import atexit
import importlib.util
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tff_textpriv.runtime import bound_process, doors, heaps

_POLL_SECONDS = 0.02
_START_SECONDS = 30.0
_GRACE_SECONDS = 5.0
_LOG_TAIL_BYTES = 2000


class WorkerDiedError(ValueError):
  """A worker is gone or does not answer; what it was computing is lost.

  Mostly the machine has too little memory, which is for the user to mend.
  """


def worker_binary() -> Path:
  """Finds TFF's worker program without importing TFF."""
  spec = importlib.util.find_spec('tensorflow_federated')
  if spec is None or spec.origin is None:
    raise FileNotFoundError('the package tensorflow-federated is not installed')
  path = Path(spec.origin).parent / 'data' / 'worker_binary'
  if not os.access(path, os.X_OK):
    raise FileNotFoundError(f'{path}: TFF’s worker program is missing; reinstall TFF')
  return path


class Limits(NamedTuple):
  """How many clients a worker trains at a time, and with how many threads each.

  Attributes:
    max_concurrent_clients: Clients at a time; 0: no limit.
    num_threads: The threads of TensorFlow's operations; 0: one per core.
  """

  max_concurrent_clients: int = 0
  num_threads: int = 0


NO_LIMITS = Limits()


def share_cores(
  num_cores: int, max_concurrent_clients: int = 0, cohort_size: int | None = None
) -> Limits:
  """Divides a worker's cores among the clients that it trains at the same time.

  One client a core, each on one thread, is fastest: operations of small models are
  too short to be split. A cohort with fewer clients than cores gets more threads.

  Args:
    num_cores: The cores that the worker has to itself.
    max_concurrent_clients: The most clients at a time; 0: as many as are fastest.
    cohort_size: The clients that the worker gets in a round; `None`: many.

  Returns:
    The worker's limits.
  """
  clients = max_concurrent_clients or num_cores
  if cohort_size is not None:
    clients = max(1, min(clients, cohort_size))
  return Limits(clients, max(1, num_cores // clients))


class WorkerProcess:
  """A TFF worker that lives no longer than this Python process.

  It is stopped by `stop()`, at interpreter exit, and, should this process be
  killed, by the kernel. It has a session of its own, so that Ctrl-C in the
  terminal reaches only this process, which then decides.

  The TFF worker always listens on all network interfaces and asks nobody for a
  password. Who can reach it depends on its door.

  Attributes:
    log_file: Where the worker's output goes; appended to, private to the user.
  """

  def __init__(
    self,
    log_file: Path,
    door: doors.Door,
    limits: Limits = NO_LIMITS,
  ):
    """Starts a worker and waits until it listens.

    Args:
      log_file: The file for its output; its folder is made if missing.
      door: How it is reached.
      limits: How it uses the machine.

    Raises:
      PortInUseError: If something listens on the door's port.
      WorkerDiedError: If the worker ends before it listens.
    """
    self.log_file = log_file
    with door.prepared() as entrance:
      self._process = self._start(
        [
          *entrance.launcher,
          str(worker_binary()),
          f'--port={entrance.port}',
          f'--max_concurrent_computation_calls={limits.max_concurrent_clients or -1}',
        ],
        _environment(limits.num_threads),
        entrance.descriptors,
      )
      atexit.register(self.stop)
      try:
        self._wait_until_listening(door)
      except BaseException:
        self.stop()
        raise

  @property
  def pid(self) -> int:
    """The worker's process id."""
    return self._process.pid

  @property
  def exit_code(self) -> int | None:
    """Its exit code, negative if a signal ended it; None while it runs."""
    return self._process.poll()

  def wait(self, timeout: float | None = None) -> int | None:
    """Waits until the worker has ended; returns its exit code, None if it runs."""
    self._keeper.join(timeout)
    return self.exit_code

  def stop(self) -> None:
    """Ends the worker: politely, after a grace time by force. Can be repeated."""
    atexit.unregister(self.stop)
    self._process.terminate()
    if self.wait(_GRACE_SECONDS) is None:
      self._process.kill()
      self.wait()

  def died_error(self) -> WorkerDiedError:
    """Describes the end of a worker that was not asked to end."""
    code = self.exit_code
    how = 'does not answer' if code is None else bound_process.how_it_ended(code)
    return WorkerDiedError(
      f'The TFF worker (process {self.pid}) {how}. The end of its log,'
      f' {self.log_file}:\n{self.log_tail()}'
    )

  def log_tail(self) -> str:
    """Returns the last lines of the worker's output."""
    with open(self.log_file, 'rb') as log:
      log.seek(0, os.SEEK_END)
      log.seek(max(0, log.tell() - _LOG_TAIL_BYTES))
      return log.read().decode(errors='replace').strip()

  def _start(
    self,
    command: list[str],
    environment: Mapping[str, str],
    descriptors: Sequence[int],
  ) -> subprocess.Popen:
    """Runs `command` from a thread that lives as long as the process does.

    The kernel takes the end of the thread that started a process for the end of
    its parent, so the caller's thread, which may end sooner, will not do.
    """
    started = threading.Event()
    outcome: list[subprocess.Popen | BaseException] = []

    def keep() -> None:
      try:
        process = _spawn(command, environment, descriptors, self.log_file)
      except BaseException as error:  # Raised again in the caller's thread.
        outcome.append(error)
        started.set()
        return
      outcome.append(process)
      started.set()
      process.wait()

    self._keeper = threading.Thread(target=keep, name='tff-worker', daemon=True)
    self._keeper.start()
    started.wait()
    if isinstance(outcome[0], BaseException):
      raise outcome[0]
    return outcome[0]

  def _wait_until_listening(self, door: doors.Door) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not door.answers():
      if self.exit_code is not None or time.monotonic() > deadline:
        raise self.died_error()
      time.sleep(_POLL_SECONDS)


def _spawn(
  command: list[str],
  environment: Mapping[str, str],
  descriptors: Sequence[int],
  log_file: Path,
) -> subprocess.Popen:
  log_file.parent.mkdir(parents=True, exist_ok=True)
  log = os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
  try:
    os.fchmod(log, 0o600)
    return subprocess.Popen(
      bound_process.command(command),
      stdin=subprocess.DEVNULL,
      stdout=log,
      stderr=log,
      env=environment,
      pass_fds=descriptors,
      start_new_session=True,
    )
  finally:
    os.close(log)


def _environment(num_threads: int) -> dict[str, str]:
  """The worker's environment: this one, what makes it fast and small, and a full log.

  TensorFlow's number of threads has an effect there (OMP_NUM_THREADS has none).
  """
  environment = {
    **os.environ,
    **heaps.environment(),
    'TF_ENABLE_ONEDNN_OPTS': '1',
    # Importing JAX, as TFF does, raises the level in this process.
    'TF_CPP_MIN_LOG_LEVEL': '0',
  }
  if num_threads:
    environment['TF_NUM_INTRAOP_THREADS'] = str(num_threads)
  if num_threads == 1:
    # A client's operations stay in the client's thread: to hand them from one thread
    # to another costs more than it gives where every core has a client.
    environment['TF_NUM_INTEROP_THREADS'] = '-1'
  return environment
