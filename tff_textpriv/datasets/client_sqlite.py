"""TFF's SQLite layout of client data: read lazily, written as a stream.

The file has two tables:

  examples(split_name TEXT, client_id TEXT, serialized_example_proto BLOB)
  client_metadata(client_id TEXT, split_name TEXT, num_examples INTEGER)

An example is a serialized `tf.train.Example` whose feature `tokens` is a text.
Only the users' ids are held in memory; a user's texts are read when asked for, with
SQLite and protocol buffers alone. TFF's `SqlClientData` makes a `tf.data` pipeline for
each user instead, and pipelines for ever new users make a long training leak memory.
"""

import contextlib
import functools
import json
import os
import pathlib
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tff_textpriv.datasets import clients

EXPECTED = (
  "expected TFF's StackOverflow layout: an SQLite file with the tables "
  'examples(split_name, client_id, serialized_example_proto) and '
  'client_metadata(client_id, split_name, num_examples)'
)

# Part of every fingerprint: raise it whenever the same file is read otherwise.
_VERSION = 1

_COLUMNS = {
  'examples': {'split_name', 'client_id', 'serialized_example_proto'},
  'client_metadata': {'client_id', 'split_name', 'num_examples'},
}
# A longer text is rather a damaged length.
_MAX_LENGTH = 100_000_000
_MAGIC = b'SQLite format 3\x00'
_HEADER_SIZE = 100


class SqlClientText(clients.ClientText):
  """The users of one split of a file in TFF's SQLite layout."""

  def __init__(
    self,
    path: str,
    split: str,
    client_ids: Sequence[str],
    max_texts: int | None = None,
  ):
    """Describes a split; nothing is read yet.

    Args:
      path: The SQLite file.
      split: The name of the split.
      client_ids: The users of the split who are to be known, in order.
      max_texts: How many texts of a user to read, the first ones; `None` for all.
    """
    self._path = path
    self._split = split
    self._client_ids = client_ids
    self._members = frozenset(client_ids)
    self._max_texts = max_texts
    self._state = clients.file_state(path)

  @property
  def client_ids(self) -> Sequence[str]:
    """The users in the order in which they were given."""
    return self._client_ids

  def read(self, client_id: str) -> list[str]:
    """See the base class; the order is that of the file."""
    if client_id not in self._members:
      raise clients.UnknownClientError(len(self._client_ids))
    # A connection for each call is cheap, and safe in threads and forks.
    with open_file(self._path) as connection:
      rows = connection.execute(
        'SELECT rowid, serialized_example_proto FROM examples '
        'WHERE split_name = ? AND client_id = ? LIMIT ?',
        (self._split, client_id, -1 if self._max_texts is None else self._max_texts),
      ).fetchall()
    return clients.normalized_texts(self._tokens(row, proto) for row, proto in rows)

  @functools.cached_property
  def fingerprint(self) -> str:
    """A hash of the file's place, size and time of change, and of what is read."""
    limit = () if self._max_texts is None else ('limit', self._max_texts)
    return clients.short_hash(
      [_VERSION, *self._state, self._split, *self._client_ids, *limit]
    )

  def _tokens(self, row: int, proto: bytes) -> str:
    """Extracts the feature `tokens` of one example."""
    # Both come with TensorFlow, which need not be loaded before data is read.
    from google.protobuf import message
    from tensorflow.core.example import example_pb2

    try:
      features = example_pb2.Example.FromString(proto).features.feature
      (tokens,) = features['tokens'].bytes_list.value
      return tokens.decode()
    except (message.DecodeError, TypeError, ValueError) as error:
      raise clients.DataError.in_file(
        self._path,
        f'row {row} of the table examples cannot be read; expected a serialized '
        f'tf.train.Example with one UTF-8 string in the feature tokens ({error})',
      ) from None


