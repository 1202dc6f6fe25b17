"""Tables as text: Markdown for people, CSV for programs."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any


def markdown(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
  """Writes a Markdown table whose columns also line up in a terminal."""
  rows = list(rows)
  widths = [max(len(line[i]) for line in (headers, *rows)) for i in range(len(headers))]

  def line(values: Sequence[str]) -> str:
    padded = (value.ljust(width) for value, width in zip(values, widths, strict=True))
    return f'| {" | ".join(padded)} |'

  rule = ['-' * width for width in widths]
  return '\n'.join([line(headers), line(rule), *map(line, rows)])


def csv_text(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
  """Writes a CSV file; `None` is an empty cell."""
  text = io.StringIO()
  writer = csv.writer(text, lineterminator='\n')
  writer.writerow(headers)
  writer.writerows(rows)
  return text.getvalue()
