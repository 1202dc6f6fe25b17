"""Files with a row a line: reading them, and living with a few broken rows."""

import codecs
import sys
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

import tqdm

from tff_textpriv.datasets import clients

_T = TypeVar('_T')

OnBrokenRow = Callable[[clients.DataError], None]


class Row(NamedTuple, Generic[_T]):
  """A row and its place: the bytes of the file from `start` to `end`."""

  start: int
  end: int
  value: _T


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
        value = parse(line)
      except ValueError as error:
        on_broken_row(
          clients.DataError.in_file(path, f'{error}; {expected}', line=number)
        )
      else:
        yield Row(start, end, value)
