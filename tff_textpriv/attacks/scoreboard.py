"""The report of attacks: a scoreboard, case studies, and a plot."""

import dataclasses
import json
import math
import pathlib
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tff_textpriv import files
from tff_textpriv.attacks import campaign, rounds, scores
from tff_textpriv.reports import plots, tables

_COLUMNS = (
  'algorithm',
  'attack',
  'table',
  'message',
  'sentences',
  'messages',
  'precision',
  'recall',
  'f1',
  'ptlr',
  'advantage',
  'advantage_margin',
)

# How long what was found waits before it is written, but at the end.
_SECONDS_BETWEEN = 30.0

Row = dict[str, str | int | float]


@dataclasses.dataclass(frozen=True)
class Result:
  """What all attacks on one algorithm made of messages of one kind.

  Attributes:
    algorithm: Its name.
    message: What clients send, one of `rounds.MESSAGES`.
    sentences: Sentences behind a message.
    outcomes: Those of all messages so far.
  """

  algorithm: str
  message: str
  sentences: int
  outcomes: Sequence[campaign.Outcome]

  @property
  def key(self) -> tuple[str, str, int]:
    """What tells it from others."""
    return self.algorithm, self.message, self.sentences

  def rows(self) -> list[Row]:
    """Returns a row for each attack and table: means over messages.

    The advantage is that over the recall of the most frequent words, `prior`, of an
    attacker who adds frequent words to what was found.
    """
    prior = [one.filled_recall for one in self.outcomes if one.attack == 'prior']
    keys = dict.fromkeys((one.attack, one.table) for one in self.outcomes)
    rows: list[Row] = []
    for attack, table in keys:
      made = [
        one for one in self.outcomes if (one.attack, one.table) == (attack, table)
      ]
      average = scores.mean([one.score for one in made])
      kind = (self.message, self.sentences, len(made))
      what = (self.algorithm, attack, table, *kind)
      filled = [one.filled_recall for one in made]
      over_prior = scores.advantage(filled, prior) if prior else (math.nan,) * 2
      figures = (
        average.precision,
        average.recall,
        average.f1,
        average.private_recall,
        *over_prior,
      )
      rows.append(dict(zip(_COLUMNS, (*what, *figures), strict=True)))
    return rows


@dataclasses.dataclass(frozen=True)
class Scenario:
  """What was attacked, and how.

  Attributes:
    task: The task whose texts were attacked.
    view: Who looked, see `attack.AttackSettings`.
    privacy: The privacy settings of each algorithm; empty where it has none.
    summary: What was attacked, in a sentence.
    argv: The command's arguments.
  """

  task: str
  view: str
  privacy: Mapping[str, Mapping[str, Any]]
  summary: str
  argv: Sequence[str]


@dataclasses.dataclass(frozen=True)
class _Case:
  """The texts of a message, and what each attack made of them, by the attack's name."""

  texts: tuple[tuple[str, ...], ...]
  found: list[tuple[str, campaign.Outcome]]


