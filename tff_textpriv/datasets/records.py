"""Rows of tables, one at a time, whatever the format: CSV, TSV, JSON lines, Parquet.

Whoever reads records needs to know neither the format nor how large the file is: rows
that cannot be used are told to a callback, and no more than a row (of Parquet, a batch
of rows) is in memory.
"""

import contextlib
import csv
import dataclasses
import functools
import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tff_textpriv.datasets import clients, rows

# A larger field of a CSV file is rather a quote that is never closed.
_MAX_FIELD = 10_000_000
_DELIMITERS = (',', ';', '\t')
# JSON lines may leave out columns: the columns are those of the first rows together.
_ROWS_WITH_COLUMNS = 100
_BATCH = 1_000

_EXPECTED_TABLE = 'expected a table in UTF-8 whose first line names the columns'
_EXPECTED_LINES = 'expected one JSON object a line, in UTF-8'


class Record(NamedTuple):
  """A row and its place.

  Attributes:
    path: The file.
    line: The line where the row starts, or the number of the row, from 1.
    position: How far the file is read, in bytes.
    values: The wanted columns that the row has, by name.
  """

  path: str
  line: int
  position: int
  values: dict[str, Any]

  def __repr__(self) -> str:
    return object.__repr__(self)  # Without what users wrote.

  def error(self, problem: str) -> clients.DataError:
    """Makes an error that names the row."""
    return clients.DataError.in_file(self.path, problem, line=self.line)


@dataclasses.dataclass(frozen=True)
class Format:
  """How one kind of file is read.

  Attributes:
    columns: Lists the columns of a file. A name may occur twice.
    records: Reads the rows, given the file, the columns that are wanted, and what to
      call with an error for each row that cannot be used.
    user: The column of users, where the format has one of its own.
    text: The column of texts, likewise.
  """

  columns: Callable[[str], list[str]]
  records: Callable[[str, Sequence[str], rows.OnBrokenRow], Iterator[Record]]
  user: str | None = None
  text: str | None = None


class _Header(NamedTuple):
  """The first line of a table: what separates its columns, and their names."""

  delimiter: str
  names: list[str]


def _read_header(path: str, quoting: int) -> _Header:
  """Reads the first line of a table.

  Without quotes it is a TSV file. Otherwise columns are separated by whichever of
  comma, semicolon and tab the line has most of.
  """
  line = next(rows.decoded_lines(path, _EXPECTED_TABLE), None)
  text = line.text if line else ''
  if not text.strip():
    raise clients.DataError.in_file(
      path, f'the first line is empty; {_EXPECTED_TABLE}', line=1
    )
  delimiter = max(_DELIMITERS, key=text.count) if quoting != csv.QUOTE_NONE else '\t'
  try:
    (names,) = csv.reader([text], delimiter=delimiter, quoting=quoting, strict=True)
  except csv.Error as error:
    raise clients.DataError.in_file(
      path, f'{error}; {_EXPECTED_TABLE}', line=1
    ) from error
  return _Header(delimiter, [name.strip() for name in names])


def _table_columns(path: str, *, quoting: int) -> list[str]:
  return _read_header(path, quoting).names


def _table_records(
  path: str, wanted: Sequence[str], on_broken_row: rows.OnBrokenRow, *, quoting: int
) -> Iterator[Record]:
  """Reads the rows of a table; a quoted field may have line breaks in it."""
  # Python's own limit, which holds for the whole process, is less than a long text.
  csv.field_size_limit(_MAX_FIELD)
  delimiter, names = _read_header(path, quoting)
  places = {name: names.index(name) for name in wanted}
  position = 0

  def texts() -> Iterator[str]:
    nonlocal position
    for line in rows.decoded_lines(path, _EXPECTED_TABLE):
      position = line.end
      yield line.text

  reader = csv.reader(
    texts(),
    delimiter=delimiter,
    quoting=quoting,
    skipinitialspace=quoting != csv.QUOTE_NONE,
    strict=True,
  )
  next(reader)
  while True:
    line = reader.line_num + 1
    try:
      fields = next(reader)
    except StopIteration:
      return
    except csv.Error as error:
      on_broken_row(clients.DataError.in_file(path, str(error), line=line))
      continue
    if not fields:
      continue
    if len(fields) != len(names):
      problem = f'{len(fields)} columns, where the first line has {len(names)}'
      on_broken_row(clients.DataError.in_file(path, problem, line=line))
      continue
    values = {name: fields[place] for name, place in places.items()}
    yield Record(path, line, position, values)


