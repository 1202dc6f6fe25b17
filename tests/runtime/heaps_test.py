"""The allocator's heaps: few, unless somebody has chosen otherwise."""

import os
import subprocess
import sys

from tff_textpriv.runtime import heaps

# Eight threads that allocate. Where a thread has a heap of its own, that begins at a
# multiple of 64 MB, in memory that belongs to no file.
_THREADS = """
import ctypes, pathlib, threading
from tff_textpriv.runtime import heaps
if {limited}:
  heaps.limit()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
ready = threading.Barrier(9)
def hold():
  libc.malloc(1000)
  ready.wait()
  ready.wait()
for _ in range(8):
  threading.Thread(target=hold).start()
ready.wait()
areas = [line.split() for line in pathlib.Path('/proc/self/maps').open()]
starts = [int(area[0].split('-')[0], 16) for area in areas if len(area) == 5]
print(sum(start % 2**26 == 0 for start in starts))
ready.wait()
"""


def _num_heaps(limited: bool) -> int:
  """Counts the heaps, beside the first one, of a process with eight threads."""
  environment = {**os.environ}
  environment.pop('MALLOC_ARENA_MAX', None)
  command = [sys.executable, '-c', _THREADS.format(limited=limited)]
  return int(subprocess.check_output(command, env=environment))


def test_threads_share_as_many_heaps_as_there_are_cores():
  assert _num_heaps(limited=True) <= len(os.sched_getaffinity(0))
  assert _num_heaps(limited=False) >= 8


def test_what_the_user_has_chosen_counts(monkeypatch):
  monkeypatch.delenv('MALLOC_ARENA_MAX', raising=False)
  cores = str(len(os.sched_getaffinity(0)))
  assert heaps.environment() == {'MALLOC_ARENA_MAX': cores}
  monkeypatch.setenv('MALLOC_ARENA_MAX', '5')
  assert heaps.environment() == {'MALLOC_ARENA_MAX': '5'}
