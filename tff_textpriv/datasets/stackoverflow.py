"""StackOverflow in the SQLite layout of TFF, read lazily; any text, written so.

The file has two tables:

  examples(split_name TEXT, client_id TEXT, serialized_example_proto BLOB)
  client_metadata(client_id TEXT, split_name TEXT, num_examples INTEGER)

An example is a serialized `tf.train.Example`, one sentence, with the features
tokens, creation_date, title, score, tags and type. Only the users' ids are held
in memory; a user's sentences are read when asked for, with SQLite and protocol
buffers alone. TFF's `SqlClientData` makes a `tf.data` pipeline for each user
instead, and pipelines for ever new users make a long training leak memory.
"""

import contextlib
import functools
import http.client
import lzma
import os
import pathlib
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tff_textpriv.datasets import clients

# Train, validation and test users, in this order.
SPLITS = ('train', 'heldout', 'test')

# Part of every fingerprint: raise it whenever the same file is read otherwise.
_VERSION = 1

_COLUMNS = {
  'examples': {'split_name', 'client_id', 'serialized_example_proto'},
  'client_metadata': {'client_id', 'split_name', 'num_examples'},
}
_EXPECTED = (
  "expected TFF's StackOverflow layout: an SQLite file with the tables "
  'examples(split_name, client_id, serialized_example_proto) and '
  'client_metadata(client_id, split_name, num_examples) and the splits '
  f'{", ".join(SPLITS)}'
)
_FILE_NAME = 'stackoverflow.sqlite'
_MAGIC = b'SQLite format 3\x00'
_HEADER_SIZE = 100


def load(path: str) -> clients.FederatedText:
  """Opens a data set in TFF's SQLite layout.

  In TFF's StackOverflow the held-out users are people of their own, but the test
  split holds later posts of users who are mostly in the train split, too. Here
  evaluation is on users who never took part in training, so train users are
  left out of both, and held-out users out of the test users.

  Args:
    path: The SQLite file.

  Returns:
    The splits train, heldout and test as train, validation and test users,
    without public text.

  Raises:
    DataError: If the file is missing, truncated or of another kind, or if no
      user is left to evaluate on.
  """
  _check_header(path)
  with _open(path) as connection:
    _check_tables(path, connection)
    ids = {split: _client_ids(path, connection, split) for split in SPLITS}
  groups: list[clients.ClientText] = []
  seen: set[str] = set()
  for split in SPLITS:
    unseen = [client_id for client_id in ids[split] if client_id not in seen]
    if not unseen:
      raise clients.DataError.in_file(
        path,
        f'all {len(ids[split])} users of the split {split!r} are in another split, '
        'too; evaluation needs users who are in no other split',
      )
    seen.update(unseen)
    groups.append(SqlClientText(path, split, unseen))
  train, validation, test = groups
  return clients.FederatedText('stackoverflow', train, validation, test)


class SqlClientText(clients.ClientText):
  """The users of one split of a file in TFF's SQLite layout."""

  def __init__(self, path: str, split: str, client_ids: Sequence[str]):
    """Describes a split; nothing is read yet.

    Args:
      path: The SQLite file.
      split: The name of the split.
      client_ids: The users of the split who are to be known, in order.
    """
    self._path = path
    self._split = split
    self._client_ids = client_ids
    self._members = frozenset(client_ids)
    self._status = os.stat(path)

  @property
  def client_ids(self) -> Sequence[str]:
    """The users in the order in which they were given."""
    return self._client_ids

  def read(self, client_id: str) -> list[str]:
    """See the base class; the order is that of the file."""
    if client_id not in self._members:
      raise clients.UnknownClientError(client_id, len(self._client_ids))
    # A connection for each call is cheap, and safe in threads and forks.
    with _open(self._path) as connection:
      rows = connection.execute(
        'SELECT serialized_example_proto FROM examples '
        'WHERE split_name = ? AND client_id = ?',
        (self._split, client_id),
      ).fetchall()
    return clients.normalized_texts(
      self._tokens(client_id, position, proto)
      for position, (proto,) in enumerate(rows, start=1)
    )

  @functools.cached_property
  def fingerprint(self) -> str:
    """A hash of the file's place, size and time of change, and of the users."""
    file = (
      os.path.realpath(self._path),
      self._status.st_size,
      self._status.st_mtime_ns,
    )
    return clients.short_hash([_VERSION, *file, self._split, *self._client_ids])

  def _tokens(self, client_id: str, position: int, proto: bytes) -> str:
    """Extracts the feature `tokens` of one example."""
    # Both come with TensorFlow, which need not be loaded before data is read.
    from google.protobuf import message  # type: ignore[import-untyped]
    from tensorflow.core.example import example_pb2

    try:
      features = example_pb2.Example.FromString(proto).features.feature
      (tokens,) = features['tokens'].bytes_list.value
      return tokens.decode()
    except (message.DecodeError, TypeError, ValueError) as error:
      raise clients.DataError.in_file(
        self._path,
        f'example {position} of user {client_id!r} in the split {self._split!r} '
        'cannot be read; expected a serialized tf.train.Example with one UTF-8 '
        f'string in the feature tokens ({error})',
      ) from error


