"""Reddit comments by author, from LEAF's JSON, lines of text, or TFF's SQLite layout.

Files are read once to note where each author's comments are; after that only ids
and places are in memory, and an author's comments are read when asked for.
"""

import array
import dataclasses
import functools
import itertools
import os
import random
from collections.abc import Callable, Iterator, Sequence

import tqdm

from tff_textpriv.datasets import (
  author_lines,
  clients,
  leaf,
  rows,
  splits,
  stackoverflow,
)
from tff_textpriv.text import forms

# Part of every fingerprint: raise it whenever the same files are read otherwise.
_VERSION = 1

_EXPECTED = (
  "expected LEAF's JSON (one .json file; a folder of them; or a folder with such "
  'folders train, test and maybe val), a .tsv or .txt file with author, tab and '
  "comment in each line, or a .sqlite file in TFF's StackOverflow layout"
)
_LEAF_FOLDERS = ('train', 'val', 'test')
_MAX_BROKEN_ROWS = 10
# Files of more bytes than this in all are worth a progress bar.
_LARGE = 100_000_000


@dataclasses.dataclass(frozen=True)
class _Format:
  """How one kind of file is read; see `author_lines` and `leaf`."""

  index: Callable[[str, rows.OnBrokenRow], Iterator[tuple[str, int, int]]]
  texts: Callable[[bytes], list[str]]


_FORMATS = {
  '.json': _Format(leaf.index, leaf.texts),
  '.tsv': _Format(author_lines.index, author_lines.texts),
  '.txt': _Format(author_lines.index, author_lines.texts),
}


def load(path: str, seed: int) -> clients.FederatedText:
  """Opens a data set of comments.

  A .sqlite file has its own groups of users. In a LEAF folder with train and test,
  users who are not in train are the ones to evaluate on, half of them for validation;
  but where there are no two such users (LEAF's Reddit has all users in all folders),
  and for all other files, users are dealt 80 to 10 to 10. All comments of a user,
  from whichever files, are in the user's one group.

  Args:
    path: A file or a folder.
    seed: Decides which users go where.

  Returns:
    The data set, without public text.

  Raises:
    DataError: If a file is missing, damaged or of another kind, has more than ten
      broken rows, or if there are fewer than three users.
  """
  if path.endswith('.sqlite'):
    return dataclasses.replace(stackoverflow.load(path), name='reddit')
  files, num_train_files = _find_files(path)
  comments = IndexedComments(files)
  users = comments.client_ids
  held_out = comments.not_in_first_files(num_train_files)
  if len(users) < 3:
    raise clients.DataError.in_file(
      path,
      f'there are {len(users)} users, and at least 3 are needed for training, '
      f'validation and test; {_EXPECTED}',
    )
  if 2 <= len(held_out) < len(users):
    groups = _keep_split(users, held_out, seed)
  else:
    groups = splits.deal_users(users, seed)
  train, validation, test = (clients.Subset(comments, group) for group in groups)
  # LEAF itself makes all letters small and sets punctuation apart.
  is_leaf = files[0].lower().endswith('.json')
  form = forms.SENTENCES if is_leaf else forms.AS_WRITTEN
  return clients.FederatedText('reddit', train, validation, test, form=form)


class IndexedComments(clients.ClientText):
  """All users of some files, whose comments are read from there on demand."""

  def __init__(self, paths: Sequence[str]):
    """Notes where each user's comments are.

    Args:
      paths: Files of the known kinds; a user may be in several.

    Raises:
      DataError: If a file cannot be used.
    """
    self._paths = list(paths)
    self._states = [clients.file_state(path) for path in paths]
    # For each user: number of the file, start, end; number of the file, ...
    self._places: dict[str, array.array[int]] = {}
    total = sum(size for _, size, _ in self._states)
    broken = rows.BrokenRows(_MAX_BROKEN_ROWS, f'the limit is {_MAX_BROKEN_ROWS}')
    with tqdm.tqdm(
      total=total,
      desc='Indexing',
      unit='B',
      unit_scale=True,
      disable=total < _LARGE or None,
    ) as progress:
      for number, path in enumerate(paths):
        passed = 0
        for user, start, end in _format(path).index(path, broken):
          self._note(user, number, start, end)
          progress.update(end - passed)
          passed = end

  @property
  def client_ids(self) -> Sequence[str]:
    """The users in the order in which they first occur."""
    return list(self._places)

  def not_in_first_files(self, number: int) -> list[str]:
    """Returns the users who have nothing in the first `number` files."""
    return [user for user, places in self._places.items() if places[0] >= number]

  def read(self, client_id: str) -> list[str]:
    """See the base class; the order is that of the files."""
    if client_id not in self._places:
      raise clients.UnknownClientError(len(self._places))
    texts: list[str] = []
    places = iter(self._places[client_id])
    triples = zip(places, places, places, strict=True)
    for number, group in itertools.groupby(triples, lambda triple: triple[0]):
      path = self._paths[number]
      if clients.file_state(path) != self._states[number]:
        raise clients.DataError.in_file(
          path, 'the file has changed since it was opened'
        )
      with open(path, 'rb') as file:
        for _, start, end in group:
          file.seek(start)
          texts += _format(path).texts(file.read(end - start))
    return clients.normalized_texts(texts)

  @functools.cached_property
  def fingerprint(self) -> str:
    """A hash of each file's place, size and time of change."""
    return clients.short_hash([_VERSION, *itertools.chain(*self._states)])

  def _note(self, user: str, number: int, start: int, end: int) -> None:
    """Adds a place, or lengthens the last one if this follows directly."""
    places = self._places.setdefault(user, array.array('q'))
    if places and places[-3] == number and places[-1] == start:
      places[-1] = end
    else:
      places.extend((number, start, end))


def _keep_split(
  users: Sequence[str], held_out: Sequence[str], seed: int
) -> splits.Groups:
  """Lets held-out users be validation and test users, half and half."""
  order = sorted(held_out)
  random.Random(seed).shuffle(order)
  half = len(order) // 2
  train = set(users).difference(held_out)
  return splits.Groups(sorted(train), order[:half], order[half:])


def _find_files(path: str) -> tuple[list[str], int]:
  """Lists a data set's files, and how many of them, the first, are for training."""
  if os.path.isfile(path):
    _format(path)
    return [path], 1
  if not os.path.isdir(path):
    raise clients.DataError.in_file(
      path, f'there is no such file or folder; {_EXPECTED}'
    )
  files = _shards(path)
  if files:
    return files, len(files)
  train, *others = (_shards(os.path.join(path, name)) for name in _LEAF_FOLDERS)
  if not train:
    raise clients.DataError.in_file(
      path, f'the folder has no .json files, nor has a folder train in it; {_EXPECTED}'
    )
  return [*train, *itertools.chain(*others)], len(train)


def _shards(folder: str) -> list[str]:
  return [str(file) for file in clients.files_in(folder, '*.json')]


def _format(path: str) -> _Format:
  """Tells by a file's name how to read it."""
  ending = os.path.splitext(path)[1].lower()
  if ending not in _FORMATS:
    raise clients.DataError.in_file(
      path, f'the ending {ending!r} names no known format; {_EXPECTED}'
    )
  return _FORMATS[ending]
