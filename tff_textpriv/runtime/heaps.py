"""How glibc's allocator keeps memory, which decides what a long run holds, and its speed.

By default there are eight heaps a core, one a thread, and each keeps what was freed in
it. A process whose threads come and go, with graphs that are loaded and dropped, grows
for hours until all of them are full. One heap a core is as fast.

Blocks of more than some hundred kilobytes, and the free end of a heap, go back to the
system by default. A round asks for the same ones again and again, and the system clears
each page first. So blocks as large as a weight come from the heap, and some hundred
megabytes of it stay.
"""

import ctypes
import os
from typing import NamedTuple


class _Option(NamedTuple):
  """An option of the allocator: its number in glibc's malloc.h, and its value."""

  number: int
  value: int


def _options() -> dict[str, _Option]:
  """Returns the options by the names of their environment variables."""
  return {
    'MALLOC_ARENA_MAX': _Option(-8, len(os.sched_getaffinity(0))),
    'MALLOC_MMAP_THRESHOLD_': _Option(-3, 2**25),
    'MALLOC_TRIM_THRESHOLD_': _Option(-1, 2**28),
  }


def environment() -> dict[str, str]:
  """Returns the options for a process that is to be started; the user's own count."""
  return {
    name: os.environ.get(name, str(option.value)) for name, option in _options().items()
  }


def limit() -> None:
  """Sets the options of this process; heaps count for threads that have none yet."""
  libc = ctypes.CDLL(None)
  for name, value in environment().items():
    libc.mallopt(_options()[name].number, int(value))
