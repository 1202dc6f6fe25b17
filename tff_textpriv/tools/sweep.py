"""Runs every combination of flags' values, and writes tables and a plot of them.

    python -m tff_textpriv.tools.sweep --task=imdb --algo=rr_ldp \
      --epsilon_per_coordinate=0.1,1,10 --num_clients=10,100 --seeds=3

Runs are made by child processes. A sweep that was stopped or killed goes on where it
was; runs that are done are not repeated.
"""

import contextlib
import dataclasses
import pathlib
import shlex
import sys
import time
from collections.abc import Sequence

import tqdm

from tff_textpriv import files, flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import registry
from tff_textpriv.settings import setting
from tff_textpriv.tasks import base
from tff_textpriv.tools import shared_flags, sweep_children, sweep_grid, sweep_table
from tff_textpriv.training import output, stopping


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
  sweep_dir: str = setting('runs/sweeps', 'The folder of all sweeps.')
  sweep_name: str | None = setting(
    None, 'The name of the sweep and of its folder; by default the task and algorithms.'
  )


def main(argv: Sequence[str]) -> int:
  """Runs a sweep.

  Args:
    argv: The arguments, without the program's name.

  Returns:
    The exit code: 0 if all runs have finished, 1 if some have not, 128 and the signal
    if the sweep was stopped.
  """
  own, passed_on = shared_flags.split(argv, SweepSettings)
  chosen = flags.make(SweepSettings, flags.parse(own, _groups()))
  if chosen.task is None:
    raise flags.UsageError('--task is missing')
  if not chosen.algo:
    raise flags.UsageError('--algo is missing')
  name = chosen.sweep_name or '_'.join((chosen.task, *chosen.algo))
  folder = pathlib.Path(chosen.sweep_dir) / name
  runs = sweep_grid.make_runs(
    base.find(chosen.task), chosen.algo, passed_on, chosen.seeds, folder
  )
  with output.OutputFolder(folder, 'sweep_name'):
    for run in runs:
      if run.folder.exists():
        with output.OutputFolder(run.folder, 'sweep_name') as run_folder:
          run_folder.check_config(run.config)
    command = shlex.join(['python', '-m', 'tff_textpriv.tools.sweep', *argv])
    return _run(chosen, runs, folder, command)


def help_page() -> str:
  """Writes the command's help."""
  return flags.format_help(
    'python -m tff_textpriv.tools.sweep --task=NAME --algo=NAME [--flag=value,value ...]',
    'Runs every combination of flags’ values, and writes sweep.csv (a row a run), '
    'sweep_summary.csv and .md (means and standard deviations over seeds) and, where a '
    'swept flag is a number, sweep.png. All other flags are those of the task and of '
    'the algorithms (see the help of the task). Values are separated by commas: '
    '--num_clients=10,100. Values of a flag that is a list itself, and values with '
    'commas in them, are separated by semicolons: --resample_rounds="10,20;30" are two '
    'values. Repeat the command to go on with a sweep that was stopped.',
    _groups(),
  )


def _groups() -> list[flags.Group]:
  return [flags.Group('Sweep', SweepSettings)]


def _run(
  chosen: SweepSettings,
  runs: Sequence[sweep_grid.Run],
  folder: pathlib.Path,
  command: str,
) -> int:
  """Makes the runs that are to be made, and reports; returns the exit code."""
  rows = {row.run.name: row for row in sweep_table.read(folder, runs)}
  statuses = [row.status for row in rows.values()]
  skipped = {sweep_table.FINISHED}
  if not chosen.retry_failed:
    skipped.add(sweep_table.FAILED)
  to_do = [row.run for row in rows.values() if row.status not in skipped]
  print(
    f'sweep of {len(runs)} runs in {folder}: '
    f'{statuses.count(sweep_table.FINISHED)} finished before, '
    f'{statuses.count(sweep_table.FAILED)} failed before, {len(to_do)} to do',
    flush=True,
  )
  table = sweep_table.write(folder, list(rows.values()), command)
  began = time.monotonic()
  with (
    stopping.stop_on_signals() as stop,
    contextlib.closing(sweep_children.attempts(to_do, chosen.jobs, stop)) as attempts,
  ):
    for number, attempt in enumerate(attempts, 1):
      row = sweep_table.after(rows[attempt.run.name], attempt)
      rows[row.run.name] = row
      table = sweep_table.write(folder, list(rows.values()), command)
      left = (time.monotonic() - began) / number * (len(to_do) - number)
      metric = chosen.metric or sweep_table.default_metric([row])
      print(
        f'[{number}/{len(to_do)}] {_line(row, metric)}, {_clock(left)} left', flush=True
      )
  print(f'\n{table}\n')
  _report(list(rows.values()), folder, chosen.metric)
  if stop:
    print('stopped; repeat the command to go on', file=sys.stderr)
    return 128 + (stop.signal_number or 0)
  return int(any(row.status != sweep_table.FINISHED for row in rows.values()))


def _line(row: sweep_table.Row, metric: str | None) -> str:
  """Says how a run ended."""
  run = sweep_table.label(row.run.point | {'seed': row.run.config['seed']})
  line = f'{row.status}: {run}'
  if row.status == sweep_table.FAILED:
    line += f': {row.error} (log: {row.run.log_file})'
  elif metric is not None and sweep_table.is_number(row.results.get(metric)):
    line += f', {metric} {row.results[metric]:.4g}'
  return line if row.seconds is None else f'{line}, {_clock(row.seconds)}'


def _clock(seconds: float) -> str:
  return tqdm.tqdm.format_interval(seconds)


def _report(
  rows: Sequence[sweep_table.Row], folder: pathlib.Path, metric: str | None
) -> None:
  """Draws the plot, names the runs that failed, and says what was written."""
  written = ['sweep.csv', 'sweep_summary.csv', 'sweep_summary.md']
  failed = [row for row in rows if row.status == sweep_table.FAILED]
  for row in failed:
    print(_line(row, metric))
  finished = [row for row in rows if row.status == sweep_table.FINISHED]
  print(f'{len(finished)} of {len(rows)} runs finished, {len(failed)} failed', end='')
  print('; --retry_failed makes those again' if failed else '')
  figures = {
    name
    for row in finished
    for name, value in row.results.items()
    if sweep_table.is_number(value)
  }
  if finished and metric is not None and metric not in figures:
    raise settings_lib.SettingsError(
      'metric', metric, f'must be one of {", ".join(sorted(figures))}'
    )
  metric = metric or sweep_table.default_metric(finished)
  if metric is not None:
    # Only now is matplotlib needed, which takes a second.
    from tff_textpriv.tools import sweep_plot

    measured = [each for each in sweep_table.points(rows) if each.spread(metric)]
    swept = sweep_plot.swept_number(measured)
    if swept is not None:
      picture = sweep_plot.draw(measured, swept, metric)
      files.write_atomically(folder / 'sweep.png', picture)
      written.append('sweep.png')
  print(f'written: {folder}/ ({", ".join(written)})')


if __name__ == '__main__':
  flags.exit_with_sentences(lambda: main(sys.argv[1:]), help_page)
