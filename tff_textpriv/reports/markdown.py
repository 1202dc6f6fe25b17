"""The Markdown that runs write, as HTML: cards, lineages, summaries.

It knows what these pages use (headings, paragraphs, tables, bullets, notes, code, bold)
and takes everything else for text, HTML included: a page of Markdown is a file like any
other, and nothing in it becomes markup of ours.
"""

import itertools
import operator
import re
from collections.abc import Iterator, Sequence

from markupsafe import Markup, escape

from tff_textpriv.reports.markup import element, join, table

_INLINE = re.compile(r'\*\*(?P<bold>.+?)\*\*|`(?P<code>[^`]+)`')
_LINK = re.compile(r'\[([^\]]*)\]\([^)]*\)')
_CELL_END = re.compile(r'(?<!\\)\|')
_NUMBER = re.compile(r'[-+]?[\d,.]+%?')


def to_html(text: str, top_level: int) -> Markup:
  """Renders a page.

  Args:
    text: The Markdown.
    top_level: The level of the heading that `#` stands for.
  """
  groups = itertools.groupby(_lines(text), key=operator.itemgetter(0))
  return join(
    _block(kind, [line for _, line in lines], top_level) for kind, lines in groups
  )


def _lines(text: str) -> Iterator[tuple[str, str]]:
  """Yields the lines, each with what it is part of."""
  is_fenced = False
  for line in text.splitlines():
    if line.startswith('```'):
      is_fenced = not is_fenced
      yield 'blank', ''
    else:
      yield 'fenced' if is_fenced else _kind(line), line


def _kind(line: str) -> str:
  """Tells what a line is part of."""
  for kind, start in (
    ('code', '    '),
    ('table', '|'),
    ('bullets', '- '),
    ('note', '> '),
    ('picture', '!['),
    ('heading', '#'),
  ):
    if line.startswith(start):
      return kind
  return 'paragraph' if line.strip() else 'blank'


def _block(kind: str, lines: Sequence[str], top_level: int) -> Markup:
  if kind == 'heading':
    return join(_heading(line, top_level) for line in lines)
  if kind == 'table':
    return _table(lines)
  if kind == 'bullets':
    return element('ul', *(element('li', _inline(line[2:])) for line in lines))
  if kind == 'note':
    quoted = ' '.join(line[2:] for line in lines)
    return element('p', _inline(quoted), class_='note')
  if kind == 'fenced':
    return element('pre', '\n'.join(lines))
  if kind == 'code':
    return element('pre', '\n'.join(line.removeprefix('    ') for line in lines))
  if kind == 'paragraph':
    return element('p', _inline(' '.join(lines)))
  return Markup()  # Blank lines; pictures, which would be other files.


def _heading(line: str, top_level: int) -> Markup:
  level = len(line) - len(line.lstrip('#'))
  name = f'h{min(6, top_level + level - 1)}'
  return element(name, _inline(line.lstrip('# ')))


def _table(lines: Sequence[str]) -> Markup:
  rows = [_cells(line) for line in lines]
  body = rows[2:]
  numeric = [
    i
    for i in range(len(rows[0]))
    if body and all(i < len(row) and _NUMBER.fullmatch(row[i]) for row in body)
  ]
  return table(
    [_inline(cell) for cell in rows[0]],
    [[_inline(cell) for cell in row] for row in body],
    numeric,
  )


def _cells(line: str) -> list[str]:
  inner = line.strip().removeprefix('|').removesuffix('|')
  return [cell.strip().replace('\\|', '|') for cell in _CELL_END.split(inner)]


def _inline(text: str) -> Markup:
  """Renders bold and code; a link leaves its text."""
  text = _LINK.sub(r'\1', text)
  parts: list[Markup] = []
  end = 0
  for match in _INLINE.finditer(text):
    parts.append(escape(text[end : match.start()]))
    if match['bold'] is not None:
      parts.append(element('strong', match['bold']))
    else:
      parts.append(element('code', match['code']))
    end = match.end()
  return join([*parts, text[end:]])
