"""What tests of processes share."""

import time
from collections.abc import Callable

import psutil
import pytest

from tff_textpriv.runtime import isolation

_OBSTACLE = isolation.obstacle()
needs_isolation = pytest.mark.skipif(
  _OBSTACLE is not None, reason=f'workers cannot be isolated here: {_OBSTACLE}'
)


def comes_true(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
  """Tells whether a condition is met within so many seconds."""
  deadline = time.monotonic() + seconds
  while time.monotonic() < deadline:
    if condition():
      return True
    time.sleep(0.02)
  return False


def ends(process: psutil.Process, seconds: float = 5.0) -> bool:
  """Tells whether a process ends within so many seconds."""
  return comes_true(lambda: not _runs(process), seconds)


def _runs(process: psutil.Process) -> bool:
  # A zombie has ended; who reaps it after its parent's death is not ours to say.
  try:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
  except psutil.NoSuchProcess:
    return False
