"""Files with a row a line: reading them, and living with a few broken rows."""

import codecs
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import tqdm

from tff_textpriv.datasets import clients

_T = TypeVar('_T')

OnBrokenRow = Callable[[clients.DataError], None]


class Row(NamedTuple, Generic[_T]):
  """A row and its place: the bytes of the file from `start` to `end`."""

  start: int
  end: int
  value: _T

  def __repr__(self) -> str:
    return object.__repr__(self)  # Without what users wrote.


class Line(NamedTuple):
  """A line of text, its number counted from 1, and where in the file it ends."""

  number: int
  end: int
  text: str

  def __repr__(self) -> str:
    return object.__repr__(self)  # Without what users wrote.


class BrokenRows:
  """Shows and counts the rows that cannot be used; stops when there are too many."""

  def __init__(self, most: int, limit: str):
    """Starts to count.

    Args:
      most: The number of broken rows that are tolerated.
      limit: How the user knows this number, such as `--max_broken_rows=10`.
    """
    self._most = most
    self._limit = limit
    self.count = 0

  def __call__(self, error: clients.DataError) -> None:
    """Takes notice of a row; raises `DataError` if it is one too many."""
    self.count += 1
    if self.count > self._most:
      raise clients.DataError(
        f'{error}; stopped, since this is broken row number {self.count} and '
        f'{self._limit}'
      )
    tqdm.tqdm.write(f'skipped: {error}', file=sys.stderr)


def read(
  path: str, parse: Callable[[bytes], _T], expected: str, on_broken_row: OnBrokenRow
) -> Iterator[Row[_T]]:
  """Reads a file line by line. Blank lines are no rows.

  Args:
    path: The file.
    parse: Makes the value of a row from a line that is not blank; raises
      `ValueError` with the reason if it cannot.
    expected: What a line should look like, for error messages.
    on_broken_row: Called with an error that names the line, for each row that
      cannot be used; the row is left out unless this raises.

  Yields:
    The rows in their order.
  """
  end = 0
  with open(path, 'rb') as file:
    for number, line in enumerate(file, start=1):
      start, end = end, end + len(line)
      if number == 1:
        line = line.removeprefix(codecs.BOM_UTF8)
      if not line.strip():
        continue
      try:
        row = Row(start, end, parse(line))
      except ValueError as error:
        broken = clients.DataError.in_file(path, f'{error}; {expected}', line=number)
      else:
        yield row
        continue
      # The error has ended here: it holds the line.
      on_broken_row(broken)


def parse_json(line: bytes) -> dict[str, Any]:
  """Parses a line that is a JSON object; raises `ValueError` with the reason."""
  try:
    row = json.loads(line)
  except RecursionError as error:
    raise ValueError('the row is nested too deep') from error
  if not isinstance(row, dict):
    raise ValueError('the row is no object')
  return row


def is_encodable(text: str) -> bool:
  """Tells whether a text can be written; JSON may hold halves of characters."""
  return not any('\ud800' <= character <= '\udfff' for character in text)


def decoded_lines(path: str, expected: str) -> Iterator[Line]:
  """Reads the lines of a text file; a byte-order mark before the first is left out.

  Args:
    path: The file.
    expected: What the file should be, for error messages.

  Yields:
    The lines in their order, each with its line end.

  Raises:
    DataError: If the file cannot be read or is not in UTF-8; names the line, and says
      how to convert the file.
  """
  end = 0
  with clients.reading(path, expected), open(path, 'rb') as file:
    for number, raw in enumerate(file, start=1):
      end += len(raw)
      yield Line(number, end, decode(path, number, raw, expected))


def decode(path: str, number: int, raw: bytes, expected: str) -> str:
  """Decodes a line, or a part of a file that starts with it; see `decoded_lines`."""
  try:
    return raw.decode('utf-8-sig' if number == 1 else 'utf-8')
  except UnicodeDecodeError as error:
    start = raw.rfind(b'\n', 0, error.start) + 1
    is_utf16 = number == 1 and raw.startswith(
      (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    )
    encoding = 'UTF-16' if is_utf16 else 'WINDOWS-1252'
    stem, ending = os.path.splitext(path)
    source, target = shlex.quote(path), shlex.quote(f'{stem}_utf8{ending}')
    raise clients.DataError.in_file(
      path,
      f'not UTF-8 ({error.reason} at byte {error.start - start + 1} of the line); '
      f'{expected}. Convert it first; if it is {encoding}: '
      f'iconv -f {encoding} -t UTF-8 {source} > {target}',
      line=number + raw.count(b'\n', 0, error.start),
    ) from None
