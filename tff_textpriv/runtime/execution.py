"""The one place that owns TFF's execution: starts, connects and stops workers.

    with execution(num_workers=2, log_dir=folder):
      state = process.initialize()
      state = process.next(state, cohort).state

TFF is imported only when an execution begins.
"""

import contextlib
import math
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tff_textpriv.runtime import isolation, worker_process
from tff_textpriv.settings import IncompatibleSettingsError, SettingsError

if TYPE_CHECKING:
  from tff_textpriv.runtime import certificates
  from tff_textpriv.runtime.local_worker import LocalWorker
  from tff_textpriv.runtime.remote_worker import RemoteWorker

CONNECT_SECONDS = 30.0
PATIENCE_SECONDS = 60.0


class TooFewWorkersError(worker_process.WorkerDiedError):
  """So few workers are left that the run is not to go on."""


class Runtime:
  """The workers of an execution, in the order in which they share a cohort."""

  def __init__(
    self,
    workers: 'Sequence[LocalWorker | RemoteWorker]',
    use: 'Callable[[Sequence[LocalWorker | RemoteWorker]], None]',
    patience: float = PATIENCE_SECONDS,
    min_workers: int = 1,
    home: 'LocalWorker | None' = None,
  ):
    """Uses all workers.

    Args:
      workers: Those of this machine, or of others.
      use: Lets computations run on those that it is called with.
      patience: The seconds that one of another machine may be away before the others go
        on without it.
      min_workers: How many there must be at least.
      home: One of this machine that finishes what those of others began.
    """
    self.home = home
    self.workers = tuple(workers)
    self.present = self.workers
    self._use = use
    self._patience = patience
    self._min_workers = min_workers
    use(self.present)

  @property
  def left_out(self) -> int:
    """How many workers do not take part at present."""
    return len(self.workers) - len(self.present)

  @property
  def remedy(self) -> str:
    """What `restart` does about a worker that died, for messages."""
    return self.workers[0].remedy

  def restart(self) -> None:
    """Replaces all workers, after a `WorkerDiedError` or to end a computation.

    After Ctrl-C, a computation that was under way still occupies its workers.
    What was traced and compiled is kept. Who does not answer in time is left out.

    Raises:
      WorkerDiedError: If one of this machine does not start.
      TooFewWorkersError: If too few of other machines answer.
    """
    for worker in self.workers:
      worker.begin_anew()
    if self.home is not None:
      self.home.begin_anew()
    deadline = time.monotonic() + self._patience
    for worker in self.present:
      worker.wait(max(0.0, deadline - time.monotonic()))
    self._go_on_with([worker for worker in self.workers if worker.answers])
    if len(self.present) < self._min_workers:
      away = [worker.problem for worker in self.workers if not worker.answers]
      raise TooFewWorkersError(
        f'of {len(self.workers)} workers {len(self.present)} answer within'
        f' --worker_patience={self._patience:g} s, and --min_workers='
        f'{self._min_workers} must ({"; ".join(away)})'
      )

  def one_by_one(self) -> 'Iterator[LocalWorker | RemoteWorker]':
    """Yields each worker that takes part; what is computed meanwhile, it computes."""
    try:
      for worker in self.present:
        self._use([worker])
        yield worker
    finally:
      self._use(self.present)

  def take_back(self) -> None:
    """Lets workers that were left out, and answer again, take part."""
    self._go_on_with(
      [each for each in self.workers if each in self.present or each.answers]
    )

  def _go_on_with(self, present: 'Sequence[LocalWorker | RemoteWorker]') -> None:
    """Changes who takes part, and says so."""
    for worker in self.workers:
      if worker in self.present and worker not in present:
        print(
          f'{worker.problem}; going on without it until it answers', file=sys.stderr
        )
      elif worker in present and worker not in self.present:
        print(f'{worker.address} takes part again', file=sys.stderr)
    if tuple(present) != self.present:
      self.present = tuple(present)
      self._use(self.present)


