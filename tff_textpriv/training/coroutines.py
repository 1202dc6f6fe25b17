"""Running TFF's coroutines, also where an event loop is at work already."""

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from typing import Any


class CoroutineRunner:
  """An event loop in a thread of its own, for as long as a `with` block lasts.

  A thread that runs a loop cannot run another one, and in a notebook the main thread
  does: that of the kernel.
  """

  def __enter__(self) -> 'CoroutineRunner':
    self._thread = concurrent.futures.ThreadPoolExecutor(1, 'coroutines')
    self._loop = asyncio.Runner()
    return self

  def __exit__(self, *exception: object) -> None:
    self._thread.submit(self._loop.close).result()
    self._thread.shutdown()

  def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine to its end; returns its result or raises its error."""
    return self._thread.submit(self._loop.run, coroutine).result()