class Example(NamedTuple):
  """One row of the table of examples, and its number in the file."""

  number: int
  split: str
  client_id: str
  proto: bytes

  def __repr__(self) -> str:
    return object.__repr__(self)  # Without what users wrote.


def scan(path: str) -> Iterator[Example]:
  """Reads all examples of a file one after the other, in the order of the file."""
  with open_file(path) as connection:
    rows = connection.execute(
      'SELECT rowid, split_name, client_id, serialized_example_proto FROM examples '
      'ORDER BY rowid'
    )
    for number, split, client_id, proto in rows:
      yield Example(number, str(split), str(client_id), proto)


def features(proto: bytes) -> dict[str, Any]:
  """Parses an example whose features hold one value each; others are left out.

  Raises:
    ValueError: If it is no example, or a string in it is not UTF-8.
  """
  from google.protobuf import message
  from tensorflow.core.example import example_pb2

  try:
    parsed = example_pb2.Example.FromString(proto).features.feature
  except (message.DecodeError, TypeError) as error:
    raise ValueError(f'not a serialized tf.train.Example ({error})') from error
  values = {}
  for name, feature in sorted(parsed.items()):
    content = getattr(feature, feature.WhichOneof('kind') or 'bytes_list').value
    if len(content) == 1:
      (value,) = content
      values[name] = _decoded(value) if isinstance(value, bytes) else value
  return values


def _decoded(value: bytes) -> str:
  try:
    return value.decode()
  except UnicodeDecodeError as error:
    raise ValueError(str(error)) from None


class Writer:
  """Adds texts to a new file, in any order of users; see `create`."""

  def __init__(self, connection: sqlite3.Connection):
    self._connection = connection
    connection.execute(
      'CREATE TABLE examples (split_name TEXT NOT NULL, client_id TEXT NOT NULL, '
      'serialized_example_proto BLOB NOT NULL)'
    )
    connection.execute(
      'CREATE TABLE client_metadata (client_id TEXT NOT NULL, '
      'split_name TEXT NOT NULL, num_examples INTEGER NOT NULL)'
    )
    connection.execute('CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT)')

  def add(
    self, split: str, client_id: str, text: str, label: str | None = None
  ) -> None:
    """Adds a text of a user, with a class if there is one."""
    self._connection.execute(
      'INSERT INTO examples VALUES (?, ?, ?)', (split, client_id, _proto(text, label))
    )

  def note(self, facts: Mapping[str, Any]) -> None:
    """Keeps what else is to be known of the data, as JSON values."""
    self._connection.executemany(
      'INSERT INTO facts VALUES (?, ?)',
      ((name, json.dumps(value)) for name, value in facts.items()),
    )

  def finish(self) -> None:
    """Makes the index that makes reading fast, and counts users' texts with it."""
    self._connection.execute(
      'CREATE INDEX examples_by_client ON examples (split_name, client_id)'
    )
    self._connection.execute(
      'INSERT INTO client_metadata SELECT client_id, split_name, count(*) '
      'FROM examples GROUP BY split_name, client_id'
    )


@contextlib.contextmanager
def create(path: str) -> Iterator[Writer]:
  """Creates a file in TFF's SQLite layout, which appears when the block has ended well.

  The file is its owner's alone: it holds users' text.

  Args:
    path: The file to write; an existing one is replaced.
  """
  folder = os.path.dirname(os.path.abspath(path))
  os.makedirs(folder, mode=0o700, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=folder) as scratch:
    scratch_path = os.path.join(scratch, 'clients.sqlite')
    with contextlib.closing(sqlite3.connect(scratch_path)) as connection, connection:
      writer = Writer(connection)
      yield writer
      writer.finish()
    os.chmod(scratch_path, 0o600)
    os.replace(scratch_path, path)


def facts(path: str) -> dict[str, Any]:
  """Reads what a `Writer` noted."""
  with open_file(path) as connection:
    rows = connection.execute('SELECT name, value FROM facts')
    return {name: json.loads(value) for name, value in rows}


