"""Files and folders that tell users apart by themselves, read as `records`.

LEAF's JSON, TFF's SQLite layout, and folders of text files.
"""

import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from tff_textpriv.datasets import client_sqlite, clients, leaf, records, rows

_EXPECTED_TEXT = 'expected a text file in UTF-8'


def _leaf_columns(path: str) -> list[str]:
  del path  # All files have the same.
  return ['user', 'x', 'y']


def _leaf_records(
  path: str, wanted: Sequence[str], on_broken_row: rows.OnBrokenRow
) -> Iterator[records.Record]:
  """Reads a record a comment; a user who is broken is one broken row."""
  for user in leaf.read_users(path):
    try:
      columns: dict[str, list[Any]] = {'x': user.comments()}
      columns['user'] = [user.name] * len(columns['x'])
      if 'y' in wanted:
        columns['y'] = user.labels()
    except ValueError as error:
      on_broken_row(user.error(str(error)))
      continue
    for values in zip(*(columns[name] for name in wanted), strict=True):
      yield records.Record(
        path, user.line, user.end, dict(zip(wanted, values, strict=True))
      )


def _sqlite_columns(path: str) -> list[str]:
  """Lists client, split, and the features of the first example."""
  client_sqlite.check(path)
  first = next(client_sqlite.scan(path), None)
  try:
    names = [] if first is None else list(client_sqlite.features(first.proto))
  except ValueError as error:
    raise clients.DataError.in_file(path, f'the first example is {error}') from error
  return ['client_id', 'split_name', *names]


def _sqlite_records(
  path: str, wanted: Sequence[str], on_broken_row: rows.OnBrokenRow
) -> Iterator[records.Record]:
  with client_sqlite.open_file(path) as connection:
    (last,) = connection.execute('SELECT max(rowid) FROM examples').fetchone()
  size = os.path.getsize(path)
  for example in client_sqlite.scan(path):
    try:
      found = client_sqlite.features(example.proto)
    except ValueError as error:
      on_broken_row(clients.DataError.in_file(path, str(error), line=example.number))
      continue
    found |= {'client_id': example.client_id, 'split_name': example.split}
    values = {name: found[name] for name in wanted if name in found}
    # Damaged numbers of rows may be anything, 0 included.
    position = size * example.number // (last or 1)
    yield records.Record(path, example.number, position, values)


def _folder_columns(path: str) -> list[str]:
  del path  # All folders have the same.
  return ['user', 'text']


def _folder_records(
  path: str, wanted: Sequence[str], on_broken_row: rows.OnBrokenRow
) -> Iterator[records.Record]:
  """Reads USER/*.txt, a text each, or USER.txt, a text a line."""
  del wanted, on_broken_row  # All that there is, and a file cannot be broken.
  position = 0
  for file in text_files(path):
    if file.parent == pathlib.Path(path):
      for line in rows.decoded_lines(str(file), _EXPECTED_TEXT):
        values = {'user': file.stem, 'text': line.text}
        yield records.Record(str(file), line.number, position + line.end, values)
    else:
      text = rows.decode(str(file), 1, file.read_bytes(), _EXPECTED_TEXT)
      values = {'user': file.parent.name, 'text': text}
      yield records.Record(str(file), 1, position + file.stat().st_size, values)
    position += file.stat().st_size


def text_files(folder: str) -> list[pathlib.Path]:
  """Lists the text files of users: USER.txt, and USER/*.txt, in their order."""
  return clients.files_in(folder, '*.txt', '*/*.txt')


# By the ending of a file's name.
FILES = {
  '.json': records.Format(_leaf_columns, _leaf_records, user='user', text='x'),
  '.sqlite': records.Format(
    _sqlite_columns, _sqlite_records, user='client_id', text='tokens'
  ),
}
FOLDER = records.Format(_folder_columns, _folder_records, user='user', text='text')
