"""Workers for runs on other machines: behind TLS, and one for each session of a run.

A run calls by a name of its own, `<run>-<number>.worker.tff-textpriv`. The first call by
a name starts a worker, in a network of its own, and all calls by it reach that worker.
It is ended when the last connection is closed, when the run calls by its next number,
since it has given up what this worker computes, or when nothing was heard of the run for
a while. So nothing stays in memory of a run that is gone, and nobody computes for it.
"""

import contextlib
import logging
import pathlib
import socket
import ssl
import threading
import time

from tff_textpriv.runtime import certificates, doors, isolated_launcher
from tff_textpriv.runtime.tls_connection import TlsConnection
from tff_textpriv.runtime.worker_process import Limits, WorkerDiedError, WorkerProcess

# A run makes itself heard every few seconds.
SILENCE_SECONDS = 60.0
_HANDSHAKE_SECONDS = 10.0
_MOST_STRANGERS = 64
_LOOK_SECONDS = 1.0

_LOGGER = logging.getLogger(__name__)


class _Session:
  """A worker for one session of a run, and the run's connections to it."""

  def __init__(self, log_file: pathlib.Path, limits: Limits):
    self._door = doors.HandedSocket()
    self._worker = WorkerProcess(log_file, self._door, limits)
    self.connections: set[TlsConnection] = set()

  @property
  def heard(self) -> float:
    """When something came from the run last."""
    return max((each.heard for each in self.connections), default=time.monotonic())

  def connect(self) -> socket.socket:
    """Returns a new connection to the worker."""
    return self._door.connect()

  def end(self) -> None:
    """Ends the worker, which closes all connections to it."""
    self._worker.stop()
    self._door.close()


class WorkerHost:
  """Lets in whoever has the right key, and gives each session a worker."""

  def __init__(
    self,
    server: socket.socket,
    context: ssl.SSLContext,
    log_file: pathlib.Path,
    limits: Limits,
  ):
    """Prepares; `serve` lets connections in.

    Args:
      server: A socket that listens.
      context: Made by `tls_connection.server_context`.
      log_file: Where the output of workers goes.
      limits: How each worker uses the machine.
    """
    self._server = server
    self._context = context
    self._log_file = log_file
    self._limits = limits
    self._lock = threading.Lock()
    # By run and number.
    self._sessions: dict[tuple[str, int], _Session] = {}
    self._strangers = threading.BoundedSemaphore(_MOST_STRANGERS)

  def serve(self) -> None:
    """Lets connections in until an error, or Ctrl-C, ends it; then all workers end."""
    self._server.settimeout(_LOOK_SECONDS)
    try:
      while True:
        with contextlib.suppress(TimeoutError):
          connection, address = self._server.accept()
          # Strangers who say nothing must not have threads without end.
          if self._strangers.acquire(blocking=False):
            threading.Thread(
              target=self._admit, args=(connection, address[0]), daemon=True
            ).start()
          else:
            connection.close()
        self._end_silent_sessions()
    finally:
      with self._lock:
        while self._sessions:
          self._sessions.popitem()[1].end()

  def _admit(self, connection: socket.socket, host: str) -> None:
    """Serves a connection, if it comes from a run with the right key."""
    with contextlib.closing(TlsConnection(connection, self._context)) as tls:
      try:
        tls.shake_hands(_HANDSHAKE_SECONDS)
        key = _run_and_number(tls.server_name)
      except (OSError, ValueError) as error:
        _LOGGER.warning('refused a connection from %s: %s', host, error)
        return
      finally:
        self._strangers.release()
      connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
      try:
        with self._enter(key, tls, host) as worker:
          isolated_launcher.pass_on(tls, worker)
      except (WorkerDiedError, OSError, ValueError) as error:
        _LOGGER.error('no worker for %s: %s', host, error)
      finally:
        self._leave(key, tls, host)

  def _enter(
    self, key: tuple[str, int], tls: TlsConnection, host: str
  ) -> socket.socket:
    """Returns a connection to a session's worker, which is started if it is new.

    Raises:
      WorkerDiedError: If it does not start.
      ValueError: If the run has a later session already.
    """
    run, number = key
    with self._lock:
      for other_run, other_number in list(self._sessions):
        if other_run != run or other_number == number:
          continue
        if other_number > number:
          raise ValueError('the run has called by a later number')
        _LOGGER.info('the run at %s begins anew', host)
        self._sessions.pop((other_run, other_number)).end()
      if key not in self._sessions:
        self._sessions[key] = _Session(self._log_file, self._limits)
        _LOGGER.info('a worker for a run at %s', host)
      session = self._sessions[key]
      session.connections.add(tls)
      return session.connect()

  def _leave(self, key: tuple[str, int], tls: TlsConnection, host: str) -> None:
    """Ends a session with its last connection."""
    with self._lock:
      session = self._sessions.get(key)
      if session is None:
        return
      session.connections.discard(tls)
      if not session.connections:
        del self._sessions[key]
        session.end()
        _LOGGER.info('the run at %s has left; its worker is ended', host)

  def _end_silent_sessions(self) -> None:
    """Ends the workers of runs that vanished without hanging up."""
    with self._lock:
      for key, session in list(self._sessions.items()):
        if time.monotonic() - session.heard > SILENCE_SECONDS:
          _LOGGER.warning('a run was not heard for %g s', SILENCE_SECONDS)
          del self._sessions[key]
          session.end()


def _run_and_number(server_name: str) -> tuple[str, int]:
  """Reads by which name a run calls; `ValueError` if it is not one of ours."""
  label, _, domain = server_name.partition('.')
  run, _, number = label.partition('-')
  if domain != certificates.DOMAIN or not (run.isalnum() and number.isdecimal()):
    raise ValueError('it asks for another server')
  return run, int(number)
