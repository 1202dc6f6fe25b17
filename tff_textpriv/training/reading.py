"""How the tokens of a text become rows of an embedding table, those without a row too.

A token that is not in a vocabulary has the table's last row, that of the unknown word. A
user who knows public vectors can read such a word by the word's own; one who knows pieces
of words can split it into others.
"""

import abc
import collections
import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tff_textpriv.datasets import labelled_batching
from tff_textpriv.text import ragged, tokens, wordpieces


class Read(NamedTuple):
  """Texts as a model reads them.

  Attributes:
    rows: The rows of each text, int32 [tokens].
    vectors: What the rows after the table's stand for, float32 [n, width], if a model
      reads such; one at least.
  """

  rows: list[np.ndarray]
  vectors: np.ndarray | None


class Unknown(NamedTuple):
  """How many of some tokens are unknown.

  Attributes:
    outside: The share of tokens that are not in the vocabulary.
    by_unknown_row: The share of all that is read which is the unknown word's row.
  """

  outside: float
  by_unknown_row: float


class Reading(abc.ABC):
  """Reads texts with one vocabulary.

  Attributes:
    num_rows: The number of rows of its table; the last is the unknown word's.
    lookup: The row of each token by its number, and of padding, int32 [tokens + 1].
    marks: The rows of the marks of a text's start and its end, where it has such.
  """

  def __init__(self, vocabulary: tokens.Vocabulary, index: tokens.TokenIndex):
    """Takes a vocabulary, and what has numbered the tokens of all texts."""
    self.num_rows = vocabulary.num_rows
    self.lookup = vocabulary.lookup(index)
    self.marks = [
      row
      for row, token in enumerate(vocabulary.tokens)
      if token in (tokens.START, tokens.END)
    ]
    self._index = index

  @property
  def unknown(self) -> int:
    """The row of the unknown word."""
    return self.num_rows - 1

  @abc.abstractmethod
  def read(self, texts: Sequence[np.ndarray]) -> Read:
    """Reads texts, each the numbers of its tokens."""

  def shares(self, texts: Sequence[np.ndarray]) -> Unknown:
    """Counts the unknown tokens of texts; zeros if there are no tokens."""
    outside = np.concatenate([self.lookup[text] for text in texts]) == self.unknown
    rows = np.concatenate(self.read(texts).rows)
    if not len(outside):
      return Unknown(0.0, 0.0)
    return Unknown(float(np.mean(outside)), float(np.mean(rows == self.unknown)))

  def examples(
    self, examples: labelled_batching.EncodedExamples, chosen: np.ndarray
  ) -> labelled_batching.EncodedExamples:
    """Returns some examples as a model reads them.

    Args:
      examples: Examples in the numbers of the index.
      chosen: Which of them.
    """
    texts = examples.text_of[chosen]
    read = self.read([examples.ids.row(text) for text in texts])
    num_vectors = 0 if read.vectors is None else len(read.vectors)
    return labelled_batching.EncodedExamples(
      ragged.RaggedIds.from_rows(read.rows),
      self.num_rows + num_vectors,
      np.arange(len(chosen)),
      examples.text_dense[texts],
      examples.dense[chosen],
      examples.labels[chosen],
      read.vectors,
    )


class ByRow(Reading):
  """Reads every token that is not in the vocabulary as the unknown word."""

  def read(self, texts: Sequence[np.ndarray]) -> Read:
    """See the base class."""
    return Read([self.lookup[text] for text in texts], None)


