"""The part of a report about attacks: scoreboards and case studies."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from tff_textpriv import metrics
from tff_textpriv.reports import attacks
from tff_textpriv.reports.markup import details, element, join, table

_VIEWS = {
  'server': 'Seen by the server that collects what clients send.',
  'released': (
    'Seen by whoever gets the sum of a round after the server’s noise and knows all other '
    'clients’ updates.'
  ),
}
_SCORES = ('precision', 'recall', 'f1', 'ptlr', 'advantage')


def section(scoreboards: Sequence[attacks.Scoreboard]) -> Markup:
  """Writes all scoreboards with their case studies."""
  return join(_scoreboard(board) for board in scoreboards)


def _scoreboard(board: attacks.Scoreboard) -> Markup:
  if board.problem:
    return element(
      'p', element('strong', board.name), f': {board.problem}.', class_='problems'
    )
  rows = [
    [
      row.get('algorithm', '–'),
      row.get('attack', '–'),
      row.get('table', '–'),
      row.get('message', '–'),
      row.get('sentences', '–'),
      *(_share(row.get(name)) for name in _SCORES),
    ]
    for row in board.rows
  ]
  header = ('algorithm', 'attack', 'attacker’s table', 'message', 'sentences', *_SCORES)
  cases = [_case(i + 1, case) for i, case in enumerate(board.cases)]
  return join(
    [
      element('h3', f'{board.name}: what messages reveal'),
      element('p', board.summary, ' ', _VIEWS.get(board.view, board.view)),
      table(header, rows, numeric=range(4, 5 + len(_SCORES))),
      element(
        'p',
        'Recall is the share of a text’s tokens that were found, precision the share of '
        'found tokens that are in the text, PTLR the recall of tokens with a digit. The '
        'attack “guess” draws tokens at random, “prior” names the most frequent ones, and the '
        'advantage is what an attack adds to the recall of these. An unrelated table finds '
        'nothing whatever a message says.',
        class_='small',
      ),
      details(f'Case studies ({len(cases)}): users’ own text', *cases)
      if cases
      else Markup(),
      details('Command', element('pre', board.command)),
    ]
  )


def _share(value: Any) -> Markup | str:
  """Writes a score with a bar behind it."""
  known = metrics.number(value)
  if known is None:
    return '–'
  return element('span', f'{known:.3f}', class_='bar', style=f'--share:{known:.1%}')


def _case(number: int, case: attacks.Case) -> Markup:
  """Sets true texts over what was made of them, in which right tokens are marked."""
  true_tokens = {token for text in case.texts for token in text}
  truth = join(element('div', ' '.join(text), dir='auto') for text in case.texts)
  rows = [[element('strong', f'{number}. true text'), '', truth]]
  rows += [
    [one.attack, _share(one.recall), _marked(one.tokens, true_tokens)]
    for one in case.found
  ]
  return table(('attack', 'recall', 'tokens (those that are right are marked)'), rows)


def _marked(tokens: Sequence[str], true_tokens: set[str]) -> Markup:
  if not tokens:
    return element('span', 'nothing', class_='small')
  return element(
    'span',
    join(
      (element('mark', token) if token in true_tokens else token for token in tokens),
      ' ',
    ),
    dir='auto',
    class_='found',
  )
