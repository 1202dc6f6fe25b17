"""What a study leaves behind: Markdown tables and two CSV files."""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tff_textpriv import files, metrics, run_folder
from tff_textpriv.experiments import paired
from tff_textpriv.experiments import study as study_lib
from tff_textpriv.reports import tables


@dataclasses.dataclass(frozen=True)
class SeedResult:
  """What one run of an arm left."""

  folder: pathlib.Path
  results: Mapping[str, Any]

  @functools.cached_property
  def rounds(self) -> list[dict[str, float]]:
    """The rounds of metrics.csv."""
    return list(run_folder.rounds(self.folder))

  def value(self, column: str) -> float | None:
    """Returns a figure of the results, or of a round of training; if it is a number.

    One of validation without a round is of the model that is tested.
    """
    name, _, round_number = column.partition('@')
    if not round_number and not name.startswith(metrics.VALIDATION):
      return metrics.number(self.results.get(name))
    points = dict(zip(*run_folder.points(self.rounds, name), strict=True))
    return metrics.number(
      points.get(int(round_number or self.results['selected_round']))
    )


@dataclasses.dataclass(frozen=True)
class Row:
  """An arm and its runs, by seed."""

  arm: study_lib.Arm
  by_seed: Mapping[int, SeedResult]

  def values(self, column: str) -> dict[int, float | None]:
    """Returns our figures by seed; none where it cannot be compared."""
    if self.arm.has_closed_vocabulary and _metric(column).is_perplexity:
      return dict.fromkeys(self.by_seed)
    return {seed: each.value(column) for seed, each in self.by_seed.items()}

  def mean(self, column: str) -> float | None:
    """Returns the mean over seeds; `None` if a seed has none."""
    found = paired.spread(list(self.values(column).values()))
    return None if found is None else found.mean

  def difference(self, reference: 'Row', column: str) -> paired.Difference | None:
    """Returns the paired difference to another arm: of logarithms for perplexities."""
    return paired.difference(
      self.values(column), reference.values(column), _metric(column).is_perplexity
    )


@dataclasses.dataclass(frozen=True)
class Outcome:
  """A study that was run.

  Attributes:
    study: The study.
    task: The task's name.
    rows: The arms.
    reference: The arm that others are compared with.
    compares: Whether the differences are a table of their own.
  """

  study: study_lib.Study
  task: str
  rows: Sequence[Row]
  reference: Row
  compares: bool

  @property
  def text(self) -> str:
    """The tables, to print."""
    parts = [_figures(self)]
    if self.compares:
      parts += [_heading(self), _differences(self)]
    return '\n\n'.join(parts)

  @property
  def as_json(self) -> dict[str, Any]:
    """All results by arm, and by seed where seeds are compared."""
    by_seed = {
      row.arm.label: {str(seed): each.results for seed, each in row.by_seed.items()}
      for row in self.rows
    }
    if self.compares:
      return by_seed
    return {label: next(iter(runs.values())) for label, runs in by_seed.items()}


def write(outcome: Outcome, folder: pathlib.Path, command: Sequence[str]) -> None:
  """Writes the study's page and its CSV files.

  Args:
    outcome: The study.
    folder: Where to write.
    command: The flags of the command, for the reader to repeat it.
  """
  study = outcome.study
  page = (
    f'# {study.title}\n\n{study.question}\n\nTask {outcome.task}. Made by\n\n'
    f'    python -m tff_textpriv.tools.study {" ".join(command)}\n\n'
    'Figures in brackets are the paper’s, on its data and at its scale.\n\n'
    f'{outcome.text}\n\n![plot]({study.name}.png)\n'
  )
  files.write_atomically(folder / f'{study.name}.md', page)
  files.write_atomically(folder / f'{study.name}.csv', _runs_csv(outcome))
  files.write_atomically(folder / f'{study.name}_summary.csv', _summary_csv(outcome))


def _figures(outcome: Outcome) -> str:
  """Makes the table of means, with the paper's figures; without empty columns."""
  columns = [
    column
    for column in outcome.study.columns
    if column == 'epsilon'
    or any(
      row.mean(column) is not None or column in row.arm.paper for row in outcome.rows
    )
  ]
  return tables.markdown(
    [outcome.study.rows, *(_header(column, columns) for column in columns)],
    [
      [row.arm.label, *(_cell(row, column) for column in columns)]
      for row in outcome.rows
    ],
  )


