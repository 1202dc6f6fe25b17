"""What tokenizers mean for single users: how long their text gets, and whose words are out.

Both look at users' text: like all evaluation, they are exact and not private. They are
numbers; no user is named, and no text is quoted.
"""

import collections
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tff_textpriv.datasets import clients
from tff_textpriv.text import statistics, subword, tokenizers

# Shorter pieces are parts of many words, and tell nobody's.
LEAST_LETTERS = 4
# Users whose text is searched for pieces, at most.
MOST_USERS = 20_000


class TokensPerWord(NamedTuple):
  """Tokens per word by user; not a number where nobody has written a word.

  Attributes:
    median: Of the user in the middle.
    p90: What nine of ten users have, or less.
  """

  median: float
  p90: float


def tokens_per_word(
  tokenizer: tokenizers.Tokenizer, texts: clients.ClientText, users: Sequence[str]
) -> TokensPerWord:
  """Measures how many tokens a word takes, user by user."""
  by_user = [
    statistics.coverage(tokenizer, texts.read(user)).tokens_per_word for user in users
  ]
  written = [value for value in by_user if not np.isnan(value)]
  if not written:
    return TokensPerWord(np.nan, np.nan)
  return TokensPerWord(float(np.median(written)), float(np.quantile(written, 0.9)))


class Owners(NamedTuple):
  """How many users have written the new pieces of a tokenizer.

  Attributes:
    num_pieces: The new pieces that are letters, `LEAST_LETTERS` or more.
    nobody: Those of them that none of the users has written.
    one_user: Those that exactly one of them has.
    num_users: The users whose text was searched.
  """

  num_pieces: int
  nobody: int
  one_user: int
  num_users: int


def owners(
  pieces: Iterable[str], texts: clients.ClientText, users: Sequence[str]
) -> Owners:
  """Counts the pieces that only one user, or nobody, has written.

  A piece that begins a word must begin a word of the user's; any other must stand in one
  behind its first letter.

  Args:
    pieces: The new pieces of a tokenizer; those with too few letters do not count.
    texts: The users' texts.
    users: Those who trained the model that the tokenizer was learnt from; of very many,
      the first `MOST_USERS`.
  """
  wanted = frozenset(filter(_is_telling, pieces))
  longest = max((len(piece) for piece in wanted), default=0)
  users = users[:MOST_USERS]
  of_word: dict[str, frozenset[str]] = {}
  written: collections.Counter[str] = collections.Counter()
  for user in users:
    words = {word for text in texts.read(user) for word in statistics.split_words(text)}
    for word in words - of_word.keys():
      of_word[word] = wanted & _parts(word, longest)
    written.update(frozenset().union(*(of_word[word] for word in words)))
  alone = sum(count == 1 for count in written.values())
  return Owners(len(wanted), len(wanted) - len(written), alone, len(users))


def _is_telling(piece: str) -> bool:
  letters = piece.removeprefix(subword.WORD_START)
  return len(letters) >= LEAST_LETTERS and letters.isalpha()


def _parts(word: str, longest: int) -> set[str]:
  """Returns what of a word could be a piece; its beginnings have the mark of one."""
  marked = subword.WORD_START + word
  return {
    marked[start:end]
    for start in range(len(marked))
    if start != 1  # The first letter without its mark stands in no running text.
    for end in range(start + LEAST_LETTERS, min(start + longest, len(marked)) + 1)
  }
