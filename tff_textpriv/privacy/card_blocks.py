"""What a privacy card's page is made of: texts, tables and figures."""

import math
from collections.abc import Sequence
from typing import Any

# A part of a card's page: a title, perhaps empty, and a text or else a table.
Block = dict[str, Any]

_NOISE_SOURCES = {
  'seeded': (
    'Seeded: random numbers follow from the seed of the run and can be reproduced. '
    'Whoever knows the seed can undo what they hide, so this is for experiments only.'
  ),
  'system': (
    'System: random numbers follow from 256 bits of the operating system, which are in '
    'the run’s file secret.key and nowhere else. What they change are whole numbers, so '
    'that no rounding weakens the guarantee.'
  ),
}


def paragraph(text: str, title: str = '') -> Block:
  """Returns a text as a part of the card's page."""
  return {'title': title, 'text': text}


def table(
  header: Sequence[str], rows: Sequence[Sequence[str]], title: str = ''
) -> Block:
  """Returns a table as a part of the card's page."""
  return {'title': title, 'header': list(header), 'rows': [list(row) for row in rows]}


def noise_source(source: str) -> Block:
  """Returns what there is to say of where random numbers come from."""
  return paragraph(f'Noise source. {_NOISE_SOURCES[source]}')


def figure(epsilon: float | None) -> str:
  """Writes an epsilon with three decimals, rounded up as a bound must be."""
  if epsilon is None:
    return '-'
  return f'{math.ceil(round(epsilon * 1000, 6)) / 1000:,.3f}'
