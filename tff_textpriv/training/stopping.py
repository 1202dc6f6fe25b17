"""Stopping a run in good order on Ctrl-C and SIGTERM."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator


class StopRequest:
  """Whether somebody has asked the run to stop.

  Attributes:
    signal_number: The signal that asked, or `None`.
  """

  def __init__(self) -> None:
    self.signal_number: int | None = None

  def __bool__(self) -> bool:
    return self.signal_number is not None


@contextlib.contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
  """Turns the first SIGINT or SIGTERM into a request; a second one interrupts.

  Python hands signals to the main thread. In any other one nothing is changed, and
  nobody asks.

  Yields:
    The request, for the loop to look at between rounds.
  """
  request = StopRequest()
  if threading.current_thread() is not threading.main_thread():
    yield request
    return

  def on_signal(number, frame):
    del frame  # Unused.
    if request:
      raise KeyboardInterrupt()
    request.signal_number = number
    print(
      '\nstopping after this round, with a checkpoint (once more to stop now)',
      file=sys.stderr,
    )

  numbers = (signal.SIGINT, signal.SIGTERM)
  before = [signal.signal(number, on_signal) for number in numbers]
  try:
    yield request
  finally:
    for number, handler in zip(numbers, before, strict=True):
      signal.signal(number, handler)