class Scoreboard:
  """The report in a folder, which grows with what is found.

  Attributes:
    folder: Where `attack.csv`, `attack.md`, `attack.json` and `attack.png` are written.
  """

  def __init__(self, folder: pathlib.Path, scenario: Scenario, num_cases: int):
    """Begins a report.

    Args:
      folder: Where to write.
      scenario: What was attacked, and how.
      num_cases: Sentences to show beside their reconstructions, from messages of the
        fewest sentences.
    """
    self.folder = folder
    self._scenario = scenario
    self._num_cases = num_cases
    self._results: dict[tuple[str, str, int], Result] = {}
    self._written = time.monotonic()

  def show(self, result: Result) -> None:
    """Takes what was found so far, in place of an earlier state of the same attacks.

    Now and then it is written: attacks take long, and may be stopped.
    """
    self._results[result.key] = result
    if time.monotonic() - self._written > _SECONDS_BETWEEN:
      self.write()

  def write(self) -> str:
    """Writes the report as far as it has come; returns the scoreboard, in Markdown."""
    results = list(self._results.values())
    scenario = self._scenario
    rows = [row for result in results for row in result.rows()]
    values = [list(row.values()) for row in rows]
    table = tables.markdown(_COLUMNS, [list(map(_shown, line)) for line in values])
    command = shlex.join(['python', '-m', 'tff_textpriv.tools.attack', *scenario.argv])
    cases = _cases(results)[: self._num_cases]
    report = [
      '# What clients’ messages reveal',
      scenario.summary,
      f'```\n{command}\n```',
      table,
      *(['## Case studies'] if cases else []),
      *map(_case_study, cases),
    ]
    content = {
      'task': scenario.task,
      'view': scenario.view,
      'summary': scenario.summary,
      'command': command,
      'privacy': scenario.privacy,
      'rows': [{key: _or_none(value) for key, value in row.items()} for row in rows],
      'cases': [_case_json(case) for case in cases],
    }
    contents: dict[str, str | bytes] = {
      'csv': tables.csv_text(_COLUMNS, values),
      'md': '\n\n'.join(report).encode() + b'\n',
      'json': json.dumps(content, indent=1, allow_nan=False) + '\n',
      'png': _plot(rows),
    }
    for ending, text in contents.items():
      files.write_atomically(self.folder / f'attack.{ending}', text)
    self._written = time.monotonic()
    return table


def _plot(rows: Sequence[Row]) -> bytes:
  """Draws recall over the sentences behind a message, a line for each attack."""
  lines: dict[str, list[tuple[float, float]]] = {}
  for row in rows:
    label = f'{row["algorithm"]}, {row["attack"]} ({row["table"]}), {row["message"]}'
    lines.setdefault(label, []).append((float(row['sentences']), float(row['recall'])))
  figure, axes = plots.blank(8, 5)
  for label, points in lines.items():
    axes.plot(*zip(*sorted(points), strict=True), marker='o', label=label)
  axes.set(
    xlabel='sentences behind a message',
    ylabel='recall',
    xscale='log',
    ylim=(-0.02, 1.02),
  )
  axes.legend(fontsize='x-small', loc='center left', bbox_to_anchor=(1, 0.5))
  return plots.png(figure)


def _cases(results: Sequence[Result]) -> list[_Case]:
  """Returns the messages of the fewest sentences with all that was made of them."""
  smallest = min(result.sentences for result in results)
  cases: dict[tuple, _Case] = {}
  for result in results:
    if result.sentences == smallest:
      for one in result.outcomes:
        kind = '' if result.message == rounds.BATCH else f', {result.message}'
        name = f'{result.algorithm}, {one.attack} ({one.table}){kind}'
        cases.setdefault(one.texts, _Case(one.texts, [])).found.append((name, one))
  return list(cases.values())


def _case_study(case: _Case) -> str:
  """Sets true texts beside what was made of them."""
  truth = '<br>'.join(map(_text, case.texts))
  lines = ['| | tokens | recall |', '|---|---|---|', f'| **true text** | {truth} | |']
  lines += [
    f'| {name} | {_text(one.found)} | {_shown(one.score.recall)} |'
    for name, one in case.found
  ]
  return '\n'.join(lines)


def _case_json(case: _Case) -> dict[str, Any]:
  return {
    'texts': case.texts,
    'found': [
      {'attack': name, 'tokens': one.found, 'recall': _or_none(one.score.recall)}
      for name, one in case.found
    ],
  }


def _or_none(value: str | int | float) -> str | int | float | None:
  """Returns a value that JSON can hold: `None` for a share of nothing."""
  return None if isinstance(value, float) and math.isnan(value) else value


def _text(words: Sequence[str]) -> str:
  return ' '.join(words).replace('|', '\\|')


def _shown(value: str | int | float) -> str:
  if isinstance(value, float):
    return 'none' if math.isnan(value) else f'{value:.3f}'
  return str(value)
