"""What can happen to a run. A fault starts it, strikes at a moment, and sees it end.

Each returns how the run that was struck ended. What follows, the run that goes on and the
comparison with one that was left alone, is the same for all of them.
"""

import contextlib
import dataclasses
import errno
import json
import os
import pathlib
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator

import disturbed_runs
import psutil

_DONE = 'was done already'


@dataclasses.dataclass(frozen=True)
class Case:
  """A run and the moment at which it is struck.

  Attributes:
    settings: The run.
    folder: Its folder.
    log: Where all that is printed goes; on another disk than the folder.
    round_before: The round after which it is struck; 0 is before the first one.
    seconds: How long after it.
    rng: Decides what else is left to chance.
  """

  settings: disturbed_runs.Settings
  folder: pathlib.Path
  log: pathlib.Path
  round_before: int
  seconds: float
  rng: random.Random

  def start(self) -> disturbed_runs.Command:
    return disturbed_runs.Command(self.settings, self.folder, self.log)

  def start_and_reach_the_moment(self) -> disturbed_runs.Command:
    command = self.start()
    command.wait_until(
      lambda: disturbed_runs.rounds_done(self.folder) >= self.round_before
    )
    struck = time.monotonic() + self.seconds
    command.wait_until(lambda: time.monotonic() >= struck)
    return command


Fault = Callable[[Case], str]


def main_killed(case: Case) -> str:
  """kill -9 of the process that the user started."""
  command = case.start_and_reach_the_moment()
  command.send(signal.SIGKILL)
  code = command.wait()
  assert code in (-signal.SIGKILL, 0), command.log
  return 'killed' if code else _DONE


def killed_before_release(case: Case) -> str:
  """kill -9 of a run that has charged a round of which nothing is released yet."""
  command = case.start()

  def is_between() -> bool:
    charged = disturbed_runs.rounds_charged(case.folder)
    released = disturbed_runs.rounds_done(case.folder)
    # What is released has been charged, at every moment.
    assert charged >= released, (charged, released)
    return charged > max(released, case.round_before)

  if not command.wait_until(is_between):
    return _ended(command, command.wait())
  command.send(signal.SIGKILL)
  assert command.wait() == -signal.SIGKILL, command.log
  released = disturbed_runs.rounds_done(case.folder)
  assert disturbed_runs.rounds_charged(case.folder) >= released
  return 'killed'


def worker_killed(case: Case) -> str:
  """kill -9 of a worker: it is replaced, and the run ends as if nothing had been."""
  command = case.start_and_reach_the_moment()
  if not command.wait_until(lambda: bool(command.workers())):
    return _ended(command, command.wait())
  _kill(command.workers())
  code = command.wait()
  if 'restarting it and repeating the round' in command.log:
    assert code == 0, command.log
    return 'worker replaced'
  return _ended(command, code, 'The TFF worker')


def all_workers_killed(case: Case) -> str:
  """kill -9 of every worker that appears: the run gives up, with all saved."""
  command = case.start_and_reach_the_moment()
  while command.wait_until(lambda: bool(command.workers())):
    _kill(command.workers())
  code = command.wait()
  return _ended(command, code, 'The TFF worker')


def interrupted(case: Case) -> str:
  """Ctrl-C."""
  return _asked_to_stop(case, signal.SIGINT)


def terminated(case: Case) -> str:
  """SIGTERM, as of a scheduler that needs the machine."""
  return _asked_to_stop(case, signal.SIGTERM)


def disk_full(case: Case) -> str:
  """No room left on the disk of the run's folder; later there is some again."""
  command = case.start_and_reach_the_moment()
  with _filled(case.folder.parent):
    code = command.wait()
  ending = _ended(command, code, 'No space left on device')
  assert not code or str(case.folder) in _sentence(command)
  return ending


