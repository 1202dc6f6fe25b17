"""Runs every combination of flags' values, and writes tables and a plot of them.

    python -m tff_textpriv.tools.sweep --task=imdb --algo=rr_ldp \
      --epsilon_per_coordinate=0.1,1,10 --num_clients=10,100 --seeds=3

Runs are made by child processes. A sweep that was stopped or killed goes on where it
was; runs that are done are not repeated.
"""

import dataclasses
import pathlib
import shlex
import sys
from collections.abc import Sequence

from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.experiments import private_selection, sweep_grid, sweep_runner
from tff_textpriv.iterative_processes import registry
from tff_textpriv.settings import setting
from tff_textpriv.tasks import base, shared_flags


@dataclasses.dataclass(frozen=True)
class SweepSettings(settings_lib.Settings):
  """Flags of the command itself."""

  task: str | None = setting(None, 'The task; required.')
  algo: tuple[str, ...] = setting(
    (),
    'The algorithm, or several of them to compare; required. Each gets the flags that '
    'it has.',
    choices=tuple(registry.ALGORITHMS),
  )
  seeds: int = setting(
    1, 'Runs of each combination, with seeds that count on from --seed.', low=1
  )
  jobs: int = setting(1, 'Runs at a time; they share the cores of this machine.', low=1)
  retry_failed: bool = setting(
    False, 'Make runs again that failed before; otherwise they are only reported.'
  )
  metric: str | None = setting(
    None,
    'The figure of results.json that is printed for each run and plotted; by default '
    'the AUC, accuracy or perplexity on the test.',
  )
  private_selection: bool = setting(
    False,
    'Make the choice of the best run a promise of its own: a random number of runs, each '
    'with a combination at random; only the best is released.',
  )
  selection_mean: float = setting(
    10.0, 'The mean number of runs with --private_selection.', above=1, high=10_000
  )
  selection_shape: float = setting(
    1.0,
    'The shape of the negative binomial distribution of their number; 1 for a geometric '
    'one. Less has a longer tail and costs less.',
    above=0,
    high=1_000,
  )
  sweep_dir: str = setting('runs/sweeps', 'The folder of all sweeps.')
  sweep_name: str | None = setting(
    None, 'The name of the sweep and of its folder; by default the task and algorithms.'
  )


_GROUPS = [flags.Group('Sweep', SweepSettings)]


def main(argv: Sequence[str]) -> int:
  """Runs a sweep; returns the exit code of `sweep_runner.run`."""
  own, passed_on = shared_flags.split(argv, SweepSettings)
  chosen = flags.make(SweepSettings, flags.parse(own, _GROUPS))
  if chosen.task is None:
    raise flags.UsageError('--task is missing')
  if not chosen.algo:
    raise flags.UsageError('--algo is missing')
  name = chosen.sweep_name or '_'.join((chosen.task, *chosen.algo))
  folder = pathlib.Path(chosen.sweep_dir) / name
  runs = sweep_grid.make_runs(
    base.find(chosen.task), chosen.algo, passed_on, chosen.seeds, folder
  )
  selection = None
  if chosen.private_selection:
    if chosen.seeds > 1:
      raise settings_lib.SettingsError(
        'seeds', chosen.seeds, '--private_selection draws how many runs there are'
      )
    selection = private_selection.Repetitions(
      chosen.selection_mean, chosen.selection_shape
    )
    runs = private_selection.draw_runs(runs, selection, folder)
  return sweep_runner.run(
    runs,
    folder,
    shlex.join(['python', '-m', 'tff_textpriv.tools.sweep', *argv]),
    jobs=chosen.jobs,
    retry_failed=chosen.retry_failed,
    metric=chosen.metric,
    selection=selection,
  )


def help_page() -> str:
  """Writes the command's help."""
  return flags.format_help(
    'python -m tff_textpriv.tools.sweep --task=NAME --algo=NAME [--flag=value,value ...]',
    'Runs every combination of flags’ values, and writes sweep.csv (one row per run), '
    'sweep_summary.csv and .md (means and standard deviations over seeds) and, where a '
    'swept flag is a number, sweep.png. All other flags are those of the task and of '
    'the algorithms (see the help of the task). Values are separated by commas: '
    '--num_clients=10,100. Values of a flag that is a list itself, and values with '
    'commas in them, are separated by semicolons: --resample_rounds="10,20;30" are two '
    'values. Repeat the command to go on with a sweep that was stopped.',
    _GROUPS,
  )


if __name__ == '__main__':
  flags.exit_with_sentences(lambda: main(sys.argv[1:]), help_page)
