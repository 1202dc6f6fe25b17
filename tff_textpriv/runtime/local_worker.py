"""A worker process of this machine and the connection to it."""

from pathlib import Path

from tff_textpriv.runtime import connection, doors
from tff_textpriv.runtime.worker_process import Limits, WorkerDiedError, WorkerProcess

_CONNECT_SECONDS = 30.0
# How long the process of a worker that stopped answering is given to end.
_EXIT_SECONDS = 2.0


class LocalWorker:
  """A worker of this machine, which can be started again at any time."""

  answers = True
  problem = address = ''  # Never left out, and so never named.
  remedy = 'restarting it'

  def __init__(self, log_file: Path, door: doors.Door, limits: Limits):
    """Starts a process; `wait` waits for its answer."""
    self._log_file = log_file
    self._door = door
    self._limits = limits
    self.process = WorkerProcess(log_file, door, limits)
    self.connection = connection.Connection(door.address, self._lost_error)
    self.connection.open(connection.channel_here(door.address))

  def wait(self, seconds: float = _CONNECT_SECONDS) -> None:
    """Waits for the process to answer; `WorkerDiedError` if it does not."""
    try:
      self.connection.wait_until_ready(seconds)
    except ConnectionError as error:
      raise self.process.died_error() from error

  def begin_anew(self) -> None:
    """Starts another process behind the same door, after ending the one there."""
    self.process.stop()
    self.connection.close_executors()
    self.process = WorkerProcess(self._log_file, self._door, self._limits)
    self.wait()

  def close(self) -> None:
    """Stops the process and closes the connection."""
    self.process.stop()
    self.connection.close()
    self._door.close()

  def _lost_error(self) -> WorkerDiedError:
    self.process.wait(_EXIT_SECONDS)
    return self.process.died_error()
