"""What a study leaves behind: a Markdown table, a CSV and a plot."""

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tff_textpriv import files, results
from tff_textpriv.tools import plots, studies, tables

_PERPLEXITY = 'test_word_perplexity'


@dataclasses.dataclass(frozen=True)
class Row:
  """A run of a study and its figures, ours and the paper's."""

  arm: studies.Arm
  folder: pathlib.Path
  results: Mapping[str, Any]
  paper: Mapping[str, float]


def write(
  study: studies.Study,
  task: str,
  rows: Sequence[Row],
  folder: pathlib.Path,
  command: Sequence[str],
) -> str:
  """Writes the study's files.

  Args:
    study: The study.
    task: The task's name.
    rows: Its runs.
    folder: Where to write.
    command: The flags of the command, for the reader to repeat it.

  Returns:
    The table, to print.
  """
  table = _markdown(study, rows)
  page = (
    f'# {study.title}\n\nTask {task}. Made by\n\n'
    f'    python -m tff_textpriv.tools.study {" ".join(command)}\n\n'
    'Figures in brackets are the paper’s, on its data and at its scale.\n\n'
    f'{table}\n\n![plot]({study.name}.png)\n'
  )
  files.write_atomically(folder / f'{study.name}.md', page)
  files.write_atomically(folder / f'{study.name}.csv', _csv(study, task, rows))
  files.write_atomically(folder / f'{study.name}.png', _plot(study, rows))
  return table


def _markdown(study: studies.Study, rows: Sequence[Row]) -> str:
  headers = [
    study.row_header,
    *(studies.column_format(column)[0] for column in study.columns),
  ]
  cells = [
    [row.arm.label, *(_cell(row, column) for column in study.columns)] for row in rows
  ]
  return tables.markdown(headers, cells)


def _value(row: Row, column: str) -> Any:
  """Returns our figure: of the results, or of a round of training."""
  name, _, round_number = column.partition('@')
  if not round_number:
    return row.results.get(name)
  rounds, values = _curve(row.folder, name)
  return dict(zip(rounds, values, strict=True)).get(int(round_number))


def _cell(row: Row, column: str) -> str:
  """Formats our figure, and the paper's in brackets."""
  pattern = studies.column_format(column)[1]
  value = _value(row, column)
  if column == 'epsilon' and value is None:
    return 'no guarantee'
  if column == _PERPLEXITY and '--tokenizer=word' in row.arm.flags:
    # A closed vocabulary's perplexity leaves out the words it does not know.
    return '-'
  ours = '-' if value is None or math.isnan(value) else pattern.format(value)
  return (
    f'{ours} ({pattern.format(row.paper[column])})' if column in row.paper else ours
  )


def _csv(study: studies.Study, task: str, rows: Sequence[Row]) -> str:
  headers = ['study', 'task', 'arm', 'curve', 'x', *study.columns]
  return tables.csv_text(
    [*headers, *(f'paper_{column}' for column in study.columns)],
    [
      [study.name, task, row.arm.label, row.arm.curve, row.arm.x]
      + [_value(row, column) for column in study.columns]
      + [row.paper.get(column) for column in study.columns]
      for row in rows
    ],
  )


def _plot(study: studies.Study, rows: Sequence[Row]) -> bytes:
  """Draws the study's metric: over rounds, over the arms' numbers, or as bars."""
  column, label = _plotted(study)
  is_perplexity = column.endswith('perplexity')
  figure, axes = plots.blank(7, 4.2)
  if study.plots_rounds:
    for row in rows:
      points = _curve(row.folder, f'validation_{study.metric}')
      axes.plot(*points, marker='.', label=row.arm.label)
    axes.set(xlabel='round', ylabel=label.replace('test ', 'validation '))
    axes.set_yscale('log' if is_perplexity else 'linear')
    axes.legend()
  elif study.x_label:
    placed = [row for row in rows if row.arm.x is not None]
    for curve in dict.fromkeys(row.arm.curve for row in placed):
      # A run that never reached the target has no point.
      placed_points = [
        (row.arm.x, math.nan if row.results[column] is None else row.results[column])
        for row in placed
        if row.arm.curve == curve
      ]
      axes.plot(*zip(*placed_points, strict=True), marker='o', label=curve)
    for row in rows:
      if row.arm.x is None:
        axes.axhline(row.results[column], color='gray', ls='--', label=row.arm.label)
    axes.set(xlabel=study.x_label, ylabel=label, xscale=study.x_scale)
    axes.legend()
  else:
    shown = [row for row in rows if '--tokenizer=word' not in row.arm.flags]
    bars = axes.barh(
      [row.arm.label for row in shown], [row.results[column] for row in shown]
    )
    axes.bar_label(bars, fmt=_number_format(column), padding=3)
    axes.margins(x=0.12)
    axes.invert_yaxis()
    axes.set(xlabel=label)
  axes.set_title(study.title)
  return plots.png(figure)


def _number_format(column: str) -> str:
  """Returns how bars are labelled."""
  if column.startswith('bytes'):
    return '{:,.0f}'
  return '%.1f' if column.endswith('perplexity') else '%.3f'


def _plotted(study: studies.Study) -> tuple[str, str]:
  """Returns the column of the results that a study plots, and its label."""
  if study.metric == 'rounds_to_target':
    return study.metric, 'rounds to the target perplexity'
  if study.metric == 'bytes_up_per_client':
    return study.metric, 'bytes sent by a client in a round'
  return f'test_{study.metric}', f'test {studies.VALIDATION_METRICS[study.metric]}'


def _curve(folder: pathlib.Path, column: str) -> tuple[list[int], list[float]]:
  """Reads a validation metric of a run and the rounds it was measured in."""
  return results.points(results.read_rounds(folder), column)
