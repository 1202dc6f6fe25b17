"""Texts as sequences of tokens, and vocabularies: everybody's, or a user's own.

Texts are split into tokens once, and each token gets a number (`TokenIndex`). A
vocabulary chooses some of them, and says which row of an embedding table each has; all
others share its last row.
"""

import collections
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tff_textpriv.text import normalize, ragged

UNKNOWN = '[UNK]'
# What an encoder reads before and after a text.
START, END = '[CLS]', '[SEP]'

# Words, numbers, and marks by themselves; a word keeps its apostrophe.
_TOKEN = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+(?:[.,]\d+)*|[^\w\s]|_")
_DIGIT = re.compile(r'\d')

Split = Callable[[str], list[str]]


def split_words(text: str) -> list[str]:
  """Splits a text into words, numbers and marks, in small letters."""
  return _TOKEN.findall(normalize.normalize(text).lower())


def has_digit(token: str) -> bool:
  """Tells whether a token has a digit: the policy of what is private in FedRecon."""
  return _DIGIT.search(token) is not None


class TokenIndex:
  """Numbers the tokens of texts, in the order in which they are met.

  It stands for all devices and the server together, and belongs to the simulation: what
  any of them knows is a `Vocabulary`.

  Attributes:
    tokens: The tokens by their numbers.
  """

  def __init__(self, split: Split):
    """Starts with no token.

    Args:
      split: Splits a text into tokens.
    """
    self.tokens: list[str] = []
    self._split = split
    self._numbers: dict[str, int] = {}

  def __len__(self) -> int:
    return len(self.tokens)

  def encode(self, texts: Iterable[str]) -> ragged.RaggedIds:
    """Returns the numbers of the texts' tokens; new ones are numbered."""
    return ragged.RaggedIds.from_rows(
      [self.number(token) for token in self._split(text)] for text in texts
    )

  def number(self, token: str) -> int:
    """Returns a token's number."""
    number = self._numbers.setdefault(token, len(self.tokens))
    if number == len(self.tokens):
      self.tokens.append(token)
    return number


class Vocabulary:
  """Which row of an embedding table a token has.

  Attributes:
    tokens: The tokens of the rows. The table has one row more, the last: that of all
      other tokens.
  """

  def __init__(self, tokens: Sequence[str]):
    """Takes the tokens, in the order of the rows, without `UNKNOWN`."""
    self.tokens = list(tokens)

  @property
  def num_rows(self) -> int:
    """The number of rows of the table."""
    return len(self.tokens) + 1

  def lookup(self, index: TokenIndex) -> np.ndarray:
    """Returns the row of each token of an index, and of padding.

    Args:
      index: Knows all tokens of the vocabulary.

    Returns:
      int32 [len(index) + 1]; the last entry is padding's, a row that does not exist.
    """
    rows = np.full(len(index) + 1, len(self.tokens), np.int32)
    rows[[index.number(token) for token in self.tokens]] = np.arange(len(self.tokens))
    rows[-1] = self.num_rows
    return rows

  def to_bytes(self) -> bytes:
    """Writes the vocabulary in UTF-8, a token a line; `from_bytes` reads it."""
    return ''.join(f'{token}\n' for token in self.tokens).encode()

  @classmethod
  def from_bytes(cls, content: bytes) -> 'Vocabulary':
    """Reads what `to_bytes` wrote."""
    return cls(content.decode().splitlines())


def most_frequent(
  ids: ragged.RaggedIds,
  texts: np.ndarray,
  index: TokenIndex,
  size: int | None = None,
  beside: Iterable[str] = (),
) -> Vocabulary:
  """Makes a vocabulary of some texts' tokens, the most frequent first.

  Args:
    ids: Encoded texts.
    texts: The numbers of the texts that count.
    index: What encoded them.
    size: How many tokens at most; by default all.
    beside: Tokens that are in the vocabulary anyway, after those of the texts.
  """
  counts: collections.Counter[int] = collections.Counter()
  for text in texts:
    counts.update(ids.row(text).tolist())
  ranked = sorted(counts, key=lambda number: (-counts[number], index.tokens[number]))
  chosen = [index.tokens[number] for number in ranked[:size]]
  return Vocabulary(
    [token for token in dict.fromkeys([*chosen, *beside]) if token != UNKNOWN]
  )