def write(path: str, texts_by_split: Mapping[str, Mapping[str, Iterable[str]]]) -> None:
  """Writes texts in TFF's SQLite layout, for TFF's tools and for `load`.

  The other features of an example (dates, titles, tags ...) are written empty.
  The file appears only once it is complete, and is its owner's alone: it holds
  users' text.

  Args:
    path: The file to write; an existing one is replaced.
    texts_by_split: The texts of each user of each split. To be read back with
      `load`, the splits must be train, heldout and test.
  """
  folder = os.path.dirname(os.path.abspath(path))
  os.makedirs(folder, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=folder) as scratch:
    scratch_path = os.path.join(scratch, _FILE_NAME)
    with contextlib.closing(sqlite3.connect(scratch_path)) as connection, connection:
      _write_tables(connection, texts_by_split)
    os.chmod(scratch_path, 0o600)
    os.replace(scratch_path, path)


def download(cache_dir: str) -> str:
  """Downloads StackOverflow with TFF's own loader, unless it is there already.

  TFF's loader takes a half-downloaded file for a complete one at the next call;
  here a file enters `cache_dir` only after its download has succeeded.

  Args:
    cache_dir: Where the file is kept.

  Returns:
    The path of the SQLite file, for `load`.

  Raises:
    DataError: If the download fails.
  """
  path = os.path.join(cache_dir, _FILE_NAME)
  if os.path.exists(path):
    return path
  # Takes many seconds to import, and is needed for nothing else here.
  import tensorflow_federated as tff

  os.makedirs(cache_dir, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=cache_dir) as scratch:
    scratch_path = os.path.join(scratch, _FILE_NAME)
    try:
      tff.simulation.datasets.stackoverflow.load_data(cache_dir=scratch)
      _check_header(scratch_path)
    except (
      OSError,
      EOFError,
      ValueError,
      http.client.HTTPException,
      lzma.LZMAError,
      sqlite3.Error,
    ) as error:
      raise clients.DataError.in_file(
        path,
        f'the download of StackOverflow failed ({error}); check the network and '
        'try again, or name a file that you have',
      ) from error
    os.replace(scratch_path, path)
  return path


@contextlib.contextmanager
def _open(path: str) -> Iterator[sqlite3.Connection]:
  """Opens the file for reading only; SQLite's errors become `DataError`."""
  uri = pathlib.Path(path).resolve().as_uri() + '?mode=ro'
  try:
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
      yield connection
  except sqlite3.Error as error:
    raise clients.DataError.in_file(
      path, f'SQLite cannot read the file ({error}); {_EXPECTED}'
    ) from error


def _check_header(path: str) -> None:
  """Raises `DataError` unless the file is an SQLite file of its full length."""
  if not os.path.isfile(path):
    raise clients.DataError.in_file(path, f'there is no such file; {_EXPECTED}')
  size = os.path.getsize(path)
  if size == 0:
    raise clients.DataError.in_file(path, f'the file is empty; {_EXPECTED}')
  with open(path, 'rb') as file:
    header = file.read(_HEADER_SIZE)
  if not header.startswith(_MAGIC):
    raise clients.DataError.in_file(path, f'this is no SQLite file; {_EXPECTED}')
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
      path, f'the file is truncated: {size} of {full_size} bytes; {_EXPECTED}'
    )


def _check_tables(path: str, connection: sqlite3.Connection) -> None:
  """Raises `DataError` if a table or a column is missing."""
  for table, columns in _COLUMNS.items():
    found = {row[1] for row in connection.execute(f'PRAGMA table_info({table})')}
    if not found:
      raise clients.DataError.in_file(path, f'there is no table {table}; {_EXPECTED}')
    if not columns <= found:
      missing = ', '.join(sorted(columns - found))
      raise clients.DataError.in_file(
        path, f'the table {table} has no column {missing}; {_EXPECTED}'
      )


def _client_ids(path: str, connection: sqlite3.Connection, split: str) -> list[str]:
  """Reads the ids of all users of a split, in alphabetical order."""
  rows = connection.execute(
    'SELECT DISTINCT client_id FROM client_metadata '
    'WHERE split_name = ? ORDER BY client_id',
    (split,),
  )
  ids = [str(client_id) for (client_id,) in rows]
  if not ids:
    raise clients.DataError.in_file(
      path, f'the split {split!r} has no users; {_EXPECTED}'
    )
  return ids


def _write_tables(
  connection: sqlite3.Connection,
  texts_by_split: Mapping[str, Mapping[str, Iterable[str]]],
) -> None:
  """Creates and fills both tables, and the index that makes reading fast."""
  connection.execute(
    'CREATE TABLE examples (split_name TEXT NOT NULL, client_id TEXT NOT NULL, '
    'serialized_example_proto BLOB NOT NULL)'
  )
  connection.execute(
    'CREATE TABLE client_metadata (client_id TEXT NOT NULL, split_name TEXT NOT NULL, '
    'num_examples INTEGER NOT NULL)'
  )
  for split, texts_by_client in texts_by_split.items():
    for client_id, texts in texts_by_client.items():
      protos = [_example(text) for text in texts]
      connection.executemany(
        'INSERT INTO examples VALUES (?, ?, ?)',
        ((split, client_id, proto) for proto in protos),
      )
      connection.execute(
        'INSERT INTO client_metadata VALUES (?, ?, ?)', (client_id, split, len(protos))
      )
  connection.execute(
    'CREATE INDEX examples_by_client ON examples (split_name, client_id)'
  )


def _example(text: str) -> bytes:
  """Serializes a text as an example that has all of StackOverflow's features."""
  from tensorflow.core.example import example_pb2

  example = example_pb2.Example()
  features = example.features.feature
  features['tokens'].bytes_list.value.append(text.encode())
  for name in ('creation_date', 'tags', 'title', 'type'):
    features[name].bytes_list.value.append(b'')
  features['score'].int64_list.value.append(0)
  return example.SerializeToString()