class ByVector(Reading):
  """Reads a token that is not in the vocabulary by its public vector, if it has one."""

  def __init__(
    self,
    vocabulary: tokens.Vocabulary,
    index: tokens.TokenIndex,
    vectors: Mapping[str, np.ndarray],
    width: int,
  ):
    """Takes the public vectors, float32 [width] each; see the base class."""
    super().__init__(vocabulary, index)
    self._vectors = vectors
    self._width = width
    has_vector = np.array([token in vectors for token in index.tokens], bool)
    self._is_replaced = has_vector & (self.lookup[:-1] == self.unknown)

  def read(self, texts: Sequence[np.ndarray]) -> Read:
    """See the base class."""
    replaced = [self._is_replaced[text] for text in texts]
    numbers = np.unique(
      np.concatenate(
        [
          np.zeros(0, np.int32),
          *(text[which] for text, which in zip(texts, replaced, strict=True)),
        ]
      )
    )
    # Its last row is nobody's: no model is asked to read none at all.
    vectors = np.zeros((len(numbers) + 1, self._width), np.float32)
    for place, number in enumerate(numbers):
      vectors[place] = self._vectors[self._index.tokens[number]]
    rows = [
      np.where(
        which, self.num_rows + np.searchsorted(numbers, text), self.lookup[text]
      ).astype(np.int32)
      for text, which in zip(texts, replaced, strict=True)
    ]
    return Read(rows, vectors)


class ByPiece(Reading):
  """Splits words anew of which a piece is not in the vocabulary, into pieces that are."""

  def __init__(
    self, vocabulary: tokens.Vocabulary, index: tokens.TokenIndex, max_tokens: int
  ):
    """Takes how many pieces of a text are read at most, marks included."""
    super().__init__(vocabulary, index)
    self._pieces = wordpieces.WordPieces(vocabulary.tokens, is_cased=True)
    self._max_tokens = max_tokens
    self._split: dict[tuple[int, ...], list[int]] = {}

  def read(self, texts: Sequence[np.ndarray]) -> Read:
    """See the base class."""
    return Read([self._read_one(text) for text in texts], None)

  def _read_one(self, text: np.ndarray) -> np.ndarray:
    rows = self.lookup[text]
    if not np.any(rows == self.unknown):
      return rows
    inside = [
      self._index.tokens[number].startswith(wordpieces.INSIDE) for number in text
    ]
    starts = np.flatnonzero(~np.array(inside))
    words = np.split(text, starts[starts > 0])
    *read, last = (self._read_word(tuple(word.tolist())) for word in words)
    # The mark of the end stays, however many pieces there are before it.
    before = list(itertools.chain.from_iterable(read))
    return np.array([*before[: self._max_tokens - len(last)], *last], np.int32)

  def _read_word(self, word: tuple[int, ...]) -> list[int]:
    """Returns the rows of a word's pieces, or of others that make the same word."""
    if word not in self._split:
      rows = self.lookup[list(word)]
      pieces = [self._index.tokens[number] for number in word]
      if np.any(rows == self.unknown) and pieces != [tokens.UNKNOWN]:
        whole = ''.join(piece.removeprefix(wordpieces.INSIDE) for piece in pieces)
        numbers = map(self._index.number, self._pieces.split_word(whole))
        rows = self.lookup[list(numbers)]
      self._split[word] = rows.tolist()
    return self._split[word]


def with_dropped_words(
  batches: Sequence[labelled_batching.Batch],
  share: float,
  reading: Reading,
  padding: int,
  rng: np.random.Generator,
) -> list[labelled_batching.Batch]:
  """Returns batches in which the unknown word stands for some of the others.

  Args:
    batches: Batches of examples, as a model reads them.
    share: The probability with which a word is replaced; a mark of a text's start or
      end never is.
    reading: What has read them.
    padding: What stands in them where there is no word.
    rng: Decides which words are replaced.
  """
  dropped = []
  for inputs, labels in batches:
    ids = inputs['ids']
    is_word = ~np.isin(ids, [padding, *reading.marks])
    is_dropped = is_word & (rng.random(ids.shape) < share)
    read = collections.OrderedDict(
      inputs, ids=np.where(is_dropped, reading.unknown, ids).astype(np.int32)
    )
    dropped.append((read, labels))
  return dropped
