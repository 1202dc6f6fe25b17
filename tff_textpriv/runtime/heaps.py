"""How many heaps glibc's allocator keeps, which decides what a long run holds.

By default there are eight a core, one a thread, and each keeps what was freed in it. A
process whose threads come and go, with graphs that are loaded and dropped, grows for
hours until all of them are full. One heap a core is as fast.
"""

import ctypes
import os

_VARIABLE = 'MALLOC_ARENA_MAX'
_M_ARENA_MAX = -8  # Of glibc's malloc.h.


def environment() -> dict[str, str]:
  """Returns what limits the heaps of a process that is to be started."""
  return {_VARIABLE: os.environ.get(_VARIABLE, str(len(os.sched_getaffinity(0))))}


def limit() -> None:
  """Limits the heaps of this process; in effect for threads that have none yet."""
  ctypes.CDLL(None).mallopt(_M_ARENA_MAX, int(environment()[_VARIABLE]))
