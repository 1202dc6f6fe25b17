"""Processes that live no longer than the one that started them."""

import os
import signal
import sys
from collections.abc import Sequence

# Runs between fork and the program's own code: asks the kernel to kill this process
# when its parent dies, then becomes the program. The request is void if the parent
# died before it was made, hence the look at who the parent is. A program of its own
# rather than a `preexec_fn`, which is unsafe in a process with threads, and every
# process that has imported TensorFlow has some.
_LAUNCHER = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL):
  sys.exit('prctl(PR_SET_PDEATHSIG): ' + os.strerror(ctypes.get_errno()))
if os.getppid() != int(sys.argv[1]):
  sys.exit('the parent process is gone')
os.execv(sys.argv[2], sys.argv[2:])
"""


def command(program: Sequence[str]) -> list[str]:
  """Returns what runs a program that the kernel kills when its parent ends.

  The kernel takes the end of the *thread* that starts it for the end of the parent.

  Args:
    program: The path of an executable file, and its arguments.
  """
  return [sys.executable, '-I', '-S', '-c', _LAUNCHER, str(os.getpid()), *program]


def how_it_ended(exit_code: int) -> str:
  """Says in words how a process ended; a negative code is that of a signal."""
  if exit_code < 0:
    return f'was ended by {signal.Signals(-exit_code).name}'
  return f'ended with exit code {exit_code}'
