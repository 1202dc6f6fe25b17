"""Trains with faulty clients among the honest ones: how many does an algorithm bear?

  python -m benchmarks.faults --task=imdb --data=aclImdb --num_clients=100
  python -m benchmarks.faults --total_rounds=2 --shares=0,0.4     # does it run?

Each algorithm is trained with each fault at each share of faulty users, the same users in
the same rounds. One table, one CSV file and one picture: the test figure, or for
backdoors the share of triggered examples that go where they should not, over the share of
faulty users. Flags that are not the benchmark's own go to all runs that have them.
Interrupted or repeated, it makes only what is missing.
"""

import contextlib
import dataclasses
import io
import json
import math
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import figure as figure_lib

from benchmarks import faulty_clients
from tff_textpriv import files, flags, metrics
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import registry
from tff_textpriv.reports import plots, tables
from tff_textpriv.runtime import heaps
from tff_textpriv.settings import setting
from tff_textpriv.tasks import base, command_flags, shared_flags

_ARMS = {
  'fed_avg': {'algo': 'fed_avg'},
  'fed_avg uniform': {'algo': 'fed_avg', 'client_weighting': 'uniform'},
  'fed_att exact': {'algo': 'fed_att', 'attention': 'exact'},
  'fed_att smoothed': {'algo': 'fed_att', 'attention': 'smoothed'},
  'fed_att from centre': {
    'algo': 'fed_att',
    'attention': 'smoothed',
    'attention_distance': 'from_centre',
  },
  'fed_att layerwise': {'algo': 'fed_att', 'attention': 'layerwise'},
  'zeroing and clipping': {
    'algo': 'robust_avg',
    'robust_rule': 'zeroing_and_clipping',
  },
  'norm bound': {'algo': 'robust_avg', 'robust_rule': 'norm_bound'},
  'geometric median': {'algo': 'robust_avg', 'robust_rule': 'geometric_median'},
  'trimmed mean': {
    'algo': 'robust_avg',
    'robust_rule': 'trimmed_mean',
    'faulty_share': 0.4,
  },
  'multi-krum': {
    'algo': 'robust_avg',
    'robust_rule': 'multi_krum',
    'faulty_share': 0.4,
  },
  'fed_nova': {'algo': 'fed_nova'},
}
# Which figure is told of a task: the first that it has.
_FIGURES = (
  'test_auc',
  'test_accuracy',
  'test_global_accuracy',
  'test_word_perplexity',
  'test_token_perplexity',
)
# All servers take the averaged update as it is.
_SAME = {
  'server_optimizer': 'sgd',
  'server_learning_rate': 1.0,
  'rounds_per_eval': 1000,
}


@dataclasses.dataclass(frozen=True)
class FaultsSettings(settings_lib.Settings):
  """What to train."""

  task: str = setting('imdb', 'The task.')
  arms: tuple[str, ...] = setting(
    tuple(_ARMS),
    'What is trained: one of the arms, or any other algorithm by its name.',
  )
  faults: tuple[str, ...] = setting(
    tuple(faulty_clients.FAULTS),
    'What is wrong with faulty users: '
    + ', '.join(f'{fault.summary} ({n})' for n, fault in faulty_clients.FAULTS.items())
    + '.',
    choices=tuple(faulty_clients.FAULTS),
  )
  shares: tuple[float, ...] = setting(
    (0.0, 0.1, 0.2, 0.3, 0.4), 'Shares of faulty users.', low=0, high=1
  )
  seeds: tuple[int, ...] = setting((0,), 'Seeds of the runs.', low=0)
  output: str = setting('build/faults', 'The folder for runs and results.')


@dataclasses.dataclass(frozen=True)
class Point:
  """What one run has shown.

  Attributes:
    arm, fault, share, seed: What was trained.
    figure: The test figure.
    backdoor: How often the trigger opens the backdoor; `None` if there can be none.
  """

  arm: str
  fault: str
  share: float
  seed: int
  figure: float
  backdoor: float | None


def main(settings: FaultsSettings, given: Mapping[str, str]) -> int:
  """Trains all that is missing; writes faults.csv, .md and .svg; returns 0."""
  heaps.limit()  # As a run does.
  folder = pathlib.Path(settings.output)
  grid = [
    (arm, fault, share, seed)
    for seed in settings.seeds
    for arm in settings.arms
    for fault in settings.faults
    for share in settings.shares
  ]
  points, name = [], ''
  for number, (arm, fault, share, seed) in enumerate(grid, start=1):
    print(f'{number}/{len(grid)}  {arm}, {fault}, {share:g}, seed {seed}', flush=True)
    # Where nobody is faulty all faults are the same run.
    run_fault = fault if share else settings.faults[0]
    name, point = _point(settings.task, given, folder, arm, run_fault, share, seed)
    points.append(dataclasses.replace(point, fault=fault))
  metric = metrics.find(name.removeprefix('test_'))
  _write(folder, metric, points)
  return 0


def _point(
  task_name: str,
  given: Mapping[str, str],
  folder: pathlib.Path,
  arm: str,
  fault: str,
  share: float,
  seed: int,
) -> tuple[str, Point]:
  """Returns the name of the figure and what a run shows; makes the run if need be."""
  place = folder / f'{arm}_{fault}_{share:g}_{seed}'.replace(' ', '_')
  done = place / 'point.json'
  if not done.exists():
    files.write_atomically(
      done,
      json.dumps(_trained(task_name, given, place, arm, fault, share, seed)) + '\n',
    )
  found = json.loads(done.read_text(encoding='utf-8'))
  figure = math.inf if found['figure'] is None else found['figure']
  return found['name'], Point(arm, fault, share, seed, figure, found['backdoor'])