def example_counts(path: str) -> dict[str, dict[str, int]]:
  """Reads how many examples each user of each split has, users in their order."""
  with open_file(path) as connection:
    counts: dict[str, dict[str, int]] = {}
    for split, client_id, number in connection.execute(
      'SELECT split_name, client_id, num_examples FROM client_metadata '
      'ORDER BY split_name, client_id'
    ):
      counts.setdefault(str(split), {})[str(client_id)] = number
    return counts


@contextlib.contextmanager
def open_file(path: str) -> Iterator[sqlite3.Connection]:
  """Opens the file for reading only; SQLite's errors become `DataError`."""
  uri = pathlib.Path(path).resolve().as_uri() + '?mode=ro'
  try:
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
      # The file may be anybody's: nothing in it may call functions of the program.
      connection.execute('PRAGMA trusted_schema=OFF')
      connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_LENGTH)
      yield connection
  # The message may quote a text, or what is damaged, and then is no UTF-8.
  except (sqlite3.Error, UnicodeDecodeError) as error:
    reason = getattr(error, 'sqlite_errorname', 'a text in it is not UTF-8')
    raise clients.DataError.in_file(
      path, f'SQLite cannot read the file ({reason}); {EXPECTED}'
    ) from None


def check(path: str) -> None:
  """Raises `DataError` unless the file is whole, with all tables and columns."""
  check_header(path)
  with open_file(path) as connection:
    for table, columns in _COLUMNS.items():
      found = {row[1] for row in connection.execute(f'PRAGMA table_info({table})')}
      # A view or a virtual table computes what is read, perhaps without an end.
      is_plain = connection.execute(
        "SELECT count(*) FROM sqlite_master WHERE name = ? AND sql LIKE 'CREATE TABLE%'",
        (table,),
      ).fetchone() == (1,)
      if not found or not is_plain:
        raise clients.DataError.in_file(path, f'there is no table {table}; {EXPECTED}')
      if not columns <= found:
        missing = ', '.join(sorted(columns - found))
        raise clients.DataError.in_file(
          path, f'the table {table} has no column {missing}; {EXPECTED}'
        )


def check_header(path: str) -> None:
  """Raises `DataError` unless the file is an SQLite file of its full length."""
  if not os.path.isfile(path):
    raise clients.DataError.in_file(path, f'there is no such file; {EXPECTED}')
  size = os.path.getsize(path)
  if size == 0:
    raise clients.DataError.in_file(path, f'the file is empty; {EXPECTED}')
  with open(path, 'rb') as file:
    header = file.read(_HEADER_SIZE)
  if not header.startswith(_MAGIC):
    raise clients.DataError.in_file(path, f'this is no SQLite file; {EXPECTED}')
  # https://www.sqlite.org/fileformat.html: page size (1 stands for 65536) and
  # number of pages, which is to be believed only where the two counters agree.
  page_size = int.from_bytes(header[16:18], 'big')
  full_size = (65536 if page_size == 1 else page_size) * int.from_bytes(
    header[28:32], 'big'
  )
  if len(header) < _HEADER_SIZE or (
    header[24:28] == header[92:96] and size < full_size
  ):
    raise clients.DataError.in_file(
      path, f'the file is truncated: {size} of {full_size} bytes; {EXPECTED}'
    )


def _proto(text: str, label: str | None) -> bytes:
  """Serializes a text as an example that has all of StackOverflow's features."""
  from tensorflow.core.example import example_pb2

  example = example_pb2.Example()
  content = example.features.feature
  content['tokens'].bytes_list.value.append(text.encode())
  for name in ('creation_date', 'tags', 'title', 'type'):
    content[name].bytes_list.value.append(b'')
  content['score'].int64_list.value.append(0)
  if label is not None:
    content['label'].bytes_list.value.append(label.encode())
  return example.SerializeToString()
