"""What tests of processes share."""

import time

import psutil
import pytest

from tff_textpriv.runtime import isolation

_OBSTACLE = isolation.obstacle()
needs_isolation = pytest.mark.skipif(
  _OBSTACLE is not None, reason=f'workers cannot be isolated here: {_OBSTACLE}'
)


def _runs(process: psutil.Process) -> bool:
  # A zombie has ended; who reaps it after its parent's death is not ours to say.
  return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def ends(process: psutil.Process, seconds: float = 5.0) -> bool:
  """Tells whether a process ends within so many seconds."""
  deadline = time.monotonic() + seconds
  while time.monotonic() < deadline:
    try:
      if not _runs(process):
        return True
    except psutil.NoSuchProcess:
      return True
    time.sleep(0.02)
  return False
