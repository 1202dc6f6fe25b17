"""Times a round of every algorithm against one of federated averaging.

  python -m benchmarks.methods                 # all; about ten minutes
  python -m benchmarks.methods --quick         # does it run? two algorithms, a minute

Each algorithm trains on embedded data through its command's own code; what is timed is
the call that trains a round, after a first one that compiles. Algorithms take turns, so
that whatever else the machine does hits all of them.
"""

import contextlib
import dataclasses
import importlib
import json
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Iterator

from tff_textpriv import files, flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.settings import setting
from tff_textpriv.tasks import base

_BASELINE = 'fed_avg'
# What is compared: a task, the flags that all share, and the algorithms.
_GROUPS = {
  'stackoverflow': (
    ('--clients_per_round=10', '--cohort_sampling=fixed'),
    (_BASELINE, 'fed_prox', 'fed_sgd', 'dp_fed_avg', 'rr_ldp', 'fed_att', 'scaffold'),
  ),
  'agnews': (
    ('--model=bilstm_small', '--clients_per_round=10'),
    (
      _BASELINE,
      'fed_prox',
      'lg_fedavg',
      'fed_recon',
      'fede_vocab',
      'local_only',
      'rr_ldp',
      'scaffold',
    ),
  ),
}
# Their figures do not matter here, and what would refuse to claim them is not asked.
_NO_CLAIM = {
  'dp_fed_avg': ('--privacy_claim=false', '--noise_multiplier=1'),
  'rr_ldp': ('--privacy_claim=false',),
}


@dataclasses.dataclass(frozen=True)
class MethodsSettings(settings_lib.Settings):
  """What to time."""

  tasks: tuple[str, ...] = setting(
    tuple(_GROUPS), 'The tasks whose algorithms are compared.', choices=tuple(_GROUPS)
  )
  rounds: int = setting(5, 'Timed rounds of each turn.', low=1)
  turns: int = setting(2, 'How often each algorithm has its turn.', low=1)
  output: str = setting('build/methods.json', 'The file for the results.')
  quick: bool = setting(False, 'Only see whether it runs: one round of two algorithms.')


def main(settings: MethodsSettings) -> int:
  """Times all, prints a table for each task, writes JSON."""
  if settings.quick:
    settings = dataclasses.replace(settings, tasks=('agnews',), rounds=1, turns=1)
  report = {}
  for task in settings.tasks:
    shared, algorithms = _GROUPS[task]
    if settings.quick:
      algorithms = (_BASELINE, 'fede_vocab')
    seconds: dict[str, list[float]] = {name: [] for name in algorithms}
    for _ in range(settings.turns):
      for name in algorithms:
        seconds[name] += _time_rounds(task, name, shared, settings.rounds)
    report[task] = seconds
    _print(task, seconds)
  files.write_atomically(
    pathlib.Path(settings.output), json.dumps(report, indent=2) + '\n'
  )
  print(f'written: {settings.output}')
  return 0


def _time_rounds(
  task_name: str, algorithm: str, shared: tuple[str, ...], rounds: int
) -> list[float]:
  """Trains so many rounds and one more, and returns the seconds of all but the first."""
  task = importlib.import_module(f'tff_textpriv.tasks.{task_name}').TASK
  with tempfile.TemporaryDirectory() as folder:
    experiment = base.parse(
      task,
      [
        f'--algo={algorithm}',
        *shared,
        *_NO_CLAIM.get(algorithm, ()),
        f'--total_rounds={rounds + 1}',
        f'--rounds_per_eval={rounds + 1}',
        '--max_eval_users=2',
        f'--root_output_dir={folder}',
      ],
    )
    with (
      open(os.devnull, 'w') as nowhere,
      contextlib.redirect_stdout(nowhere),
      _timed_rounds() as seconds,
    ):
      base.run(experiment)
  return seconds[1:]


@contextlib.contextmanager
def _timed_rounds() -> Iterator[list[float]]:
  """Notes how long each call takes by which the training program runs a round."""
  from tff_textpriv.iterative_processes import stacked_batches

  seconds: list[float] = []
  run_round = stacked_batches.NextRound.__call__

  def timed(self, *args):
    started = time.perf_counter()
    output = run_round(self, *args)
    seconds.append(time.perf_counter() - started)
    return output

  stacked_batches.NextRound.__call__ = timed
  try:
    yield seconds
  finally:
    stacked_batches.NextRound.__call__ = run_round


def _print(task: str, seconds: dict[str, list[float]]) -> None:
  baseline = statistics.median(seconds[_BASELINE])
  print(f'\n{task:16} {"seconds":>8} {"lowest":>8} {"highest":>8} {"over FedAvg":>12}')
  for name, times in seconds.items():
    median = statistics.median(times)
    print(
      f'{name:16} {median:8.3f} {min(times):8.3f} {max(times):8.3f} '
      f'{median / baseline:12.2f}'
    )


if __name__ == '__main__':
  flags.run(main, MethodsSettings, __doc__.splitlines()[0])
