"""What a federated text data set is: users and their texts, read lazily."""

import abc
import contextlib
import dataclasses
import functools
import hashlib
import itertools
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tff_textpriv.text import forms
from tff_textpriv.text.normalize import normalize


class DataError(ValueError):
  """Data that cannot be used; the message says where it is and what is wrong.

  Neither it nor an error that is shown with it holds any of the data. Those of JSON and
  of encodings have the whole text in them: this one is raised `from None` then.
  """

  @classmethod
  def in_file(
    cls, path: str | os.PathLike[str], problem: str, *, line: int | None = None
  ) -> 'DataError':
    """Makes an error that starts with its place, as in `posts.txt:12: ...`.

    Args:
      path: The file at fault.
      problem: What is wrong, and what was expected.
      line: The line at fault, counted from 1, where there is one.

    Returns:
      The error, for the caller to raise.
    """
    place = os.fspath(path) if line is None else f'{os.fspath(path)}:{line}'
    return cls(f'{place}: {problem}')


@contextlib.contextmanager
def reading(path: str | os.PathLike[str], expected: str) -> Iterator[None]:
  """Turns the error of a file that cannot be read, in the block, into a `DataError`."""
  try:
    yield
  except OSError as error:
    raise DataError.in_file(
      path, f'cannot be read ({error.strerror}); {expected}'
    ) from error


def file_state(path: str) -> tuple[str, int, int]:
  """Returns what changes when a file does: place, size and time of change."""
  status = os.stat(path)
  return os.path.realpath(path), status.st_size, status.st_mtime_ns


def files_in(folder: str | os.PathLike[str], *patterns: str) -> list[pathlib.Path]:
  """Lists the files of a folder that match a pattern, in their order.

  Raises:
    DataError: If one is a link to a file elsewhere: whoever made the folder must not
      choose which other files of this machine are read.
  """
  place = pathlib.Path(folder)
  found = sorted(
    file for pattern in patterns for file in place.glob(pattern) if file.is_file()
  )
  root = place.resolve()
  for file in found:
    if not file.resolve().is_relative_to(root):
      raise DataError.in_file(file, f'is a link to a file that is not in {folder}')
  return found


class UnknownClientError(KeyError):
  """A user was asked for who is not in the data set."""

  def __init__(self, num_clients: int):
    super().__init__(
      f'there is no such user among the {num_clients} users of this data set'
    )

  def __str__(self) -> str:
    # A KeyError would print its message as a quoted key.
    return str(self.args[0])


class ClientText(abc.ABC):
  """The texts of many users. Only the users' ids are held in memory."""

  @property
  @abc.abstractmethod
  def client_ids(self) -> Sequence[str]:
    """The ids of all users, without repetition, always in the same order."""

  @abc.abstractmethod
  def read(self, client_id: str) -> list[str]:
    """Reads the normalised texts of one user, in a stable order.

    None is empty, but for the blank lines of a corpus in which they count (`lm_text`).

    Raises:
      UnknownClientError: If there is no such user.
    """

  @property
  @abc.abstractmethod
  def fingerprint(self) -> str:
    """A short hash that changes when any text could; a key for caches."""


@dataclasses.dataclass(frozen=True)
class FederatedText:
  """A federated data set whose three groups of users have nobody in common.

  Attributes:
    name: What to call the data set in reports.
    train: The users who take part in training.
    validation: The users on whom choices are made.
    test: The users on whom the final result is measured.
    public_text: Lines that anyone may read, from which a tokenizer may be
      trained at no cost in privacy; `None` if the data set has none.
    form: The form in which its readers give texts, users' and public ones.
    summary: Lines on what is in it, where they were asked for.
  """

  name: str
  train: ClientText
  validation: ClientText
  test: ClientText
  public_text: Sequence[str] | None = None
  form: forms.TextForm = forms.AS_WRITTEN
  summary: tuple[str, ...] = ()

  def check_disjoint(self) -> None:
    """Raises `DataError` if a user is in more than one of the three groups."""
    groups = {
      group: set(getattr(self, group).client_ids)
      for group in ('train', 'validation', 'test')
    }
    for one, other in itertools.combinations(groups, 2):
      both = len(groups[one] & groups[other])
      if both:
        raise DataError(
          f'data set {self.name}: {both:,} of the users are both {one} and {other} '
          'users; the groups must be disjoint'
        )


class InMemoryClientText(ClientText):
  """Users whose texts are all in memory: for tests and small data of one's own."""

  def __init__(
    self, texts_by_client: Mapping[str, Iterable[str]], *, keep_blank: bool = False
  ):
    """Normalises the texts.

    Args:
      texts_by_client: The texts of each user.
      keep_blank: Whether those stay in which nothing remains.
    """
    self._texts = {
      client_id: [text for text in map(normalize, texts) if text or keep_blank]
      for client_id, texts in texts_by_client.items()
    }

  @property
  def client_ids(self) -> Sequence[str]:
    """The users in the order in which they were given."""
    return list(self._texts)

  def read(self, client_id: str) -> list[str]:
    """See the base class."""
    if client_id not in self._texts:
      raise UnknownClientError(len(self._texts))
    return list(self._texts[client_id])

  @functools.cached_property
  def fingerprint(self) -> str:
    """A hash of all users and texts."""
    return short_hash(
      part
      for client_id, texts in self._texts.items()
      for part in (client_id, len(texts), *texts)
    )


class Subset(ClientText):
  """Some of the users of another data set; their texts are read there, when asked for."""

  def __init__(self, whole: ClientText, ids: Sequence[str]):
    """Takes the users to keep, in the order wanted.

    Raises:
      UnknownClientError: If one of `ids` is not in the data set.
    """
    self._whole = whole
    self._ids = list(dict.fromkeys(ids))
    self._members = frozenset(ids)
    unknown = self._members.difference(whole.client_ids)
    if unknown:
      raise UnknownClientError(len(whole.client_ids))

  @property
  def client_ids(self) -> Sequence[str]:
    """The users in the order in which they were given."""
    return self._ids

  def read(self, client_id: str) -> list[str]:
    """See the base class."""
    if client_id not in self._members:
      raise UnknownClientError(len(self._ids))
    return self._whole.read(client_id)

  @functools.cached_property
  def fingerprint(self) -> str:
    """A hash of the whole data set's fingerprint and of the users."""
    return short_hash(['subset', self._whole.fingerprint, *self._ids])


def normalized_texts(texts: Iterable[str]) -> list[str]:
  """Normalises texts and leaves out those in which nothing remains."""
  return [text for text in map(normalize, texts) if text]


def short_hash(parts: Iterable[object]) -> str:
  """Hashes a sequence of values by their printed form, as 16 hex digits.

  The result is the same in every process. Values are told apart by their
  lengths, so that `['ab', 'c']` and `['a', 'bc']` differ.
  """
  digest = hashlib.sha256()
  for part in parts:
    data = str(part).encode()
    digest.update(b'%d:' % len(data))
    digest.update(data)
  return digest.hexdigest()[:16]
