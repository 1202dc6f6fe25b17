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
  assert heaps.environment()['MALLOC_ARENA_MAX'] == cores
  monkeypatch.setenv('MALLOC_ARENA_MAX', '5')
  assert heaps.environment()['MALLOC_ARENA_MAX'] == '5'


# Takes and returns four megabytes, a hundred times, and says how many pages were new.
_AGAIN_AND_AGAIN = """
import ctypes, resource
from tff_textpriv.runtime import heaps
if {limited}:
  heaps.limit()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
  blocks = [libc.malloc(2**22) for _ in range(20)]
  for block in blocks:
    ctypes.memset(block, 1, 2**22)
  for block in reversed(blocks):
    libc.free(ctypes.c_void_p(block))
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _new_pages(limited: bool) -> int:
  environment = {k: v for k, v in os.environ.items() if not k.startswith('MALLOC_')}
  command = [sys.executable, '-c', _AGAIN_AND_AGAIN.format(limited=limited)]
  return int(subprocess.check_output(command, env=environment))


def test_memory_that_is_asked_for_again_is_not_taken_from_the_system_anew():
  pages_once = 20 * 2**22 // os.sysconf('SC_PAGESIZE')
  assert _new_pages(limited=True) < 2 * pages_once
  assert _new_pages(limited=False) > 10 * pages_once
