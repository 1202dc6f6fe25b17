"""The embedded corpus: generated users who need no download.

Text is written in an artificial language (see `artificial_language`): users
write its private dialect, the public text is in its public one. The text of a
user is a pure function of (seed, group, number of the user), made when it is
read; any number of users costs no more memory than their ids.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from tff_textpriv.datasets import artificial_language, clients
from tff_textpriv.text import forms

# Part of every fingerprint: raise it whenever the generated text changes.
_VERSION = 3

# Key of each independent stream of random numbers; 0 is the language's own.
_STREAMS = {'train': 1, 'validation': 2, 'test': 3, 'public': 4}
_MIN_SENTENCES, _MAX_SENTENCES = 10, 40
_NUM_PERSONAL_STEMS = 3
_USER_CONCENTRATION = 0.4
_PUBLIC_BLOCK = 128


def build(
  seed: int,
  num_train_users: int = 300,
  num_validation_users: int = 50,
  num_test_users: int = 50,
  num_public_lines: int = 6_000,
) -> clients.FederatedText:
  """Builds the embedded data set; nothing is generated before it is read.

  Growing a group leaves the texts of its first users, and of the other groups,
  as they were.

  Args:
    seed: Decides the language and all texts; a non-negative integer.
    num_train_users: The number of users who train.
    num_validation_users: The number of users for validation.
    num_test_users: The number of users for the final evaluation.
    num_public_lines: The number of lines of public text.

  Returns:
    The data set. Its three groups have different users.
  """
  language = artificial_language.make_language(seed)
  return clients.FederatedText(
    name='embedded',
    train=GeneratedClientText(language, seed, 'train', num_train_users),
    validation=GeneratedClientText(language, seed, 'validation', num_validation_users),
    test=GeneratedClientText(language, seed, 'test', num_test_users),
    public_text=_PublicText(language, seed, num_public_lines),
    form=forms.SENTENCES,
  )


class GeneratedClientText(clients.ClientText):
  """Users of the embedded corpus: 10 to 40 sentences each, on their own topics."""

  def __init__(
    self,
    language: artificial_language.Language,
    seed: int,
    group: str,
    num_users: int,
  ):
    """Describes a group of users without generating anything.

    Args:
      language: The language they write.
      seed: The data set's seed.
      group: `train`, `validation` or `test`.
      num_users: The number of users.
    """
    self._language = language
    self._seed = seed
    self._group = group
    self._num_users = num_users

  @functools.cached_property
  def client_ids(self) -> Sequence[str]:
    """The ids `train_0`, `train_1` and so on."""
    return [f'{self._group}_{number}' for number in range(self._num_users)]

  def read(self, client_id: str) -> list[str]:
    """See the base class."""
    prefix, _, digits = client_id.rpartition('_')
    is_number = digits.isascii() and digits.isdecimal() and str(int(digits)) == digits
    if prefix != self._group or not is_number or int(digits) >= self._num_users:
      raise clients.UnknownClientError(self._num_users)
    rng = np.random.default_rng([self._seed, _STREAMS[self._group], int(digits)])
    num_sentences = int(rng.integers(_MIN_SENTENCES, _MAX_SENTENCES + 1))
    topics = artificial_language.draw_topics(rng, num_sentences, _USER_CONCENTRATION)
    personal = artificial_language.make_stems(rng, _NUM_PERSONAL_STEMS)
    return artificial_language.write_sentences(
      self._language, self._language.private, rng, topics, personal
    )

  @property
  def fingerprint(self) -> str:
    """A hash of what the texts are a function of."""
    return clients.short_hash(
      ['embedded', _VERSION, self._seed, self._group, self._num_users]
    )


class _PublicText(Sequence[str]):
  """Lines in the public dialect, generated a block at a time."""

  def __init__(self, language: artificial_language.Language, seed: int, num_lines: int):
    self._language = language
    self._seed = seed
    self._num_lines = num_lines

  def __len__(self) -> int:
    return self._num_lines

  def __iter__(self) -> Iterator[str]:
    for start in range(0, self._num_lines, _PUBLIC_BLOCK):
      yield from self._block(start // _PUBLIC_BLOCK)[: self._num_lines - start]

  @overload
  def __getitem__(self, index: int) -> str: ...

  @overload
  def __getitem__(self, index: slice) -> list[str]: ...

  def __getitem__(self, index: int | slice) -> str | list[str]:
    numbers = range(self._num_lines)[index]
    if isinstance(numbers, int):
      return self._block(numbers // _PUBLIC_BLOCK)[numbers % _PUBLIC_BLOCK]
    return [self[number] for number in numbers]

  def _block(self, number: int) -> list[str]:
    """Writes the lines of one block, on all topics alike."""
    rng = np.random.default_rng([self._seed, _STREAMS['public'], number])
    topics = np.arange(_PUBLIC_BLOCK)
    return artificial_language.write_sentences(
      self._language,
      self._language.public,
      rng,
      topics % artificial_language.NUM_TOPICS,
    )
