"""Words as numbers without a vocabulary: the polynomial rolling hash.

The hash of a word s is H = sum over i of s_i P^i mod M (Eq. 6 of the paper, with the
exponent starting at 0, as its own examples have it), where a = 1, ..., z = 26.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tff_textpriv.text import ragged

_LETTERS = bytes(range(ord('a'), ord('z') + 1))
# ASCII characters that `str.split` takes for white space and `bytes.split` does not.
_SEPARATORS = bytes(range(0x1C, 0x20))
_TO_SPACES = bytes.maketrans(_SEPARATORS, b' ' * len(_SEPARATORS))
_DROPPED = bytes(
  code
  for code in range(256)
  if code not in _LETTERS and not bytes([code]).isspace() and code not in _SEPARATORS
)


def split_words(text: str) -> list[bytes]:
  """Splits a text into words of the letters a to z.

  Letters are made small, what is neither a letter nor white space is dropped
  (`don't` becomes `dont`), and the rest is split on white space.
  """
  text = text.lower()
  if not text.isascii():
    # White space of all scripts separates words; all else beyond ASCII is dropped.
    text = ' '.join(text.split())
  return text.encode('ascii', 'ignore').translate(_TO_SPACES, _DROPPED).split()


def hash_word(word: bytes, base: int = 31, buckets: int = 5000) -> int:
  """Hashes one word of the letters a to z.

  Args:
    word: The word; each letter counts as its place in the alphabet.
    base: P of Eq. 6.
    buckets: M of Eq. 6.

  Returns:
    A number from 0 to `buckets` - 1. Python's integers do not overflow, and are kept
    below P * M + 26.
  """
  value = 0
  for letter in reversed(word):
    value = (value * base + letter - 96) % buckets
  return value


class RollingHasher:
  """Hashes the words of texts; each different word is computed once.

  Attributes:
    base: P of Eq. 6, best a prime near the number of letters.
    buckets: M of Eq. 6, the number of different hashes.
  """

  def __init__(self, base: int = 31, buckets: int = 5000):
    """Starts with no words known."""
    self.base = base
    self.buckets = buckets
    self._hash: Callable[[bytes], int] = _WordTable(base, buckets).__getitem__

  def word_ids(
    self, texts: Iterable[str], length: int | None = None
  ) -> ragged.RaggedIds:
    """Returns the hashes of each text's words in their order.

    Args:
      texts: The texts.
      length: How many words of a text to keep; all by default.
    """
    return ragged.RaggedIds.from_rows(
      self._hashes(split_words(text)[:length]) for text in texts
    )

  def bucket_ids(self, texts: Iterable[str]) -> ragged.RaggedIds:
    """Returns the buckets that each text's words fall in, sorted, each once.

    They are where the text's M-dimensional binary vector is 1.
    """
    return ragged.RaggedIds.from_rows(
      np.unique(self._hashes(split_words(text))) for text in texts
    )

  def _hashes(self, words: Sequence[bytes]) -> np.ndarray:
    return np.fromiter(map(self._hash, words), np.int32, len(words))


class _WordTable(dict[bytes, int]):
  """The hashes of all words seen so far; a lookup adds what is missing."""

  def __init__(self, base: int, buckets: int):
    super().__init__()
    self._base = base
    self._buckets = buckets

  def __missing__(self, word: bytes) -> int:
    value = self[word] = hash_word(word, self._base, self._buckets)
    return value


def binary_vectors(
  bucket_ids: ragged.RaggedIds, rows: Sequence[int] | np.ndarray, buckets: int
) -> np.ndarray:
  """Writes sentence-level vectors out: float32 [len(rows), buckets] of 0 and 1."""
  vectors = np.zeros((len(rows), buckets), np.float32)
  for vector, row in zip(vectors, rows, strict=True):
    vector[bucket_ids.row(row)] = 1
  return vectors
