"""A privacy card as a page of Markdown."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tff_textpriv.privacy import central_card, local_card, local_gaussian_card

_RELATIONS = {
  'ADD_OR_REMOVE_ONE': 'adding or removing all the data of one user',
  'REPLACE_ONE': 'replacing all the data of one user by that of another',
}


def render(card: Mapping[str, Any]) -> str:
  """Writes a card as a page of Markdown."""
  blocks = [
    f'# Privacy card: {card["algo"]} on {card["task"]}',
    f'**{card["headline"]}**',
  ]
  if card['reasons']:
    blocks.append(_bullets(card['reasons']))
  blocks += [f'> **Note.** {warning}' for warning in card['warnings']]
  blocks += ['## Who is protected, and from whom', card['threat_model']]
  plan = card['plan']
  if plan is not None:
    if 'truth_table' in plan:
      blocks += _local_blocks(plan, local_card.tables(plan, card['delta']))
    elif 'clip_norm' in plan:
      blocks += _local_blocks(plan, local_gaussian_card.tables(plan, card['delta']))
    else:
      blocks += _central_blocks(plan)
  blocks += [
    '## Accounting',
    _table(
      ('accountant', f'epsilon at delta {card["delta"]:g}', 'note'),
      [
        (name.upper(), figure(row['epsilon']), row['note'])
        for name, row in card['accounting'].items()
      ],
    ),
  ]
  blocks += ['## Ledger', _ledger_table(card['ledger'])]
  blocks += ['## What the figure does not cover', _bullets(card['not_covered'])]
  if card['facts']:
    rows = [(name, str(value)) for name, value in card['facts'].items()]
    blocks += ['## About the run', _table(('fact', 'value'), rows)]
  return '\n\n'.join(blocks) + '\n'


def _central_blocks(plan: Mapping[str, Any]) -> list[str]:
  return [
    f'Unit of privacy: one **{plan["unit"]}**. Two data sets are neighbours if they '
    f'differ by {_RELATIONS[plan["neighbouring_relation"]]}.',
    '## Mechanism',
    plan['mechanism'],
    _table(('setting', 'value'), central_card.settings_rows(plan)),
    plan['sampling_note'],
    plan['size_note'],
    f'Noise source. {plan["noise_source_note"]}',
  ]


def _local_blocks(plan: Mapping[str, Any], tables: Sequence[Any]) -> list[str]:
  blocks = [
    f'Unit of privacy: one **{plan["unit"]}**. Any data may stand in place of any other.',
    '## Mechanism',
    plan['mechanism'],
    plan['sampling_note'],
    f'Noise source. {plan["noise_source_note"]}',
  ]
  for title, header, rows in tables:
    cells = [[c if isinstance(c, str) else figure(c) for c in row] for row in rows]
    blocks += [f'## {title}', _table(header, cells)]
  return blocks


def figure(epsilon: float | None) -> str:
  """Writes an epsilon with three decimals, rounded up as a bound must be."""
  if epsilon is None:
    return '-'
  return f'{math.ceil(round(epsilon * 1000, 6)) / 1000:,.3f}'


def _ledger_table(entries: Sequence[Mapping[str, Any]]) -> str:
  if not entries:
    return 'Nothing has been released yet.'
  columns = ('name', 'users', 'count', 'cost', 'description')
  return _table(
    ('entry', 'users', 'times', 'cost', 'what'),
    [tuple(str(entry[column]) for column in columns) for entry in entries],
  )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
  lines = [header, ['---'] * len(header), *rows]
  escaped = [[cell.replace('|', '\\|') for cell in line] for line in lines]
  return '\n'.join('| ' + ' | '.join(line) + ' |' for line in escaped)


def _bullets(sentences: Sequence[str]) -> str:
  return '\n'.join(f'- {sentence}' for sentence in sentences)
