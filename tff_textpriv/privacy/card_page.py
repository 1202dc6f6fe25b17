"""A privacy card as a page of Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from tff_textpriv.privacy import card_blocks


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
  for block in card['blocks']:
    if block['title']:
      blocks.append(f'## {block["title"]}')
    blocks.append(
      block['text'] if 'text' in block else _table(block['header'], block['rows'])
    )
  blocks += [
    '## Accounting',
    _table(
      ('accountant', f'epsilon at delta {card["delta"]:g}', 'note'),
      [
        (name.upper(), card_blocks.figure(row['epsilon']), row['note'])
        for name, row in card['accounting'].items()
      ],
    ),
  ]
  if card['sources']:
    blocks.append(f'What this rests on:\n\n{_bullets(card["sources"])}')
  blocks += ['## Ledger', _ledger_table(card['ledger'])]
  if card['leaves_device']:
    blocks += ['## What leaves the device', _sent_table(card['leaves_device'])]
  blocks += ['## What the figure does not cover', _bullets(card['not_covered'])]
  if card['facts']:
    rows = [(name, str(value)) for name, value in card['facts'].items()]
    blocks += ['## About the run', _table(('fact', 'value'), rows)]
  return '\n\n'.join(blocks) + '\n'


def _ledger_table(entries: Sequence[Mapping[str, Any]]) -> str:
  if not entries:
    return 'Nothing has been released yet.'
  columns = ('name', 'users', 'count', 'cost', 'description')
  return _table(
    ('entry', 'users', 'times', 'cost', 'what'),
    [tuple(str(entry[column]) for column in columns) for entry in entries],
  )


def _sent_table(sent: Sequence[Mapping[str, Any]]) -> str:
  return _table(
    ('what a client sends in a round', 'bytes', 'covered by the figure'),
    [
      (item['name'], f'{item["bytes"]:,}', 'yes' if item['covered'] else '**no**')
      for item in sent
    ],
  )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
  lines = [header, ['---'] * len(header), *rows]
  escaped = [[cell.replace('|', '\\|') for cell in line] for line in lines]
  return '\n'.join('| ' + ' | '.join(line) + ' |' for line in escaped)


def _bullets(sentences: Sequence[str]) -> str:
  return '\n'.join(f'- {sentence}' for sentence in sentences)
