"""Makes the runs of a sweep that are to be made, and says how each ended."""

import contextlib
import pathlib
import sys
import time
from collections.abc import Sequence

import tqdm

from tff_textpriv import files, metrics
from tff_textpriv import settings as settings_lib
from tff_textpriv.experiments import (
  private_selection,
  sweep_children,
  sweep_costs,
  sweep_grid,
  sweep_table,
)
from tff_textpriv.training import output, stopping


def run(
  runs: Sequence[sweep_grid.Run],
  folder: pathlib.Path,
  command: str,
  *,
  jobs: int = 1,
  retry_failed: bool = False,
  metric: str | None = None,
  selection: private_selection.Repetitions | None = None,
) -> int:
  """Makes the runs that are not done, writes the sweep's files, and reports.

  Args:
    runs: All runs of the sweep.
    folder: The sweep's folder.
    command: The command, for the reader to repeat it.
    jobs: How many runs are made at a time.
    retry_failed: Whether runs that failed before are made again.
    metric: The figure that is printed and plotted; by default one that all runs have.
    selection: If the best run is to be chosen under a promise, how often runs are
      repeated; then no figures of the runs are in the summary.

  Returns:
    The exit code: 0 if all runs have finished, 1 if some have not, 128 and the signal
    if the sweep was stopped.
  """
  with output.OutputFolder(folder, 'sweep_name'):
    for each in runs:
      if each.folder.exists():
        with output.OutputFolder(each.folder, 'sweep_name') as run_folder:
          run_folder.check_config(each.config)
    rows = {row.run.name: row for row in sweep_table.read(folder, runs)}
    statuses = [row.status for row in rows.values()]
    skipped = {sweep_table.FINISHED}
    if not retry_failed:
      skipped.add(sweep_table.FAILED)
    to_do = [row.run for row in rows.values() if row.status not in skipped]
    print(
      f'sweep of {len(runs)} runs in {folder}: '
      f'{statuses.count(sweep_table.FINISHED)} finished before, '
      f'{statuses.count(sweep_table.FAILED)} failed before, {len(to_do)} to do',
      flush=True,
    )
    _write(folder, list(rows.values()), command, selection)
    began = time.monotonic()
    with (
      stopping.stop_on_signals() as stop,
      contextlib.closing(sweep_children.attempts(to_do, jobs, stop)) as attempts,
    ):
      for number, attempt in enumerate(attempts, 1):
        row = sweep_table.after(rows[attempt.run.name], attempt)
        rows[row.run.name] = row
        _write(folder, list(rows.values()), command, selection)
        left = (time.monotonic() - began) / number * (len(to_do) - number)
        line = _line(row, metric or sweep_table.default_metric([row]))
        print(f'[{number}/{len(to_do)}] {line}, {_clock(left)} left', flush=True)
    if selection is None:
      _report(list(rows.values()), folder, command, metric)
    else:
      _select(list(rows.values()), folder, command, metric, selection)
  if stop:
    print('stopped; repeat the command to go on', file=sys.stderr)
    return 128 + (stop.signal_number or 0)
  return int(any(row.status != sweep_table.FINISHED for row in rows.values()))


def _write(
  folder: pathlib.Path,
  rows: Sequence[sweep_table.Row],
  command: str,
  selection: private_selection.Repetitions | None,
) -> None:
  """Writes what is known so far; where one run is chosen, the runs' own table alone."""
  if selection is None:
    sweep_table.write(folder, rows, command)
  else:
    sweep_table.write_runs(folder, rows)


def _select(
  rows: Sequence[sweep_table.Row],
  folder: pathlib.Path,
  command: str,
  metric: str | None,
  selection: private_selection.Repetitions,
) -> None:
  """Releases the best run, if all have finished."""
  if any(row.status != sweep_table.FINISHED for row in rows):
    print('nothing is chosen before all runs have finished')
    return
  runs = [row.run for row in rows]
  promised = private_selection.release(runs, selection, folder, command, metric)
  target = folder / private_selection.SELECTED
  print(
    f'privacy of the chosen run: {promised["headline"]}\n'
    f'written: {target}/ and sweep_summary.md, which may be released. All else in '
    f'{folder}, the number of runs too, is covered by no promise: keep it to yourself'
  )


def _line(row: sweep_table.Row, metric: str | None) -> str:
  """Says how a run ended."""
  run = sweep_table.label(row.run.point | {'seed': row.run.config['seed']})
  line = f'{row.status}: {run}'
  if row.status == sweep_table.FAILED:
    line += f': {row.error} (log: {row.run.log_file})'
  elif metric is not None and metrics.number(row.results.get(metric)) is not None:
    line += f', {metric} {row.results[metric]:.4g}'
  return line if row.seconds is None else f'{line}, {_clock(row.seconds)}'


def _clock(seconds: float) -> str:
  return tqdm.tqdm.format_interval(seconds)


def _report(
  rows: Sequence[sweep_table.Row],
  folder: pathlib.Path,
  command: str,
  metric: str | None,
) -> None:
  """Prints the table and what all runs cost, draws the plot, names what failed."""
  together = sweep_costs.of_runs(row.run.folder for row in rows).in_words()
  print(f'\n{sweep_table.write(folder, rows, command, together)}\n\n{together}\n')
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
    if metrics.number(value) is not None
  }
  if finished and metric is not None and metric not in figures:
    raise settings_lib.SettingsError(
      'metric', metric, f'must be one of {", ".join(sorted(figures))}'
    )
  metric = metric or sweep_table.default_metric(finished)
  if metric is not None:
    # Only now is matplotlib needed, which takes a second.
    from tff_textpriv.experiments import sweep_plot

    measured = [each for each in sweep_table.points(rows) if each.spread(metric)]
    swept = sweep_plot.swept_number(measured)
    if swept is not None:
      picture = sweep_plot.draw(measured, swept, metric)
      files.write_atomically(folder / 'sweep.png', picture)
      written.append('sweep.png')
  print(f'written: {folder}/ ({", ".join(written)})')