@contextlib.contextmanager
def execution(
  num_workers: int = 1,
  workers: Sequence[str] = (),
  max_concurrent_clients: int = 0,
  *,
  isolate_workers: str = 'auto',
  cohort_size: int | None = None,
  log_dir: pathlib.Path,
  workers_key: str | None = None,
  insecure_workers: bool = False,
  worker_patience: float = PATIENCE_SECONDS,
  min_workers: int = 1,
  balance_workers: bool = False,
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
    workers_key: The key file by which workers on other machines and the run know each
      other.
    insecure_workers: Whether they are to be used without one.
    worker_patience: The seconds that one of them may be away before it is left out.
    min_workers: How many of them there must be to go on.
    balance_workers: Whether faster ones get more clients.
    connect_seconds: How long to wait for them at the start.

  Yields:
    The workers, to replace those that died.

  Raises:
    SettingsError: If a worker on another machine does not answer, or if local ones must
      be isolated and cannot be.
    KeyFileError: If the key file cannot be used.
  """
  keys = None
  if workers:
    _check_together(num_workers, workers, min_workers)
    keys = _keys(workers_key, insecure_workers)
  import tensorflow_federated as tff

  from tff_textpriv.runtime import local_worker, remote_worker, spread

  with contextlib.ExitStack() as stack:
    make_door = isolation.door_maker(isolate_workers)

    def start(name: str, limits: worker_process.Limits) -> local_worker.LocalWorker:
      log_file = log_dir / f'worker_{name}.log'
      worker = local_worker.LocalWorker(log_file, make_door(), limits)
      stack.callback(worker.close)
      return worker

    started: list[local_worker.LocalWorker | remote_worker.RemoteWorker] = []
    home = None
    if workers:
      remote = [remote_worker.RemoteWorker(address, keys) for address in workers]
      for each in remote:
        stack.callback(each.close)
      home = start('home', worker_process.NO_LIMITS)
      remote_worker.wait_for_all(remote, connect_seconds)
      home.wait()
      started += remote
    else:
      limits = worker_process.share_cores(
        max(1, len(os.sched_getaffinity(0)) // num_workers),
        max_concurrent_clients,
        None if cohort_size is None else math.ceil(cohort_size / num_workers),
      )
      local = [start(str(index), limits) for index in range(num_workers)]
      for each_here in local:
        each_here.wait()
      started += local
    context = spread.SpreadContext(
      [worker.connection for worker in started],
      None if home is None else home.connection,
      balance=balance_workers,
    )
    stack.enter_context(tff.framework.get_context_stack().install(context))
    yield Runtime(
      started,
      lambda present: context.use([worker.connection for worker in present]),
      worker_patience,
      min_workers,
      home,
    )


def _check_together(num_workers: int, workers: Sequence[str], min_workers: int) -> None:
  """Refuses settings that do not go with workers on other machines."""
  if num_workers != 1:
    raise IncompatibleSettingsError(
      '--num_workers starts workers here and --workers uses others: give one of them'
    )
  for index, address in enumerate(workers):
    if address in workers[:index]:
      raise SettingsError('workers', address, 'is named twice')
  if min_workers > len(workers):
    raise SettingsError(
      'min_workers', min_workers, f'--workers names only {len(workers)}'
    )


def _keys(
  workers_key: str | None, insecure_workers: bool
) -> 'certificates.Keys | None':
  """Returns the keys for workers on other machines; `None` to do without."""
  if insecure_workers == (workers_key is not None):
    raise IncompatibleSettingsError(
      '--workers needs --workers_key=keys/run.pem, by which they and the run know each'
      ' other (`python -m tff_textpriv.tools.certificates` makes it), or'
      ' --insecure_workers to use those that tools.worker serves with --insecure'
    )
  if workers_key is None:
    return None
  from tff_textpriv.runtime import certificates

  return certificates.read(pathlib.Path(workers_key))