def _trained(
  task_name: str,
  given: Mapping[str, str],
  place: pathlib.Path,
  arm: str,
  fault: str,
  share: float,
  seed: int,
) -> dict[str, Any]:
  """Makes a run; what it prints goes to a file."""
  from tff_textpriv.training import runner

  task = base.find(task_name)
  of_arm = _ARMS.get(arm, {'algo': arm})
  algorithm = registry.ALGORITHMS[str(of_arm['algo'])]
  known = command_flags.own_flags(task, algorithm)
  asked = {name: value for name, value in given.items() if name in known}
  same = {name: value for name, value in _SAME.items() if name in known}
  chosen = base.make_experiment(
    task,
    same
    | asked
    | of_arm
    | {'seed': seed, 'root_output_dir': str(place), 'experiment_name': 'run'},
  )
  faulty = faulty_clients.FaultyRun(faulty_clients.FAULTS[fault], share, seed)
  chosen = dataclasses.replace(chosen, algorithm=faulty.algorithm(chosen.algorithm))
  log = io.StringIO()
  try:
    with contextlib.redirect_stdout(log):
      runner.run(chosen, faulty.train)
  finally:
    files.write_atomically(place / 'run.log', log.getvalue())
  results = json.loads((chosen.folder / 'results.json').read_text(encoding='utf-8'))
  name = next(name for name in _FIGURES if name in results)
  return {'name': name, 'figure': results[name], 'backdoor': faulty.backdoor}


def _write(
  folder: pathlib.Path, metric: metrics.Metric, points: Sequence[Point]
) -> None:
  """Writes the table and the picture, and prints the table."""
  shares = sorted({point.share for point in points})
  arms = list(dict.fromkeys(point.arm for point in points))
  pages = []
  for fault in dict.fromkeys(point.fault for point in points):
    rows = [
      [arm, *(_shown(points, metric, arm, fault, share) for share in shares)]
      for arm in arms
    ]
    label = _label(metric, fault)
    summary = faulty_clients.FAULTS[fault].summary
    pages.append(
      f'## {fault}: {summary}\n\n{label}, by the share of faulty users:\n\n'
      + tables.markdown(['', *(f'{share:.0%}' for share in shares)], rows)
    )
  text = '\n\n'.join(pages) + '\n'
  columns = [field.name for field in dataclasses.fields(Point)]
  values = [dataclasses.astuple(point) for point in points]
  files.write_atomically(folder / 'faults.csv', tables.csv_text(columns, values))
  files.write_atomically(folder / 'faults.md', text)
  _draw(folder / 'faults.svg', metric, points, arms)
  print(f'{text}\nwritten: {folder}/faults.csv, .md, .svg')


def _label(metric: metrics.Metric, fault: str) -> str:
  if fault == 'backdoored':
    return 'share of triggered examples put into the target’s class'
  return f'test {metric.label}'


def _values(points: Sequence[Point], arm: str, fault: str, share: float) -> list[float]:
  """Returns what is told of runs that differ in their seeds alone."""
  chosen = [p for p in points if (p.arm, p.fault, p.share) == (arm, fault, share)]
  if fault != 'backdoored':
    return [point.figure for point in chosen]
  return [point.backdoor for point in chosen if point.backdoor is not None]


def _shown(
  points: Sequence[Point], metric: metrics.Metric, arm: str, fault: str, share: float
) -> str:
  values = _values(points, arm, fault, share)
  if not values:
    return '-'
  mean = sum(values) / len(values)
  return f'{mean:.1%}' if fault == 'backdoored' else metric.pattern.format(mean)


def _draw(
  file: pathlib.Path,
  metric: metrics.Metric,
  points: Sequence[Point],
  arms: Sequence[str],
) -> None:
  """Draws one panel for each fault, one line for each arm."""
  faults = list(dict.fromkeys(point.fault for point in points))
  shares = sorted({point.share for point in points})
  columns = min(3, len(faults))
  rows = math.ceil(len(faults) / columns)
  figure = figure_lib.Figure(
    figsize=(4 * columns, 3.2 * rows + 0.8), layout='constrained'
  )
  for number, fault in enumerate(faults, start=1):
    axes = figure.add_subplot(rows, columns, number)
    for arm in arms:
      of_arm = [_values(points, arm, fault, share) for share in shares]
      means = [sum(each) / len(each) if each else math.nan for each in of_arm]
      axes.plot(shares, means, marker='.', label=arm)
    axes.set(title=fault, xlabel='share of faulty users')
    axes.set_ylabel('backdoor opens' if fault == 'backdoored' else metric.label)
    if metric.is_perplexity and fault != 'backdoored':
      axes.set_yscale('log')
    handles, labels = axes.get_legend_handles_labels()
  figure.legend(handles, labels, loc='outside lower center', ncols=4, fontsize='small')
  files.write_atomically(file, plots.svg(figure))


_GROUPS = [flags.Group('Faults', FaultsSettings)]


def command(argv: Sequence[str]) -> int:
  """Runs the benchmark with the arguments of its command line."""
  own, passed_on = shared_flags.split(argv, FaultsSettings)
  settings = flags.make(FaultsSettings, flags.parse(own, _GROUPS))
  groups = command_flags.groups(base.find(settings.task))
  return main(settings, flags.parse(passed_on, groups))


def _help() -> str:
  return flags.format_help(
    'python -m benchmarks.faults [--flag=value ...]',
    'Trains with faulty clients among the honest ones. Arms: '
    f'{", ".join(_ARMS)}. All other flags are passed on to the runs that have them.',
    _GROUPS,
  )


if __name__ == '__main__':
  flags.exit_with_sentences(lambda: command(sys.argv[1:]), _help)