def checkpoint_truncated(case: Case) -> str:
  """kill -9, and the newest checkpoint loses its end, as in a power cut."""
  ending = main_killed(case)
  checkpoint = newest_checkpoint(case.folder)
  if checkpoint is None:
    return f'{ending}; no checkpoint yet'
  (file,) = checkpoint.glob('variables/*.data-*')
  os.truncate(file, case.rng.randrange(file.stat().st_size))
  if len(_whole_checkpoints(checkpoint.parent)) > 1:
    return f'{ending}; checkpoint passed over'
  # It was the only one: the run does not start anew by itself.
  command = case.start()
  assert _ended(command, command.wait(), 'none of the checkpoints') != _DONE
  shutil.rmtree(checkpoint.parent)
  return f'{ending}; refused without a checkpoint'


def other_version(case: Case) -> str:
  """kill -9, and then a start with a package of another format of checkpoints."""
  ending = main_killed(case)
  checkpoint = newest_checkpoint(case.folder)
  if checkpoint is None:
    return f'{ending}; no checkpoint yet'
  file = checkpoint.parent / 'format.json'
  ours = file.read_bytes()
  file.write_text(json.dumps({'format': json.loads(ours)['format'] + 1}))
  before = _contents(checkpoint.parent)
  command = case.start()
  assert _ended(command, command.wait(), 'its checkpoints have format') != _DONE
  assert _contents(checkpoint.parent) == before
  file.write_bytes(ours)
  return f'{ending}; format refused'


ALL: tuple[Fault, ...] = (
  main_killed,
  killed_before_release,
  worker_killed,
  all_workers_killed,
  interrupted,
  terminated,
  disk_full,
  checkpoint_truncated,
  other_version,
)


def newest_checkpoint(folder: pathlib.Path) -> pathlib.Path | None:
  """Returns the folder of a run's last checkpoint that was saved whole."""
  whole = _whole_checkpoints(folder / 'checkpoints')
  # Of the last phase, if two have a checkpoint of the same round.
  return max(whole)[1] if whole else None


def _whole_checkpoints(folder: pathlib.Path) -> list[tuple[int, pathlib.Path]]:
  """Returns the rounds and folders of checkpoints, without those half saved."""
  return [
    (int(number), path)
    for path in folder.rglob('program_state_*')
    if (number := path.name.removeprefix('program_state_')).isdecimal()
  ]


def _asked_to_stop(case: Case, number: signal.Signals) -> str:
  command = case.start_and_reach_the_moment()
  command.send(number)
  code = command.wait()
  assert 'Traceback' not in command.log, command.log
  if code == 128 + number and 'repeat the command to go on' in command.log:
    done = disturbed_runs.rounds_done(case.folder)
    checkpoint = newest_checkpoint(case.folder)
    assert checkpoint is not None and checkpoint.name == f'program_state_{done}'
    return 'stopped after its round'
  # While it is not training, SIGTERM ends it as it ends any program.
  expected = {signal.SIGINT: 130, signal.SIGTERM: -number}[number]
  assert code in (expected, 0), command.log
  return 'stopped at once' if code else 'came to its end'


def _ended(command: disturbed_runs.Command, code: int, expected: str = '') -> str:
  """Holds that a command came to its end, or stopped with one clear sentence."""
  assert 'Traceback' not in command.log, command.log
  if code == 0:
    return _DONE
  assert code == 2 and expected in _sentence(command), command.log
  return 'ended with a sentence'


def _sentence(command: disturbed_runs.Command) -> str:
  """Returns what it said when it gave up; nothing if it did not say it once."""
  _, *sentences = f'\n{command.log}'.split('\nerror: ')
  return sentences[0] if len(sentences) == 1 else ''


def _kill(processes: list[psutil.Process]) -> None:
  for process in processes:
    with contextlib.suppress(psutil.NoSuchProcess):
      process.kill()


@contextlib.contextmanager
def _filled(folder: pathlib.Path) -> Iterator[None]:
  """Leaves no room on a folder's disk while the block lasts."""
  ballast = folder / 'ballast'
  with open(ballast, 'wb', buffering=0) as stream:
    try:
      # Not what was free a moment ago: the run writes, too.
      while True:
        stream.write(bytes(2**20))
    except OSError as error:
      if error.errno != errno.ENOSPC:
        raise
  yield
  ballast.unlink()


def _contents(folder: pathlib.Path) -> dict[pathlib.Path, bytes]:
  return {path: path.read_bytes() for path in folder.rglob('*') if path.is_file()}