def _cell(row: Row, column: str) -> str:
  """Formats our mean, and the paper's figure in brackets."""
  value = row.mean(column)
  if column == 'epsilon' and value is None:
    return 'no guarantee'
  ours = '-' if value is None else _shown(column, value)
  paper = row.arm.paper.get(column)
  return ours if paper is None else f'{ours} ({_shown(column, paper)})'


def _heading(outcome: Outcome) -> str:
  seeds = len(outcome.reference.by_seed)
  heading = f'Mean paired difference to {outcome.reference.arm.label}, {seeds} seed'
  if seeds > 1:
    heading += 's, with two-sided 95% t-intervals'
  if any(_metric(column).is_perplexity for column in outcome.study.columns):
    heading += '; of perplexities the difference of natural logarithms'
  return f'{heading}:'


def _differences(outcome: Outcome) -> str:
  """Makes the table of differences to the reference, of figures that differ at all."""
  columns = [
    column
    for column in outcome.study.columns
    if any(_differs(row.difference(outcome.reference, column)) for row in outcome.rows)
  ]
  return tables.markdown(
    [
      outcome.study.rows,
      *('ln ' * _metric(c).is_perplexity + _header(c, columns) for c in columns),
    ],
    [
      [
        row.arm.label,
        *(_difference_cell(row.difference(outcome.reference, c), c) for c in columns),
      ]
      for row in outcome.rows
      if row is not outcome.reference
    ],
  )


def _differs(found: paired.Difference | None) -> bool:
  return found is not None and (found.mean, found.low, found.high) not in (
    (0.0, 0.0, 0.0),
    (0.0, None, None),
  )


def _difference_cell(found: paired.Difference | None, column: str) -> str:
  if found is None:
    return '-'
  pattern = '{:+.4f}' if _metric(column).is_perplexity else _pattern(column)
  pattern = pattern if '+' in pattern else pattern.replace('{:', '{:+', 1)
  if found.low is None or found.high is None:
    return pattern.format(found.mean)
  mean, low, high = (pattern.format(v) for v in (found.mean, found.low, found.high))
  return f'{mean} [{low}, {high}]'


def _runs_csv(outcome: Outcome) -> str:
  """Writes one row per arm and seed."""
  columns = outcome.study.columns
  return tables.csv_text(
    ['study', 'task', 'arm', 'seed', 'curve', 'x', *columns]
    + [f'paper_{column}' for column in columns],
    [
      [outcome.study.name, outcome.task, row.arm.label, seed, row.arm.curve, row.arm.x]
      + [result.value(column) for column in columns]
      + [row.arm.paper.get(column) for column in columns]
      for row in outcome.rows
      for seed, result in row.by_seed.items()
    ],
  )


def _summary_csv(outcome: Outcome) -> str:
  """Writes one row per arm and figure."""
  lines: list[list[Any]] = []
  for row in outcome.rows:
    for column in outcome.study.columns:
      found = paired.spread(list(row.values(column).values()))
      compared = None
      if row is not outcome.reference:
        compared = row.difference(outcome.reference, column)
      line: list[Any] = [outcome.study.name, outcome.task, row.arm.label, column]
      line += [len(row.by_seed), found and found.mean, found and found.deviation]
      line += [outcome.reference.arm.label]
      line += ['log' if _metric(column).is_perplexity else 'plain']
      line += [compared and compared.n, compared and compared.mean]
      line += [compared and compared.low, compared and compared.high]
      lines.append([*line, row.arm.paper.get(column)])
  return tables.csv_text(
    ['study', 'task', 'arm', 'figure', 'seeds', 'mean', 'sd', 'reference', 'scale']
    + ['pairs', 'difference', 'low', 'high', 'paper'],
    lines,
  )


def _metric(column: str) -> metrics.Metric:
  return metrics.find(column.partition('@')[0])


def _header(column: str, columns: Sequence[str]) -> str:
  """Returns what heads a column: a round alone if no other figure has rounds."""
  name, _, round_number = column.partition('@')
  if not round_number:
    prefix = 'validation ' if name.startswith(metrics.VALIDATION) else ''
    return prefix + _metric(column).short
  of_rounds = {each.partition('@')[0] for each in columns if '@' in each}
  short = f'{_metric(name).short}, ' if len(of_rounds) > 1 else ''
  return f'{short}R={round_number}'


def _pattern(column: str) -> str:
  return '{:.3f}' if '@' in column else _metric(column).pattern


def _shown(column: str, value: float) -> str:
  return _pattern(column).format(value)