def _json_objects(
  path: str, on_broken_row: rows.OnBrokenRow
) -> Iterator[tuple[rows.Line, dict[str, Any]]]:
  """Reads JSON lines; blank ones are no rows."""
  for line in rows.decoded_lines(path, _EXPECTED_LINES):
    if not line.text.strip():
      continue
    try:
      value = json.loads(line.text)
      problem = 'no JSON object'
    except json.JSONDecodeError as error:
      value = None
      problem = f'no JSON ({error.msg}, column {error.colno})'
    except (RecursionError, ValueError) as error:  # Too deep, or too many digits.
      value = None
      problem = f'no JSON ({error})'
    if isinstance(value, dict):
      yield line, value
    else:
      on_broken_row(
        clients.DataError.in_file(
          path, f'{problem}; {_EXPECTED_LINES}', line=line.number
        )
      )


def _json_columns(path: str) -> list[str]:
  objects = _json_objects(path, lambda _: None)
  first = itertools.islice(objects, _ROWS_WITH_COLUMNS)
  return list(dict.fromkeys(key for _, value in first for key in value))


def _json_records(
  path: str, wanted: Sequence[str], on_broken_row: rows.OnBrokenRow
) -> Iterator[Record]:
  for line, value in _json_objects(path, on_broken_row):
    values = {name: value[name] for name in wanted if name in value}
    yield Record(path, line.number, line.end, values)


@contextlib.contextmanager
def _open_parquet(path: str) -> Iterator[Any]:
  """Opens a Parquet file."""
  # Only who has such files waits for the import.
  from pyarrow import parquet

  try:
    # Columns are read a batch at a time; buffering ahead would hold whole row groups.
    with parquet.ParquetFile(path, pre_buffer=False) as file:
      yield file
  # Lengths in a damaged file may be anything, and types such as nobody reads.
  except (
    OSError, ValueError, TypeError, LookupError, MemoryError, OverflowError,
    NotImplementedError,
  ) as error:  # fmt: skip
    raise clients.DataError.in_file(
      path, f'cannot be read ({_reason(error)}); expected a Parquet file'
    ) from None


def _reason(error: Exception) -> str:
  """Says what is wrong with a Parquet file, in pyarrow's words if they are its own."""
  if isinstance(error, OSError) and error.strerror:
    return error.strerror
  own = type(error).__module__.startswith('pyarrow')
  return str(error) if own else type(error).__name__


def _parquet_columns(path: str) -> list[str]:
  with _open_parquet(path) as file:
    return list(file.schema_arrow.names)


def _parquet_records(
  path: str, wanted: Sequence[str], on_broken_row: rows.OnBrokenRow
) -> Iterator[Record]:
  """Reads the rows of a Parquet file, none of which can be broken by itself."""
  del on_broken_row  # Unused.
  size = os.path.getsize(path)
  with _open_parquet(path) as file:
    number = 0
    for batch in file.iter_batches(_BATCH, columns=list(wanted)):
      for values in batch.to_pylist():
        number += 1
        position = size * number // max(1, file.metadata.num_rows)
        yield Record(path, number, position, values)


def _table(quoting: int) -> Format:
  return Format(
    functools.partial(_table_columns, quoting=quoting),
    functools.partial(_table_records, quoting=quoting),
  )


# By the ending of a file's name. TSV files have no quotes, as is the rule for them.
TABLES = {
  '.csv': _table(csv.QUOTE_MINIMAL),
  '.tsv': _table(csv.QUOTE_NONE),
  '.jsonl': Format(_json_columns, _json_records),
  '.parquet': Format(_parquet_columns, _parquet_records),
}
