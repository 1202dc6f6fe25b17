"""Whether the workers of this machine can be kept to their run, and what if not."""

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tff_textpriv.runtime import doors, isolated_launcher
from tff_textpriv.settings import SettingsError

# Isolate or warn; isolate or refuse; do not isolate.
POLICIES = ('auto', 'require', 'off')

_SYSCTL = Path('/proc/sys')
# Settings of the kernel that forbid namespaces: the value that does, and one that helps.
_SWITCHES = {
  'kernel.unprivileged_userns_clone': ('0', '1'),
  'kernel.apparmor_restrict_unprivileged_userns': ('1', '0'),
  'user.max_user_namespaces': ('0', '10000'),
  'user.max_net_namespaces': ('0', '10000'),
}
_EXPOSURE = (
  'a TFF worker listens on all network interfaces and asks nobody for a password:'
  ' whoever reaches this machine can run computations, and read and write files as you'
)


def obstacle() -> str | None:
  """Says what keeps workers from being isolated, and what helps; None if they can be.

  Only the kernel's refusal is an obstacle. After an attempt that ended otherwise, say by
  a signal, a run must not open its doors: it isolates its workers, or fails.
  """
  attempt = subprocess.run(doors.ISOLATED, capture_output=True, text=True)
  if attempt.returncode != isolated_launcher.REFUSED:
    return None
  return (
    f'the kernel allows no network namespace ({attempt.stderr.strip()}); {_remedy()}'
  )


def door_maker(policy: str) -> Callable[[], doors.Door]:
  """Returns what makes the doors of workers.

  Args:
    policy: One of `POLICIES`.

  Returns:
    A kind of door.

  Raises:
    SettingsError: If isolation is required and not possible.
  """
  if policy == 'off':
    return doors.OpenPort
  problem = obstacle()
  if problem is None:
    return doors.PrivateSocket
  if policy == 'require':
    raise SettingsError('isolate_workers', policy, problem)
  _warn(problem)
  return doors.OpenPort


@functools.cache
def _warn(problem: str) -> None:
  """Says, once in a process, that workers are open to strangers."""
  print(
    f'WARNING: while this run lasts, {_EXPOSURE}. It cannot be isolated: {problem}.'
    ' --isolate_workers=require refuses to run like this, =off accepts it silently.',
    file=sys.stderr,
    flush=True,
  )


def _remedy() -> str:
  """Says what to change on this machine."""
  commands = [
    f'{name}={good}' for name, (bad, good) in _SWITCHES.items() if _value(name) == bad
  ]
  if commands:
    return f'as root, run `sysctl -w {" ".join(commands)}`'
  return (
    'run as root; in a container, allow the system call unshare (with Docker,'
    ' --security-opt seccomp=unconfined) or take the network away (--network=none)'
  )


def _value(name: str) -> str | None:
  """Returns a setting of the kernel; None if this kernel does not have it."""
  file = _SYSCTL / name.replace('.', '/')
  return file.read_text().strip() if file.exists() else None
