"""The data of the next round, made while this one trains.

To read, encode and batch users' texts is the main process's work, to train on them the
workers'. Done in turn, either waits for the other.
"""

import concurrent.futures
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar('T')


class Ahead(Generic[T]):
  """Gives values by number, and makes the next one in a thread of its own.

  Values are functions of their number: one that is never taken has cost some time only.
  The thread works between `begin` and `take`, and at no other time.
  """

  def __init__(self, make: Callable[[int], T]):
    """Makes values with `make`, which is called by one thread at a time."""
    self._make = make
    self._thread = concurrent.futures.ThreadPoolExecutor(1, 'ahead')
    self._begun: tuple[int, concurrent.futures.Future[T]] | None = None

  def __enter__(self) -> 'Ahead[T]':
    return self

  def __exit__(self, *error: object) -> None:
    self._thread.shutdown(cancel_futures=True)

  def begin(self, number: int) -> None:
    """Begins to make a value."""
    self._begun = number, self._thread.submit(self._make, number)

  def wait(self) -> None:
    """Waits for what was begun, whose error, if it has one, is for who takes it."""
    if self._begun is not None:
      concurrent.futures.wait([self._begun[1]])

  def take(self, number: int) -> T:
    """Returns a value: that which was begun, or a new one."""
    self.wait()
    begun, self._begun = self._begun, None
    if begun is not None and begun[0] == number:
      return begun[1].result()
    return self._make(number)
