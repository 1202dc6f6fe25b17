"""Runs of the real commands that can be disturbed at any moment.

A run is what `python -m tff_textpriv.tasks.<task>` does, in a process of its own. That
process is forked from a server that has imported everything and computed nothing:
importing TFF takes longer than a whole run of the size that is used here.
"""

import ctypes
import dataclasses
import json
import multiprocessing
import os
import pathlib
import runpy
import signal
import sys
import time
import uuid
from collections.abc import Callable, Sequence

import psutil

from tff_textpriv import flags

_MARK = 'TFF_TEXTPRIV_TEST_RUN'
_POLL_SECONDS = 0.01
_MOST_SECONDS = 400
# The kernel ends the workers of a process that is gone.
_ORPHAN_SECONDS = 5.0

_FORKS = multiprocessing.get_context('forkserver')
_FORKS.set_forkserver_preload(
  [
    'tff_textpriv.training.runner',
    'tff_textpriv.tasks.base',
    'tff_textpriv.reports.page',
  ]
)


@dataclasses.dataclass(frozen=True)
class Settings:
  """A task and its flags, without those that name folders."""

  task: str
  flags: tuple[str, ...]


class Command:
  """A command at work in a folder; what it prints is appended to a log."""

  def __init__(
    self,
    settings: Settings,
    folder: pathlib.Path,
    log: pathlib.Path,
    network: str | None = None,
  ):
    """Starts it.

    Args:
      settings: The command.
      folder: The run's folder.
      log: Where to write what it prints.
      network: The file that stands for the network in which it runs; by default ours.
    """
    self.folder = folder
    self._log = log
    self._log_start = log.stat().st_size if log.exists() else 0
    self._mark = uuid.uuid4().hex
    argv = (
      *settings.flags,
      f'--root_output_dir={folder.parent}',
      f'--experiment_name={folder.name}',
    )
    if settings.task == 'stackoverflow':
      argv = (*argv, f'--data_dir={folder.parent / "data"}')
    flags.silence_tensorflow()  # The server inherits it, before it imports TensorFlow.
    self._process = _FORKS.Process(
      target=_run,
      args=(
        f'tff_textpriv.tasks.{settings.task}',
        argv,
        self._log,
        self._mark,
        network,
      ),
      daemon=True,  # Ends with the tests, whatever becomes of them.
    )
    self._process.start()

  @property
  def pid(self) -> int:
    assert self._process.pid is not None  # Started.
    return self._process.pid

  @property
  def is_alive(self) -> bool:
    return self._process.is_alive()

  @property
  def log(self) -> str:
    """What this command, and none before it, has printed."""
    return self._log.read_bytes()[self._log_start :].decode(errors='replace')

  def workers(self) -> list[psutil.Process]:
    """Returns the processes that it has started."""
    try:
      return psutil.Process(self.pid).children(recursive=True)
    except psutil.NoSuchProcess:
      return []

  def wait_until(self, happens: Callable[[], bool]) -> bool:
    """Waits for something to happen; tells whether it did before the command ended."""
    deadline = time.monotonic() + _MOST_SECONDS
    while not happens():
      if not self.is_alive:
        return False
      assert time.monotonic() < deadline, self.log
      time.sleep(_POLL_SECONDS)
    return True

  def send(self, number: int) -> None:
    """Sends it a signal, if it is still there."""
    if self.is_alive:
      os.kill(self.pid, number)

  def wait(self) -> int:
    """Returns its exit code once it, and all that it had started, is gone."""
    try:
      self._process.join(_MOST_SECONDS)
      assert self._process.exitcode is not None, f'it does not end: {self.log}'
    finally:
      self.send(signal.SIGKILL)
    deadline = time.monotonic() + _ORPHAN_SECONDS
    while _marked(self._mark):
      assert time.monotonic() < deadline, f'it left a process: {_marked(self._mark)}'
      time.sleep(_POLL_SECONDS)
    return self._process.exitcode


def rounds_done(folder: pathlib.Path) -> int:
  """Returns the number of rounds that a run has written to its metrics."""
  try:
    return max(0, (folder / 'metrics.csv').read_bytes().count(b'\n') - 1)
  except FileNotFoundError:
    return 0


def rounds_charged(folder: pathlib.Path) -> int:
  """Returns the last round that a run's journal includes."""
  try:
    return json.loads((folder / 'ledger.json').read_text())['round']
  except FileNotFoundError:
    return 0


def durations(command: Command) -> list[float]:
  """Follows a command to its end.

  Returns:
    The seconds that it took for each round, the start counted to the first one, and
    after the last one.
  """
  times = [time.monotonic()]
  while command.wait_until(lambda: rounds_done(command.folder) >= len(times)):
    times.append(time.monotonic())
  times.append(time.monotonic())
  return [after - before for before, after in zip(times, times[1:], strict=False)]


def _run(
  module: str,
  argv: Sequence[str],
  log: pathlib.Path,
  mark: str,
  network: str | None,
) -> None:
  """Does what `python -m module argv...` does; runs in the forked process."""
  if network is not None:
    with open(network) as file:
      if ctypes.CDLL(None).setns(file.fileno(), 0):
        sys.exit(f'{network} cannot be entered')
  output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
  for stream in (sys.stdout, sys.stderr):
    os.dup2(output, stream.fileno())
  # By this, all that it starts can be found, whoever its parent is then.
  os.environ[_MARK] = mark
  sys.argv = [module, *argv]
  runpy.run_module(module, run_name='__main__', alter_sys=True)


def _marked(mark: str) -> list[psutil.Process]:
  """Returns the processes that were started by the run with a mark."""
  found = []
  for process in psutil.process_iter():
    try:
      if process.environ().get(_MARK) == mark:
        found.append(process)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
      continue
  return found
