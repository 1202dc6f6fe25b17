"""Stopping a run in good order on Ctrl-C and SIGTERM."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

# Of a round that takes no longer than others, at least.
GRACE_SECONDS = 20.0
_ASKING = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
  """Whether somebody has asked the run to stop.

  Attributes:
    signal_number: The signal that asked, or `None`.
    is_urgent: Whether it must not wait for what is under way.
  """

  def __init__(self) -> None:
    self.signal_number: int | None = None
    self.is_urgent = False
    self._grace_seconds = GRACE_SECONDS
    self._may_interrupt = False

  def __bool__(self) -> bool:
    return self.signal_number is not None

  @contextlib.contextmanager
  def interruptible(self) -> Iterator[None]:
    """Lets a block be interrupted by whoever insists, or when the grace time is over.

    Raises:
      KeyboardInterrupt: If that happens, or has happened before the block.
    """
    self._may_interrupt = True
    try:
      self._interrupt_if_urgent()
      yield
    finally:
      self._may_interrupt = False

  def expect(self, seconds: float) -> None:
    """Takes note of how long a round takes: one of twice the time is not waited for."""
    self._grace_seconds = max(self._grace_seconds, 2 * seconds)

  def ask(self, number: int) -> None:
    """Asks by a signal: the first time politely, then urgently, then at any price."""
    if self.is_urgent and number in _ASKING:
      raise KeyboardInterrupt()
    if self:
      self.is_urgent = True
      self._interrupt_if_urgent()
      return
    self.signal_number = number
    signal.setitimer(signal.ITIMER_REAL, self._grace_seconds)
    print(
      f'\nstopping after this round, or in {self._grace_seconds:.0f} s without it, with a'
      ' checkpoint (once more to stop now)',
      file=sys.stderr,
    )

  def _interrupt_if_urgent(self) -> None:
    if self.is_urgent and self._may_interrupt:
      self._may_interrupt = False
      raise KeyboardInterrupt()


@contextlib.contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
  """Turns SIGINT and SIGTERM into a request, for as long as a `with` block lasts.

  Python hands signals to the main thread. In any other one nothing is changed, and
  nobody asks.

  Yields:
    The request, for the loop to look at between rounds.
  """
  request = StopRequest()
  if threading.current_thread() is not threading.main_thread():
    yield request
    return
  numbers = (*_ASKING, signal.SIGALRM)
  before = [
    signal.signal(number, lambda number, frame: request.ask(number))
    for number in numbers
  ]
  try:
    yield request
  finally:
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in zip(numbers, before, strict=True):
      signal.signal(number, handler)
