"""Makes the runs of a sweep or study in child processes, which may fail without ending it.

A child makes run after run; one that dies is replaced. However the sweep ends, even if
it is killed, so do its children.
"""

import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from typing import Generic, Protocol, TypeVar

from tff_textpriv.runtime import bound_process
from tff_textpriv.training import stopping

COMMAND = (
  sys.executable,
  '-u',  # What a run prints is in its log at once.
  '-c',
  'from tff_textpriv.experiments import sweep_child; sweep_child.serve()',
)
_POLL_SECONDS = 0.2


class Order(Protocol):
  """A run that a child can make."""

  @property
  def task(self) -> str:
    """The name of the task."""

  @property
  def argv(self) -> Sequence[str]:
    """The flags of the task's command that make it."""

  @property
  def log_file(self) -> pathlib.Path:
    """Where the run's output goes."""


RunT = TypeVar('RunT', bound=Order)


@dataclasses.dataclass(frozen=True)
class Attempt(Generic[RunT]):
  """A run that has ended, well or not.

  Attributes:
    run: The run.
    seconds: How long it took.
    code: Its exit code: 0, or 128 and a signal if it was stopped in good order.
    error: Why it failed, in a sentence; empty if it did not.
  """

  run: RunT
  seconds: float
  code: int
  error: str = ''


def attempts(
  runs: Sequence[RunT], jobs: int, stop: stopping.StopRequest
) -> Generator[Attempt[RunT], None, None]:
  """Makes runs, in order, several at a time, and yields each as it ends.

  Args:
    runs: The runs.
    jobs: How many at a time; they share this process's cores.
    stop: When it is set, runs are asked to end with a checkpoint, and none begins.

  Yields:
    Each run that was begun, with how it ended.
  """
  waiting = collections.deque(runs)
  slots: list[_Slot[RunT]] = [_Slot(cores) for cores in _shares(min(jobs, len(runs)))]
  asked = False
  try:
    while True:
      if stop and not asked:
        asked = True
        for slot in slots:
          slot.ask_to_stop()
      for slot in slots:
        if waiting and not stop and slot.is_idle:
          slot.begin(waiting.popleft())
      busy = [slot for slot in slots if not slot.is_idle]
      if not busy:
        return
      for slot in select.select(busy, [], [], _POLL_SECONDS)[0]:
        yield slot.end()
  finally:
    for slot in slots:
      slot.close()


class _Slot(Generic[RunT]):
  """A place for one run at a time: a child process, and the cores that it may use."""

  def __init__(self, cores: Sequence[int]):
    self._cores = cores
    self._child: subprocess.Popen[str] | None = None
    self._run: RunT | None = None
    self._began = 0.0
    self._is_asked_to_stop = False

  @property
  def is_idle(self) -> bool:
    """Whether no run is under way."""
    return self._run is None

  def fileno(self) -> int:
    """The descriptor that can be read when the run ends."""
    assert self._child is not None and self._child.stdout is not None
    return self._child.stdout.fileno()

  def begin(self, run: RunT) -> None:
    """Begins a run, in the child that there is or in a new one."""
    if self._child is None:
      self._child = _start_child(self._cores)
    assert self._child.stdin is not None
    self._run, self._began = run, time.monotonic()
    order = {'task': run.task, 'argv': [*run.argv], 'log': str(run.log_file)}
    # A child that has died is noticed when its answer is read.
    with contextlib.suppress(BrokenPipeError):
      self._child.stdin.write(json.dumps(order) + '\n')
      self._child.stdin.flush()

  def end(self) -> Attempt[RunT]:
    """Reads how the run ended; waits if it has not."""
    assert self._child is not None and self._child.stdout is not None
    assert self._run is not None
    line = self._child.stdout.readline()
    run, self._run = self._run, None
    seconds = time.monotonic() - self._began
    if line:
      answer = json.loads(line)
      return Attempt(run, seconds, answer.get('code', 1), answer.get('error', ''))
    self._child.communicate()
    how = bound_process.how_it_ended(self._child.returncode)
    self._child = None
    if self._is_asked_to_stop:
      # Outside of training, where nothing would be lost, the signal ends it at once.
      return Attempt(run, seconds, 128 + signal.SIGTERM)
    return Attempt(run, seconds, 1, f'its process {how}')

  def ask_to_stop(self) -> None:
    """Asks the run to end after its round, with a checkpoint."""
    self._is_asked_to_stop = True
    if self._child is not None:
      self._child.terminate()

  def close(self) -> None:
    """Ends the child: what it has answered for is on the disk."""
    if self._child is not None:
      self._child.kill()
      self._child.communicate()


def _start_child(cores: Sequence[int]) -> 'subprocess.Popen[str]':
  child = subprocess.Popen(
    bound_process.command(COMMAND),
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
    # Ctrl-C in the terminal reaches only the sweep, which then asks its children.
    start_new_session=True,
  )
  # TensorFlow and TFF's worker have as many threads as they may use cores.
  os.sched_setaffinity(child.pid, cores)
  return child


def _shares(jobs: int) -> list[list[int]]:
  """Divides the cores among jobs; if there are fewer, some jobs share one."""
  cores = sorted(os.sched_getaffinity(0))
  return [cores[job::jobs] or [cores[job % len(cores)]] for job in range(jobs)]
