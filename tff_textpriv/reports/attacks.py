"""Reads what `tools.attack` left: the scoreboard and the case studies."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from tff_textpriv import metrics
from tff_textpriv.reports import runs

# What is frequent is known to everybody; vectors are given to nobody.
_NO_ATTACKERS = ('prior', 'decipher, given vectors')


@dataclasses.dataclass(frozen=True)
class Found:
  """What one attack made of a text."""

  attack: str
  tokens: tuple[str, ...]
  recall: float | None


@dataclasses.dataclass(frozen=True)
class Case:
  """True texts of users, and what attacks made of them."""

  texts: tuple[tuple[str, ...], ...]
  found: tuple[Found, ...]


@dataclasses.dataclass(frozen=True)
class Scoreboard:
  """The attacks of one folder.

  Attributes:
    folder: Where.
    name: Its name in the report.
    task: The task whose texts were attacked.
    view: Who looked: `server` or `released`.
    summary: What was attacked, in a sentence.
    command: The command that made it.
    rows: Algorithm, attack, table, kind of message and scores of each attack.
    privacy: The privacy settings of each algorithm.
    cases: Case studies.
    problem: Why nothing can be shown; empty if all is well.
  """

  folder: pathlib.Path
  name: str
  task: str = ''
  view: str = ''
  summary: str = ''
  command: str = ''
  rows: tuple[Mapping[str, Any], ...] = ()
  privacy: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
  cases: tuple[Case, ...] = ()
  problem: str = ''

  def leakage(self, run: runs.Run) -> float | None:
    """Returns what the best attack found of what a run's clients send.

    Only attacks on the run's task and algorithm with its privacy settings count. The
    model, the optimizer and the batch are the attack's own.

    Returns:
      The highest recall of tokens, of 0 to 1; `None` if there was no such attack.
    """
    settings = self.privacy.get(run.algo)
    if run.task != self.task or settings is None:
      return None
    if any(run.config.get(name) != value for name, value in settings.items()):
      return None
    recalls = [
      metrics.number(row.get('recall'))
      for row in self.rows
      if row.get('algorithm') == run.algo and row.get('attack') not in _NO_ATTACKERS
    ]
    return max((recall for recall in recalls if recall is not None), default=None)


def read(folder: pathlib.Path, name: str) -> Scoreboard:
  """Reads a folder with an attack.csv; one that is broken has a problem."""
  problems: list[str] = []
  content = runs.read_object(folder / 'attack.json', problems)
  if content is None:
    problems.append('it has no attack.json; repeating the attack writes one')
  if content is None or problems:
    return Scoreboard(folder, name, problem=problems[0])
  try:
    return Scoreboard(
      folder,
      name,
      task=str(content['task']),
      view=str(content['view']),
      summary=str(content['summary']),
      command=str(content['command']),
      rows=tuple(dict(row) for row in content['rows']),
      privacy={key: dict(value) for key, value in content['privacy'].items()},
      cases=tuple(_case(case) for case in content['cases']),
    )
  except (LookupError, TypeError, ValueError, AttributeError) as error:
    return Scoreboard(
      folder, name, problem=f'attack.json is not what an attack writes ({error!r})'
    )


def _case(case: Mapping[str, Any]) -> Case:
  return Case(
    texts=tuple(_tokens(text) for text in case['texts']),
    found=tuple(
      Found(str(one['attack']), _tokens(one['tokens']), metrics.number(one['recall']))
      for one in case['found']
    ),
  )


def _tokens(tokens: Any) -> tuple[str, ...]:
  return tuple(str(token) for token in tokens)
