"""Text of users in any known format, converted once to TFF's SQLite layout.

The file is read as a stream and written as one, so that it may be larger than memory.
What was made of it is kept under a name that changes with the file and with the columns
that were read; users are dealt into groups only when it is opened (`own_text`).
"""

import dataclasses
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tqdm

from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import client_sqlite, clients, records, user_records
from tff_textpriv.text.normalize import normalize

# The split of all users where no column tells it.
NO_SPLIT = 'all'
# What the splits may be called in a column.
SPLITS = {
  'train': 'train',
  'training': 'train',
  'validation': 'validation',
  'valid': 'validation',
  'val': 'validation',
  'dev': 'validation',
  'heldout': 'validation',
  'test': 'test',
}

# Part of the name of every converted file: raise it when one is made otherwise.
_VERSION = 1
_FORMATS = {**records.TABLES, **user_records.FILES}
_EXPECTED = (
  "expected a table (.csv, .tsv, .jsonl or .parquet), LEAF's JSON (.json), TFF's SQLite "
  'layout (.sqlite), a folder of such files of one kind, or a folder of text files, '
  'USER/*.txt or USER.txt'
)
# So many broken rows before the first good one, and the file is something else.
_HOPELESS = 100
_SHOWN = 5
# Files of more bytes than this in all are worth a progress bar.
_LARGE = 10_000_000


@dataclasses.dataclass(frozen=True)
class Source:
  """Which text is read.

  Attributes:
    path: A file or a folder.
    user: The column that tells users apart; may be left out where the format has one.
    text: The column of texts, likewise.
    label: The column of classes, if there are any.
    split: The column that says who trains, if there is one.
  """

  path: str
  user: str | None = None
  text: str | None = None
  label: str | None = None
  split: str | None = None


def check(source: Source) -> None:
  """Raises what `convert` would if the file or a column is not there."""
  _choose_columns(source, *_find(source.path))


def convert(source: Source, cache_dir: str) -> str:
  """Converts the text, unless that was done before.

  Args:
    source: What to read.
    cache_dir: Where converted files are kept.

  Returns:
    The path of a file for `client_sqlite`. Its facts are the numbers of `rows`, of
    `broken` and `empty` ones among them, of `words`, and the `first_broken` rows.

  Raises:
    SettingsError: If a column is not there; names those that are.
    DataError: If the file cannot be read.
  """
  kind, files = _find(source.path)
  columns = _choose_columns(source, kind, files)
  key = clients.short_hash([_VERSION, *columns.items(), *map(_state, files)])
  path = os.path.join(cache_dir, f'custom_{key}.sqlite')
  if not os.path.exists(path):
    with client_sqlite.create(path) as writer:
      writer.note(_copy(source.path, kind, files, columns, writer))
  return path


def _find(path: str) -> tuple[records.Format, list[str]]:
  """Tells the format, and lists what is to be read one after the other."""
  if not os.path.exists(path):
    raise clients.DataError.in_file(
      path, f'there is no such file or folder; {_EXPECTED}'
    )
  if os.path.isfile(path):
    ending = os.path.splitext(path)[1].lower()
    if ending not in _FORMATS:
      raise clients.DataError.in_file(
        path, f'the ending {ending!r} names no known format; {_EXPECTED}'
      )
    return _FORMATS[ending], [path]
  found = {
    ending: [str(file) for file in clients.files_in(path, f'*{ending}')]
    for ending in _FORMATS
  }
  found = {ending: files for ending, files in found.items() if files}
  has_texts = bool(user_records.text_files(path))
  if len(found) + has_texts != 1:
    what = [*found, '.txt'] if has_texts else list(found)
    problem = f'the folder has {" and ".join(what) or "none of the known"} files'
    raise clients.DataError.in_file(path, f'{problem}; {_EXPECTED}')
  if has_texts:
    return user_records.FOLDER, [path]
  ((ending, files),) = found.items()
  return _FORMATS[ending], files


def _choose_columns(
  source: Source, kind: records.Format, files: Sequence[str]
) -> dict[str, str]:
  """Returns the columns to read by their roles, after a look whether they are there."""
  roles = {
    'user': source.user or kind.user,
    'text': source.text or kind.text,
    'label': source.label,
    'split': source.split,
  }
  for path in files:
    names = kind.columns(path)
    if not names:
      raise clients.DataError.in_file(path, f'there is no row in it; {_EXPECTED}')
    listed = _listed(names, roles.values())
    for role, name in roles.items():
      flag = f'{role}_column'
      if name is None:
        if role in ('user', 'text'):
          raise settings_lib.SettingsError(
            flag,
            None,
            f'is missing: say which column holds the {role}; {path} has {listed}',
          )
      elif name not in names:
        raise settings_lib.SettingsError(
          flag, name, f'there is no such column in {path}, which has {listed}'
        )
      elif names.count(name) > 1:
        raise settings_lib.SettingsError(
          flag, name, f'{names.count(name)} columns of {path} have this name'
        )
  chosen = {role: name for role, name in roles.items() if name is not None}
  for role, name in chosen.items():
    others = [other for other in chosen if chosen[other] == name and other != role]
    if others:
      raise settings_lib.SettingsError(
        f'{role}_column', name, f'is also --{others[0]}_column'
      )
  return chosen


