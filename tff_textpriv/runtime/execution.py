"""The one place that owns TFF's execution: starts, connects and stops workers.

    with execution(num_workers=2, log_dir=folder):
      state = process.initialize()
      state = process.next(state, cohort).state

TFF is imported only when an execution begins.
"""

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tff_textpriv.runtime import doors, isolation
from tff_textpriv.runtime.worker_process import (
  Limits,
  WorkerDiedError,
  WorkerProcess,
  share_cores,
)
from tff_textpriv.settings import IncompatibleSettingsError, SettingsError

if TYPE_CHECKING:
  pass

CONNECT_SECONDS = 30.0
# How long the process of a worker that stopped answering is given to end.
_EXIT_SECONDS = 2.0


class LocalWorker:
  """A worker process of this machine and the connection to it."""

  def __init__(self, log_file: Path, door: doors.Door, limits: Limits):
    from tff_textpriv.runtime.connection import Connection

    self._log_file = log_file
    self._door = door
    self._limits = limits
    self.process = WorkerProcess(log_file, door, limits)
    self.connection = Connection(door.address, self._lost_error)

  def wait_until_ready(self) -> None:
    """Waits for the process to answer; `WorkerDiedError` if it does not."""
    try:
      self.connection.wait_until_ready(CONNECT_SECONDS)
    except ConnectionError as error:
      raise self.process.died_error() from error

  def restart(self) -> None:
    """Starts another process behind the same door, after ending the one there."""
    self.process.stop()
    self.connection.close_executors()
    self.process = WorkerProcess(self._log_file, self._door, self._limits)
    self.wait_until_ready()

  def close(self) -> None:
    """Stops the process and closes the connection."""
    self.process.stop()
    self.connection.close()
    self._door.close()

  def _lost_error(self) -> WorkerDiedError:
    self.process.wait(_EXIT_SECONDS)
    return self.process.died_error()


class RemoteWorker:
  """The connection to a worker that someone started on another machine."""

  def __init__(self, address: str, connect_seconds: float):
    from tff_textpriv.runtime.connection import Connection

    host, separator, port = address.rpartition(':')
    if not (host and separator and port.isdecimal() and 0 < int(port) < 65536):
      raise SettingsError('workers', address, 'must be host:port, e.g. 10.0.0.2:10000')
    self._address = address
    self._connect_seconds = connect_seconds
    self.connection = Connection(address, self._lost_error)

  def wait_until_ready(self) -> None:
    """Waits for the worker to answer; `SettingsError` if it does not."""
    try:
      self.connection.wait_until_ready(self._connect_seconds)
    except ConnectionError as error:
      raise SettingsError(
        'workers',
        self._address,
        f'no TFF worker answered within {self._connect_seconds:g} s; start one there'
        ' with `python -m tff_textpriv.tools.worker` and check host, port, firewall',
      ) from error

  def restart(self) -> None:
    """Connects again; starting the worker is up to its own machine."""
    self.connection.close_executors()
    try:
      self.wait_until_ready()
    except SettingsError as error:
      raise WorkerDiedError(str(error)) from error

  def close(self) -> None:
    """Closes the connection; the worker goes on."""
    self.connection.close()

  def _lost_error(self) -> WorkerDiedError:
    return WorkerDiedError(f'The TFF worker at {self._address} stopped answering.')


class Runtime:
  """The workers of an execution, in the order in which they share a cohort."""

  def __init__(self, workers: Sequence[LocalWorker | RemoteWorker]):
    self.workers = tuple(workers)

  def restart(self) -> None:
    """Replaces all workers, after a `WorkerDiedError` or to end a computation.

    After Ctrl-C, a computation that was under way still occupies its workers.
    What was traced and compiled is kept.
    """
    for worker in self.workers:
      worker.restart()


@contextlib.contextmanager
def execution(
  num_workers: int = 1,
  workers: Sequence[str] = (),
  max_concurrent_clients: int = 0,
  *,
  isolate_workers: str = 'auto',
  cohort_size: int | None = None,
  log_dir: Path,
  connect_seconds: float = CONNECT_SECONDS,
) -> Iterator[Runtime]:
  """Lets TFF computations of this thread run on workers, which it owns.

  However the block is left, local workers are stopped and the context that TFF had
  before is in force again.

  Args:
    num_workers: Local workers to start; a cohort is spread over them.
    workers: `host:port` of workers on other machines, to be used instead.
    max_concurrent_clients: Clients that a local worker trains at a time; 0 for as
      many as the worker has cores to itself.
    isolate_workers: Whether strangers are kept from local workers; one of
      `isolation.POLICIES`.
    cohort_size: Clients in a round, if that is known: few of them get several cores
      each.
    log_dir: The folder for the local workers' logs.
    connect_seconds: How long to wait for a worker on another machine.

  Yields:
    The workers, to replace those that died.

  Raises:
    SettingsError: If a worker on another machine does not answer, or if local ones must
      be isolated and cannot be.
  """
  if workers and num_workers != 1:
    raise IncompatibleSettingsError(
      '--num_workers starts workers here and --workers uses others: give one of them'
    )
  if workers and isolate_workers == 'require':
    raise IncompatibleSettingsError(
      '--isolate_workers=require is for workers here and --workers uses others, which'
      ' are open to whoever reaches them: give one of them'
    )
  import tensorflow_federated as tff

  from tff_textpriv.runtime import spread

  with contextlib.ExitStack() as stack:
    started: list[LocalWorker | RemoteWorker] = []
    limits = share_cores(
      max(1, len(os.sched_getaffinity(0)) // num_workers),
      max_concurrent_clients,
      None if cohort_size is None else math.ceil(cohort_size / num_workers),
    )
    make_door = None if workers else isolation.door_maker(isolate_workers)
    for index in range(len(workers) or num_workers):
      worker: LocalWorker | RemoteWorker
      if make_door is None:
        worker = RemoteWorker(workers[index], connect_seconds)
      else:
        worker = LocalWorker(log_dir / f'worker_{index}.log', make_door(), limits)
      stack.callback(worker.close)
      started.append(worker)
    for worker in started:
      worker.wait_until_ready()
    context = spread.SpreadContext([worker.connection for worker in started])
    stack.enter_context(tff.framework.get_context_stack().install(context))
    yield Runtime(started)
