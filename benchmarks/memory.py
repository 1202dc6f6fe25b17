"""Resident memory of processes, from /proc."""

import pathlib
from collections.abc import Iterable


def reset_peak(pids: Iterable[int]) -> None:
  """Lets the peaks of these processes start anew from what they hold now."""
  for pid in pids:
    pathlib.Path(f'/proc/{pid}/clear_refs').write_text('5')


def resident(pid: int) -> int:
  """Returns the bytes that a process holds in memory now."""
  return _status(pid, 'VmRSS')


def peak(pid: int) -> int:
  """Returns the most that it held since the start or the last `reset_peak`."""
  return _status(pid, 'VmHWM')


def _status(pid: int, key: str) -> int:
  for line in pathlib.Path(f'/proc/{pid}/status').read_text().splitlines():
    if line.startswith(f'{key}:'):
      return int(line.split()[1]) * 1024
  raise ValueError(f'process {pid} has no {key}')
