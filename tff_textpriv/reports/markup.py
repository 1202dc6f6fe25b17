"""HTML and SVG elements, in which everything that is not markup has been escaped."""

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup, escape

# Elements without content, which HTML does not close.
_VOID = ('br', 'img', 'meta')


def join(parts: Iterable[Any], separator: str = '') -> Markup:
  """Puts parts one after the other: markup as it is, text escaped, `None` not at all."""
  return escape(separator).join(part for part in parts if part is not None)


def element(name: str, /, *children: Any, **attributes: Any) -> Markup:
  """Makes an element.

  Args:
    name: Its name, e.g. `td`.
    *children: What is in it; what is no markup is escaped. `None` is left out.
    **attributes: Its attributes. An underscore stands for a hyphen and, at the end, for
      nothing (`class_`). `None` is left out; `True` has no value.
  """
  shown = ''.join(
    f' {key.rstrip("_").replace("_", "-")}'
    + ('' if value is True else f'="{escape(value)}"')
    for key, value in attributes.items()
    if value is not None
  )
  if name in _VOID:
    return Markup(f'<{name}{shown}>')
  return Markup(f'<{name}{shown}>{join(children)}</{name}>')


def table(
  header: Sequence[Any], rows: Iterable[Sequence[Any]], numeric: Iterable[int] = ()
) -> Markup:
  """Makes a table in a box of its own, which scrolls where the page is narrow.

  Args:
    header: The columns' names.
    rows: The cells, row by row.
    numeric: The columns that are aligned to the right.
  """
  numeric = set(numeric)

  def cells(name: str, row: Sequence[Any], **attributes: Any) -> Markup:
    return element(
      'tr',
      *(
        element(name, cell, class_='number' if i in numeric else None, **attributes)
        for i, cell in enumerate(row)
      ),
    )

  return element(
    'div',
    element(
      'table',
      element('thead', cells('th', header, scope='col')),
      element('tbody', *(cells('td', row) for row in rows)),
    ),
    class_='scroll',
  )


def details(summary: Any, *content: Any, is_open: bool = False) -> Markup:
  """Makes a part that opens when its summary is touched."""
  return element(
    'details', element('summary', summary), *content, open=True if is_open else None
  )
