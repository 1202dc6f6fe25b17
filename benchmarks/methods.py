"""Times a round of every algorithm against one of federated averaging.

  python -m benchmarks.methods                 # all; about ten minutes
  python -m benchmarks.methods --quick         # does it run? two algorithms, a minute

Each algorithm trains on embedded data through its command's own code; what is timed is
the call that trains a round, after a first one that compiles. Algorithms take turns, so
that whatever else the machine does hits all of them, and a ratio is that of two medians
of one turn. Before the first turn the baseline runs once more than is counted: what the
process does for the first time is not the baseline's fault.
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
# What the figure of a run would be does not matter here, and what would refuse to claim it
# is not asked.
_NOISE = ('--privacy_claim=false', '--noise_multiplier=1')
# Runs of one algorithm with other flags than its name alone has.
_FLAGS = {
  'dp_fed_avg': ('--algo=dp_fed_avg', *_NOISE),
  'dp_ftrl, blt': ('--algo=dp_ftrl', '--ftrl_noise=blt', *_NOISE),
  'dp_ftrl, banded': ('--algo=dp_ftrl', '--ftrl_noise=banded', *_NOISE),
  'dp_ftrl, tree': ('--algo=dp_ftrl', '--ftrl_noise=tree', *_NOISE),
  'distributed': ('--algo=dp_fed_avg', '--mechanism=distributed', *_NOISE),
  'rr_ldp': ('--algo=rr_ldp', '--privacy_claim=false'),
  'fed_att, exact': ('--algo=fed_att', '--attention=exact'),
  'fed_att, smoothed': ('--algo=fed_att', '--attention=smoothed'),
  'fed_att, from centre': (
    '--algo=fed_att',
    '--attention=smoothed',
    '--attention_distance=from_centre',
  ),
  'robust_avg, median': ('--algo=robust_avg', '--robust_rule=geometric_median'),
  'robust_avg, trimmed': ('--algo=robust_avg', '--robust_rule=trimmed_mean'),
}
_EVERYWHERE = (_BASELINE, 'fed_prox', 'fed_sgd', 'fed_nova', *_FLAGS, 'scaffold')
_ON_DEVICE = ('lg_fedavg', 'local_only')
# What is compared: a task, the flags that all share, and the names of runs.
_GROUPS = {
  'stackoverflow': (
    ('--tied_embeddings=false', '--clients_per_round=10'),
    (*_EVERYWHERE, *_ON_DEVICE),
  ),
  'agnews': (
    ('--model=bilstm_small', '--clients_per_round=10'),
    (*_EVERYWHERE, *_ON_DEVICE, 'fed_recon', 'fede_vocab'),
  ),
}


@dataclasses.dataclass(frozen=True)
class MethodsSettings(settings_lib.Settings):
  """What to time."""

  tasks: tuple[str, ...] = setting(
    tuple(_GROUPS), 'The tasks whose algorithms are compared.', choices=tuple(_GROUPS)
  )
  rounds: int = setting(5, 'Timed rounds of each turn.', low=1)
  turns: int = setting(3, 'How often each algorithm has its turn.', low=1)
  output: str = setting('build/methods.json', 'The file for the results.')
  quick: bool = setting(False, 'Only see whether it runs: one round of two algorithms.')


def main(settings: MethodsSettings) -> int:
  """Times all, prints a table for each task, writes JSON."""
  if settings.quick:
    settings = dataclasses.replace(settings, tasks=('agnews',), rounds=1, turns=1)
  report = {}
  for task in settings.tasks:
    shared, names = _GROUPS[task]
    if settings.quick:
      names = (_BASELINE, 'fede_vocab')
    _time_rounds(task, _BASELINE, shared, settings.rounds)
    # For each name, the seconds of the rounds of each turn.
    turns: dict[str, list[list[float]]] = {name: [] for name in names}
    for _ in range(settings.turns):
      for name in names:
        turns[name].append(_time_rounds(task, name, shared, settings.rounds))
    report[task] = turns
    _print(task, turns)
  files.write_atomically(
    pathlib.Path(settings.output), json.dumps(report, indent=2) + '\n'
  )
  print(f'written: {settings.output}')
  return 0


def _time_rounds(
  task_name: str, name: str, shared: tuple[str, ...], rounds: int
) -> list[float]:
  """Trains so many rounds and one more, and returns the seconds of all but the first."""
  task = importlib.import_module(f'tff_textpriv.tasks.{task_name}').TASK
  with tempfile.TemporaryDirectory() as folder:
    experiment = base.parse(
      task,
      [
        *_FLAGS.get(name, (f'--algo={name}',)),
        *shared,
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


def _print(task: str, turns: dict[str, list[list[float]]]) -> None:
  medians = {
    name: [statistics.median(rounds) for rounds in own] for name, own in turns.items()
  }
  print(f'\n{task:16} {"seconds":>8} {"over FedAvg":>12} {"lowest":>8} {"highest":>8}')
  for name, own in medians.items():
    ratios = [
      mine / theirs for mine, theirs in zip(own, medians[_BASELINE], strict=True)
    ]
    print(
      f'{name:16} {statistics.median(own):8.3f} {statistics.median(ratios):12.2f} '
      f'{min(ratios):8.2f} {max(ratios):8.2f}'
    )


if __name__ == '__main__':
  flags.run(main, MethodsSettings, __doc__.splitlines()[0])
