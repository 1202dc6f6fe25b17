"""The report of attacks: a scoreboard as CSV and Markdown, case studies, and a plot."""

import dataclasses
import math
import pathlib
import shlex
from collections.abc import Sequence

from tff_textpriv import files
from tff_textpriv.attacks import campaign, scores
from tff_textpriv.tools import plots, tables

_COLUMNS = (
  'algorithm',
  'attack',
  'table',
  'batch_size',
  'batches',
  'precision',
  'recall',
  'f1',
  'ptlr',
)


Row = dict[str, str | int | float]


@dataclasses.dataclass(frozen=True)
class Result:
  """What all attacks on one algorithm made of batches of one size."""

  algorithm: str
  batch_size: int
  outcomes: Sequence[campaign.Outcome]

  def rows(self) -> list[Row]:
    """Returns a row for each attack and table: means over batches."""
    keys = dict.fromkeys((one.attack, one.table) for one in self.outcomes)
    rows: list[Row] = []
    for attack, table in keys:
      all_scores = [
        one.score for one in self.outcomes if (one.attack, one.table) == (attack, table)
      ]
      average = scores.mean(all_scores)
      figures = (average.precision, average.recall, average.f1, average.private_recall)
      values: tuple[str | int | float, ...] = (
        self.algorithm,
        attack,
        table,
        self.batch_size,
        len(all_scores),
        *figures,
      )
      rows.append(dict(zip(_COLUMNS, values, strict=True)))
    return rows


def write(
  results: Sequence[Result],
  folder: pathlib.Path,
  summary: str,
  argv: Sequence[str],
  num_cases: int,
) -> str:
  """Writes `attack.csv`, `attack.md` and `attack.png`.

  Args:
    results: What was found.
    folder: Where to write.
    summary: What was attacked, in a sentence.
    argv: The command's arguments.
    num_cases: Sentences to show beside their reconstructions, from batches of the
      smallest size.

  Returns:
    The scoreboard, in Markdown.
  """
  rows = [row for result in results for row in result.rows()]
  values = [list(row.values()) for row in rows]
  files.write_atomically(folder / 'attack.csv', tables.csv_text(_COLUMNS, values))
  table = tables.markdown(_COLUMNS, [list(map(_shown, line)) for line in values])
  command = shlex.join(['python', '-m', 'tff_textpriv.tools.attack', *argv])
  report = [
    '# What clients’ messages reveal',
    summary,
    f'```\n{command}\n```',
    table,
    *_case_studies(results, num_cases),
  ]
  files.write_atomically(folder / 'attack.md', '\n\n'.join(report).encode() + b'\n')
  files.write_atomically(folder / 'attack.png', _plot(rows))
  return table


def _plot(rows: Sequence[Row]) -> bytes:
  """Draws recall over the batch size, a line for each algorithm, attack and table."""
  lines: dict[str, list[tuple[float, float]]] = {}
  for row in rows:
    label = f'{row["algorithm"]}, {row["attack"]} ({row["table"]})'
    lines.setdefault(label, []).append((float(row['batch_size']), float(row['recall'])))
  figure, axes = plots.blank(8, 5)
  for label, points in lines.items():
    axes.plot(*zip(*sorted(points), strict=True), marker='o', label=label)
  axes.set(xlabel='batch size', ylabel='recall', xscale='log', ylim=(-0.02, 1.02))
  axes.legend(fontsize='x-small', loc='center left', bbox_to_anchor=(1, 0.5))
  return plots.png(figure)


def _case_studies(results: Sequence[Result], number: int) -> list[str]:
  """Sets true texts beside what was made of them."""
  smallest = min(result.batch_size for result in results)
  found: dict[tuple, list[str]] = {}
  for result in results:
    if result.batch_size == smallest:
      for one in result.outcomes:
        line = (
          f'| {result.algorithm}, {one.attack} ({one.table}) | {_text(one.found)} | '
          f'{_shown(one.score.recall)} |'
        )
        found.setdefault(one.texts, []).append(line)
  parts = ['## Case studies'] if number and found else []
  for texts, lines in list(found.items())[:number]:
    truth = '<br>'.join(map(_text, texts))
    head = ['| | tokens | recall |', '|---|---|---|', f'| **true text** | {truth} | |']
    parts.append('\n'.join([*head, *lines]))
  return parts


def _text(words: Sequence[str]) -> str:
  return ' '.join(words).replace('|', '\\|')


def _shown(value: str | int | float) -> str:
  if isinstance(value, float):
    return 'none' if math.isnan(value) else f'{value:.3f}'
  return str(value)
