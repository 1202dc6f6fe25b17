"""Measures what our imports add to TFF's own, and how soon a command answers.

  python -m benchmarks.startup

Times are the lowest of several, each in a fresh process.
"""

import dataclasses
import subprocess
import sys
import time

from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.settings import setting

# What a training run imports; its modules import the rest of the package.
_ALL = (
  'tff_textpriv.training.language_modeling',
  'tff_textpriv.runtime.connection',
  'tff_textpriv.runtime.spread',
)
_ANSWERS = {
  'the help of a task': ('tff_textpriv.tasks.stackoverflow', '--help'),
  'a wrong flag of a task': ('tff_textpriv.tasks.stackoverflow', '--algo=none'),
  'the help of a tool': ('tff_textpriv.tools.plan', '--help'),
}


@dataclasses.dataclass(frozen=True)
class StartupSettings(settings_lib.Settings):
  """How often to measure."""

  repeats: int = setting(3, 'Processes of each kind.', low=1)


def main(settings: StartupSettings) -> None:
  """Measures and prints."""
  times = [_import_seconds() for _ in range(settings.repeats)]
  engine, ours = (min(column) for column in zip(*times, strict=True))
  print(f'TFF and TensorFlow   {engine:6.2f} s')
  print(f'our own modules      {ours:6.2f} s more')
  for name, arguments in _ANSWERS.items():
    seconds = min(_answer_seconds(arguments) for _ in range(settings.repeats))
    print(f'{name:20} {seconds:6.2f} s')


def _import_seconds() -> tuple[float, float]:
  """Returns the seconds of importing the engine, and then everything of ours."""
  script = '\n'.join(
    [
      'import sys, time',
      'start = time.perf_counter()',
      'import tensorflow, tensorflow_federated',
      'engine = time.perf_counter()',
      *(f'import {module}' for module in _ALL),
      'print(engine - start, time.perf_counter() - engine)',
    ]
  )
  done = subprocess.run(
    [sys.executable, '-c', script], check=True, capture_output=True, text=True
  )
  engine, ours = done.stdout.split()[-2:]
  return float(engine), float(ours)


def _answer_seconds(arguments: tuple[str, ...]) -> float:
  """Returns how long a command takes to answer."""
  started = time.perf_counter()
  subprocess.run([sys.executable, '-m', *arguments], check=False, capture_output=True)
  return time.perf_counter() - started


if __name__ == '__main__':
  flags.run(main, StartupSettings, __doc__.splitlines()[0])
