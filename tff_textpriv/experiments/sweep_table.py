"""What a sweep writes down: a row a run, and means and spreads over seeds."""

import csv
import dataclasses
import io
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tff_textpriv import files, metrics, run_folder
from tff_textpriv import settings as settings_lib
from tff_textpriv.experiments import paired, sweep_children, sweep_grid
from tff_textpriv.reports import tables

FINISHED, FAILED, UNFINISHED = 'finished', 'failed', 'unfinished'
# What is known of a run beside its settings and figures; columns of sweep.csv.
_RECORD = ('run', 'status', 'error', 'seconds')


@dataclasses.dataclass(frozen=True)
class Row:
  """A run and what is known of it.

  Attributes:
    run: The run.
    status: `finished`, `failed` or `unfinished`.
    error: Why it failed, in a sentence.
    seconds: How long its attempts took, as far as a sweep saw them end.
    results: The figures of a finished run.
  """

  run: sweep_grid.Run
  status: str
  error: str = ''
  seconds: float | None = None
  results: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Point:
  """The finished runs that differ only in their seeds.

  Attributes:
    settings: The algorithm and the swept flags that it has.
    rows: The runs.
  """

  settings: Mapping[str, Any]
  rows: Sequence[Row]

  def spread(self, figure: str) -> paired.Spread | None:
    """Returns a figure's spread; `None` unless it is a number in all of the runs."""
    return paired.spread([metrics.number(row.results.get(figure)) for row in self.rows])


def label(settings: Mapping[str, Any]) -> str:
  """Writes settings as `rr_ldp num_clients=10`."""
  words = [
    f'{name}={settings_lib.format_value(value)}' for name, value in settings.items()
  ]
  return ' '.join(words).replace('algo=', '', 1)


def read(folder: pathlib.Path, runs: Sequence[sweep_grid.Run]) -> list[Row]:
  """Reads what is known of runs: results from their folders, the rest from sweep.csv."""
  file = folder / 'sweep.csv'
  known: dict[str, dict[str, str]] = {}
  if file.exists():
    lines = io.StringIO(files.read_text(file), newline='')
    try:
      known = {row['run']: row for row in csv.DictReader(lines)}
      for row in known.values():
        float(row['seconds'] or 0)
    except (KeyError, ValueError, csv.Error) as error:
      raise files.FileError(
        f'{file}: not the table that a sweep writes ({error!r}); remove it to try again '
        'what failed'
      ) from error
  return [_read_row(run, known.get(run.name, {})) for run in runs]


def _read_row(run: sweep_grid.Run, known: Mapping[str, str]) -> Row:
  seconds = float(known['seconds']) if known.get('seconds') else None
  results = run_folder.finished_results(run.folder, run.config)
  if results is not None:
    return Row(run, FINISHED, seconds=seconds, results=results)
  if known.get('status') == FAILED:
    return Row(run, FAILED, known['error'], seconds)
  return Row(run, UNFINISHED, seconds=seconds)


def after(row: Row, attempt: sweep_children.Attempt[sweep_grid.Run]) -> Row:
  """Returns what is known of a run after one more attempt."""
  seconds = (row.seconds or 0.0) + attempt.seconds
  if attempt.error:
    return Row(row.run, FAILED, attempt.error, seconds)
  results = run_folder.finished_results(row.run.folder, row.run.config)
  if results is None:
    return Row(row.run, UNFINISHED, seconds=seconds)
  return Row(row.run, FINISHED, seconds=seconds, results=results)


def points(rows: Sequence[Row]) -> list[Point]:
  """Groups runs that differ only in their seeds; those that finished count."""
  settings = {label(row.run.point): row.run.point for row in rows}
  return [
    Point(
      point,
      [row for row in rows if row.run.point == point and row.status == FINISHED],
    )
    for point in settings.values()
  ]


def default_metric(rows: Sequence[Row]) -> str | None:
  """Returns the figure that tells most of the finished runs; one that all have."""
  finished = [row.results for row in rows if row.status == FINISHED]
  shared = [
    metric.test
    for metric in metrics.UTILITIES
    if all(metrics.number(each.get(metric.test)) is not None for each in finished)
  ]
  return shared[0] if finished and shared else None


def write_runs(folder: pathlib.Path, rows: Sequence[Row]) -> None:
  """Writes sweep.csv."""
  settings = _names(row.run.config for row in rows)
  figures = _names(row.results for row in rows)
  files.write_atomically(
    folder / 'sweep.csv',
    tables.csv_text(
      [*_RECORD, *settings, *figures],
      [
        [
          row.run.name,
          row.status,
          row.error,
          None if row.seconds is None else round(row.seconds, 1),
          *(_cell(row.run.config.get(name)) for name in settings),
          *(_cell(row.results.get(name)) for name in figures),
        ]
        for row in rows
      ],
    ),
  )


def write(
  folder: pathlib.Path, rows: Sequence[Row], command: str, note: str = ''
) -> str:
  """Writes sweep.csv, sweep_summary.csv and sweep_summary.md.

  Args:
    folder: The sweep's folder.
    rows: All its runs.
    command: The command, for the reader to repeat it.
    note: A paragraph for the end of the summary.

  Returns:
    The table of means and spreads, to print.
  """
  write_runs(folder, rows)
  figures = _names(row.results for row in rows)
  grouped = points(rows)
  swept = _names(point.settings for point in grouped)
  measured = [
    figure for figure in figures if any(point.spread(figure) for point in grouped)
  ]
  files.write_atomically(
    folder / 'sweep_summary.csv', _summary_csv(grouped, swept, measured)
  )
  shown = [
    metric.column
    for metric in metrics.METRICS.values()
    if metric.is_main and metric.column in {*measured, 'epsilon'}
  ]
  table = tables.markdown(
    [*swept, 'n', *shown],
    [
      [
        *(_cell(point.settings.get(name)) for name in swept),
        str(len(point.rows)),
        *(_mean_and_deviation(point, figure) for figure in shown),
      ]
      for point in grouped
    ],
  )
  files.write_atomically(
    folder / 'sweep_summary.md',
    f'# Mean ± standard deviation over n seeds\n\n    {command}\n\n{table}\n'
    + (f'\n{note}\n' if note else ''),
  )
  return table


def _summary_csv(
  grouped: Sequence[Point], swept: Sequence[str], figures: Sequence[str]
) -> str:
  lines = []
  for point in grouped:
    line: list[Any] = [_cell(point.settings.get(name)) for name in swept]
    line.append(len(point.rows))
    for figure in figures:
      spread = point.spread(figure)
      line += [spread and spread.mean, spread and spread.deviation]
    lines.append(line)
  columns = [f'{figure}_{what}' for figure in figures for what in ('mean', 'sd')]
  return tables.csv_text([*swept, 'n', *columns], lines)


def _mean_and_deviation(point: Point, figure: str) -> str:
  """Writes a figure of a point for people."""
  spread = point.spread(figure)
  shown = metrics.find(figure).shown
  if spread is None:
    return 'no guarantee' if figure == 'epsilon' and point.rows else '-'
  if spread.deviation is None:
    return shown(spread.mean)
  return f'{shown(spread.mean)} ± {shown(spread.deviation)}'


def _names(maps: Iterable[Mapping[str, Any]]) -> list[str]:
  """Returns the keys of all maps, in the order in which they first appear."""
  return list(dict.fromkeys(name for each in maps for name in each))


def _cell(value: Any) -> str:
  return '' if value is None else settings_lib.format_value(value)
