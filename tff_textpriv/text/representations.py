"""What a classifier reads of a text: ids, a vector of numbers, or both.

A representation turns texts into `Encoded`. Hashing needs no vocabulary and so
nothing of anybody's text; the references are fitted on a corpus.
"""

import abc
import collections
import pathlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tff_textpriv.text import ragged, rolling_hash, word_vectors
from tff_textpriv.text.word_vectors import VectorsError


class Encoded(NamedTuple):
  """Texts as a classifier reads them.

  Attributes:
    ids: The ids of each text.
    dense: Numbers of each text, float32 [texts, width]; width may be 0.
  """

  ids: ragged.RaggedIds
  dense: np.ndarray


class Representation(abc.ABC):
  """Turns texts into numbers.

  Attributes:
    num_ids: Ids are from 0 to `num_ids` - 1; 0 if there are none. A matrix of ids is
      padded with `num_ids`.
    width: The width of the dense numbers.
    is_sequence: Whether the ids are words in their order, rather than a bag.
  """

  num_ids: int = 0
  width: int = 0
  is_sequence: bool = False

  @abc.abstractmethod
  def encode(self, texts: Sequence[str]) -> Encoded:
    """Encodes texts."""


class HashedBag(Representation):
  """Sentence-level hashing: where the text's M-dimensional binary vector is 1."""

  def __init__(self, hasher: rolling_hash.RollingHasher):
    """Uses a hasher, whose buckets are the ids."""
    self._hasher = hasher
    self.num_ids = hasher.buckets

  def encode(self, texts: Sequence[str]) -> Encoded:
    """See the base class."""
    return _only_ids(self._hasher.bucket_ids(texts))


class HashedWords(Representation):
  """Word-level hashing: the buckets of the text's first words, in order."""

  is_sequence = True

  def __init__(self, hasher: rolling_hash.RollingHasher, length: int = 300):
    """Uses a hasher, and keeps so many words of a text."""
    self._hasher = hasher
    self._length = length
    self.num_ids = hasher.buckets

  def encode(self, texts: Sequence[str]) -> Encoded:
    """See the base class."""
    return _only_ids(self._hasher.word_ids(texts, self._length))


class TermFrequency(Representation):
  """Counts of the words of a vocabulary; an id occurs as often as its word."""

  def __init__(self, vocabulary: Sequence[bytes]):
    """Takes the words whose numbers are the ids."""
    self._number = {word: number for number, word in enumerate(vocabulary)}
    self.num_ids = len(vocabulary)

  def encode(self, texts: Sequence[str]) -> Encoded:
    """See the base class; words out of the vocabulary are left out."""
    number = self._number
    return _only_ids(
      ragged.RaggedIds.from_rows(
        np.sort([number[word] for word in _words(text) if word in number])
        for text in texts
      )
    )

  def to_bytes(self) -> bytes:
    """Writes the vocabulary, a word a line."""
    return b''.join(word + b'\n' for word in self._number)


class MeanVectors(Representation):
  """The mean of the vectors of a text's words; zeros if it has none.

  Attributes:
    vectors: The vector, float32 [width], of each word.
  """

  def __init__(self, vectors: Mapping[bytes, np.ndarray], width: int):
    """Takes the vector, float32 [width], of each word."""
    self.vectors = vectors
    self.width = width

  def encode(self, texts: Sequence[str]) -> Encoded:
    """See the base class; words without a vector are left out."""
    dense = np.zeros((len(texts), self.width), np.float32)
    for row, text in zip(dense, texts, strict=True):
      found = [self.vectors[word] for word in _words(text) if word in self.vectors]
      if found:
        row[:] = np.mean(found, axis=0)
    no_ids = ragged.RaggedIds(np.zeros(0, np.int32), np.zeros(len(texts) + 1, np.int64))
    return Encoded(no_ids, dense)

  def to_bytes(self) -> bytes:
    """Writes the vectors so that `read_vectors` reads the same ones."""
    # The shortest decimal of a float32 is read as that number again.
    return b''.join(
      b' '.join([word, *(str(number).encode() for number in vector)]) + b'\n'
      for word, vector in self.vectors.items()
    )


def fit_term_frequency(
  texts: Iterable[str], vocab_size: int | None = None
) -> TermFrequency:
  """Takes the words of a corpus, or the most frequent ones, as the vocabulary."""
  return TermFrequency(_vocabulary(texts, vocab_size))


def fit_word2vec(
  texts: Sequence[str],
  width: int,
  seed: int,
  vocab_size: int | None = None,
  epochs: int = 5,
) -> MeanVectors:
  """Trains word2vec (gensim's, otherwise with its default settings) on a corpus.

  Args:
    texts: The corpus.
    width: The width of the vectors.
    seed: Decides the vectors; one thread trains them, so that it does.
    vocab_size: How many words, the most frequent, have a vector; by default all.
    epochs: How often the corpus is read.

  Raises:
    VectorsError: If gensim is not installed.
  """
  try:
    from gensim.models import word2vec
  except ImportError as error:
    raise VectorsError(
      'word2vec is trained by gensim, which is not installed: pip install gensim'
    ) from error
  model = word2vec.Word2Vec(
    [[word.decode() for word in _words(text)] for text in texts],
    vector_size=width,
    min_count=1,
    max_final_vocab=vocab_size,
    epochs=epochs,
    seed=seed,
    workers=1,
    # Python's own hash of strings differs from process to process.
    hashfxn=lambda word: zlib.crc32(str(word).encode()),
  )
  words = model.wv.index_to_key
  return MeanVectors(
    {word.encode(): model.wv[word].astype(np.float32) for word in words}, width
  )


def most_frequent(
  vectors: MeanVectors, texts: Iterable[str], number: int
) -> MeanVectors:
  """Leaves the vectors of so many words, those that are most frequent in a corpus."""
  kept = set(_vocabulary(texts, number))
  of_word = {word: row for word, row in vectors.vectors.items() if word in kept}
  return MeanVectors(of_word, vectors.width)


def read_vectors(path: str | pathlib.Path) -> MeanVectors:
  """Reads a file of word vectors; see `word_vectors.read`.

  Words are taken as hashing takes them: in small letters, without what is no letter; of
  several that become alike, the first one counts.
  """
  vectors: dict[bytes, np.ndarray] = {}
  width = 0
  for word, vector in word_vectors.read(path):
    width = len(vector)
    cleaned = _words(word)
    if len(cleaned) == 1:
      vectors.setdefault(cleaned[0], vector)
  if not vectors:
    raise VectorsError(f'{path}: there is no vector of a word in it')
  return MeanVectors(vectors, width)


def _vocabulary(texts: Iterable[str], vocab_size: int | None) -> list[bytes]:
  """Returns the words of a corpus, the most frequent first."""
  counts = collections.Counter(word for text in texts for word in _words(text))
  ranked = sorted(counts, key=lambda word: (-counts[word], word))
  return ranked[:vocab_size]


def _words(text: str) -> list[bytes]:
  return rolling_hash.split_words(text)


def _only_ids(ids: ragged.RaggedIds) -> Encoded:
  return Encoded(ids, np.zeros((ids.num_rows, 0), np.float32))