def _listed(names: Sequence[str], wanted: Iterable[str | None]) -> str:
  """Says which columns there are.

  Where none of those that are wanted is there, the first line may be none of names, but
  somebody's text.
  """
  if not set(names).intersection(wanted):
    return f'{len(names)} columns'
  return ', '.join(names[:30]) + (', ...' if len(names) > 30 else '')


def _copy(
  path: str,
  kind: records.Format,
  files: Sequence[str],
  columns: Mapping[str, str],
  writer: client_sqlite.Writer,
) -> dict[str, Any]:
  """Copies all rows; returns the facts."""
  tally = _Tally(path)
  wanted = list(columns.values())
  sizes = [_size(file) for file in files]
  with tqdm.tqdm(
    total=sum(sizes),
    desc=f'Converting {os.path.basename(path)}',
    unit='B',
    unit_scale=True,
    disable=sum(sizes) < _LARGE or None,
  ) as progress:
    for number, file in enumerate(files):
      before = sum(sizes[:number])
      for record in kind.records(file, wanted, tally.broken):
        progress.update(before + record.position - progress.n)
        try:
          user = _name(record, columns['user'])
          text = _text(record, columns['text'])
          label = _name(record, columns['label']) if 'label' in columns else None
          split = _split(record, columns['split']) if 'split' in columns else NO_SPLIT
        except ValueError as error:
          tally.broken(record.error(str(error)))
          continue
        tally.used(text)
        if text:
          writer.add(split, user, text, label)
  return tally.facts()


class _Tally:
  """Counts rows, and gives up where none can be used."""

  def __init__(self, path: str):
    self._path = path
    self._num_used = self._num_empty = self._num_words = self._num_broken = 0
    self._first_broken: list[str] = []

  def used(self, text: str) -> None:
    """Counts a good row, whose text may be empty."""
    self._num_used += 1
    self._num_empty += not text
    self._num_words += len(text.split())

  def broken(self, error: clients.DataError) -> None:
    """Counts a row that cannot be used."""
    self._num_broken += 1
    if len(self._first_broken) < _SHOWN:
      self._first_broken.append(str(error))
    if not self._num_used and self._num_broken >= _HOPELESS:
      raise clients.DataError.in_file(
        self._path,
        f'none of the first {_HOPELESS} rows can be used; the first: '
        f'{self._first_broken[0]}',
      )

  def facts(self) -> dict[str, Any]:
    """Returns the counts, if anything could be used."""
    if self._num_used == self._num_empty:
      problem = (
        f'there is no text in it: {self._num_empty} empty and {self._num_broken} broken '
        'rows'
      )
      if self._first_broken:
        problem += f'; the first broken one: {self._first_broken[0]}'
      raise clients.DataError.in_file(self._path, problem)
    return {
      'rows': self._num_used + self._num_broken,
      'broken': self._num_broken,
      'empty': self._num_empty,
      'words': self._num_words,
      'first_broken': self._first_broken,
    }


def _name(record: records.Record, column: str) -> str:
  """Extracts a user, class or split, as a string that is not empty."""
  value = record.values.get(column)
  if isinstance(value, float) and math.isfinite(value) and value.is_integer():
    value = int(value)  # Where a table has gaps, 5 is often written as 5.0.
  is_none = value is None or (isinstance(value, float) and math.isnan(value))
  if isinstance(value, bytes | list | dict | tuple):
    raise ValueError(f'{column!r} is neither a string nor a number')
  name = '' if is_none else normalize(str(value))
  if not name:
    raise ValueError(f'{column!r} is missing or empty')
  return name


def _text(record: records.Record, column: str) -> str:
  """Extracts the text, maybe empty."""
  if column not in record.values:
    raise ValueError(f'{column!r} is missing')
  value = record.values[column]
  if value is None:
    return ''
  if not isinstance(value, str):
    raise ValueError(f'{column!r} is {type(value).__name__}, and no string')
  return normalize(value)


def _split(record: records.Record, column: str) -> str:
  name = _name(record, column).lower()
  if name not in SPLITS:
    raise ValueError(f'{column!r} is none of {", ".join(SPLITS)}')
  return SPLITS[name]


def _state(path: str) -> tuple[Any, ...]:
  """Returns what changes when a file, or a file of a folder, does."""
  if os.path.isdir(path):
    return tuple(_state(str(file)) for file in user_records.text_files(path))
  return clients.file_state(path)


def _size(path: str) -> int:
  if os.path.isdir(path):
    return sum(file.stat().st_size for file in user_records.text_files(path))
  return os.path.getsize(path)
