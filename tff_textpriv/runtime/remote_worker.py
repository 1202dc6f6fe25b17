"""A worker on another machine: finding it, watching it, finding it again.

TCP notices only after a quarter of an hour that a cable was pulled, and never if nothing
was under way; behind a tunnel it never does. So a thread asks the worker for a sign of
life every few seconds, on a connection of its own, and closes the one for computations
if there is none. It then knocks until somebody opens.

Importing this module imports TFF.
"""

import re
import threading
import time
import uuid
from collections.abc import Sequence

import grpc

from tff_textpriv.runtime import certificates, connection
from tff_textpriv.runtime.worker_process import WorkerDiedError
from tff_textpriv.settings import SettingsError

BEAT_SECONDS = 5.0
# A worker at work answers at once; one behind a slow network that is full, later.
SILENCE_SECONDS = 20.0
_KNOCK_SECONDS = 1.0
_ANSWER_SECONDS = 10.0
_CLOSE_SECONDS = 5.0

# What gRPC says, and what it means here.
_MEANINGS = {
  'Failed parsing HTTP/2': 'not a TFF worker',
  'WRONG_VERSION_NUMBER': 'a worker served with --insecure, or not a TFF worker',
  'CERTIFICATE_VERIFY_FAILED': 'its key is not the one that goes with --workers_key',
  'BAD_SIGNATURE': 'its key is not the one that goes with --workers_key',
  'Secure read failed': 'it does not accept --workers_key',
  'Socket closed': 'it hung up, as a worker does that wants --workers_key',
}


class RemoteWorker:
  """The connection to a worker that someone started on another machine.

  Attributes:
    connection: What computations go through.
    problem: Why it does not answer, or did not the last time, with its address.
    remedy: What is done about one that stopped answering, for messages.
  """

  remedy = 'connecting again'

  def __init__(self, address: str, keys: certificates.Keys | None):
    """Begins to look for the worker; `wait` waits until it is found.

    Args:
      address: Host and port.
      keys: By which both sides know each other; `None`: neither asks.

    Raises:
      SettingsError: If the address is none.
    """
    host, separator, port = address.rpartition(':')
    if not (host and separator and port.isdecimal() and 0 < int(port) < 65536):
      raise SettingsError('workers', address, 'must be host:port, e.g. 10.0.0.2:10000')
    self.address = address
    self.problem = f'{address}: no answer'
    self._keys = keys
    self._run, self._number = uuid.uuid4().hex, 0
    self._beats = self._open_channel()
    self.connection = connection.Connection(address, self._lost_error)
    self._lock = threading.Lock()
    self._found, self._woken, self._closed = (threading.Event() for _ in range(3))
    self._thread = threading.Thread(
      target=self._watch, name=f'tff-watch-{address}', daemon=True
    )
    self._thread.start()

  @property
  def answers(self) -> bool:
    """Whether it is there, as far as is known."""
    return self._found.is_set()

  def wait(self, seconds: float) -> None:
    """Waits for the worker to answer, at most so long."""
    self._found.wait(seconds)

  def begin_anew(self) -> None:
    """Gives up what it computes, and connects again; `wait` waits for it."""
    self._lose(self.problem)
    self._woken.set()

  def close(self) -> None:
    """Closes the connection; what serves the worker goes on."""
    self._closed.set()
    if self._keys is None:
      # Nobody there notices that the run has left.
      self.connection.close_executors()
    self.begin_anew()
    self._beats.close()
    self.connection.close()
    self._thread.join(_CLOSE_SECONDS)

  def _watch(self) -> None:
    """Finds the worker, and looks after it, again and again."""
    while not self._closed.is_set():
      stub = connection.Stub(self._beats)
      try:
        own = stub.reserve(_ANSWER_SECONDS)
      except (grpc.RpcError, ValueError) as error:
        self.problem = f'{self.address}: {reason(error)}'
        self._begin_session()
        self._closed.wait(_KNOCK_SECONDS)
        continue
      with self._lock:
        if self._closed.is_set():
          return
        self.connection.open(self._open_channel())
        self.problem = f'{self.address}: it stopped answering'
        self._found.set()
      while self._found.is_set():
        self._woken.wait(BEAT_SECONDS)
        self._woken.clear()
        try:
          if self._found.is_set():
            self._check(stub, own)
        except (grpc.RpcError, ValueError, ConnectionError) as error:
          self._lose(f'{self.address}: {reason(error)}')
      if not self._closed.is_set():
        self._begin_session()

  def _check(self, stub: connection.Stub, own: object) -> None:
    """Asks for a sign of life; an error if there is none."""
    answer = stub.reserve(SILENCE_SECONDS)
    stub.give_back(answer)
    if answer != own:
      raise ConnectionError('it was started anew')

  def _lose(self, problem: str) -> None:
    """Ends what is under way; `_watch` then looks for the worker."""
    with self._lock:
      if self._found.is_set():
        self.problem = problem
        self._found.clear()
        self.connection.cut()
        self._beats.close()

  def _begin_session(self) -> None:
    """Begins a session, which gives up what the one before has asked for."""
    self._beats.close()
    self._number += 1
    self._beats = self._open_channel()

  def _open_channel(self) -> grpc.Channel:
    """Returns a new connection for the present session."""
    name = f'{self._run}-{self._number}.{certificates.DOMAIN}'
    return connection.channel_elsewhere(self.address, self._keys, name)

  def _lost_error(self) -> WorkerDiedError:
    return WorkerDiedError(f'The TFF worker at {self.problem}.')


def wait_for_all(workers: Sequence[RemoteWorker], seconds: float) -> None:
  """Waits for workers at the start of a run.

  Raises:
    SettingsError: If some do not answer in time; names all of them, with the reasons.
  """
  deadline = time.monotonic() + seconds
  for worker in workers:
    worker.wait(max(0.0, deadline - time.monotonic()))
  missing = [worker for worker in workers if not worker.answers]
  if missing:
    raise SettingsError(
      'workers',
      [worker.address for worker in missing],
      f'no TFF worker answered within {seconds:g} s ('
      + '; '.join(worker.problem for worker in missing)
      + '); start one there with `python -m tff_textpriv.tools.worker` and check host,'
      ' port, firewall and keys',
    )


def reason(error: Exception) -> str:
  """Says in a few words why a worker does not answer, and what gRPC says of it."""
  if not isinstance(error, grpc.Call):
    return str(error)
  if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
    return 'no answer'
  details = re.sub(
    r'^.*last error: \w+: (ipv[46]:\S+: )?', '', error.details() or error.code().name
  )
  if error.code() is grpc.StatusCode.UNIMPLEMENTED:
    return f'not a TFF worker ({details})'
  for sign, meaning in _MEANINGS.items():
    if sign in details:
      return f'{meaning} ({details})'
  return details
