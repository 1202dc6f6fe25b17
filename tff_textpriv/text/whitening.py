"""Word vectors of which common words count less, centred and whitened.

The words are taken to be in the order of how frequent they are, as files of vectors have
them, and to follow Zipf's law: word number r is a share p ~ 1 / r of any text. A word counts
a / (a + p). Then the vectors are centred and whitened, so that the mean of a text is 0 on
average and its coordinates have no correlation: those of public documents, or else those of
a text of one word by Zipf's law. A few noisy steps of equal length learn from all directions
then, and not from the longest ones alone. Texts are brought to one length, so that a clipped
step says as much of each. Nothing of anybody's text is looked at.

Reference: Arora, Liang and Ma, A Simple but Tough-to-Beat Baseline for Sentence Embeddings
(2017), whose weights these are, and whose principal component of the texts, which would have
to be computed from them, the subtracted mean stands for.
"""

import dataclasses
import json
import math
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np

from tff_textpriv.text import representations, rolling_hash
from tff_textpriv.text.word_vectors import VectorsError

# The share of a text from which on a word counts less than half: a of SIF.
_COMMON_SHARE = 1e-2
# Documents with fewer words say little of how texts differ.
_LEAST_WORDS = 40
# Of the direction in which texts differ most; less is what rounding leaves.
_LEAST_VARIANCE = 1e-6


@dataclasses.dataclass(frozen=True)
class Whitening:
  """What is done to the vectors of a file.

  Attributes:
    centre: What is subtracted from each, float64 [width].
    axes: What they are multiplied by then, float64 [width, width].
  """

  centre: np.ndarray
  axes: np.ndarray

  def to_bytes(self) -> bytes:
    """Writes what `read` reads, to the last bit."""
    content = {'centre': self.centre.tolist(), 'axes': self.axes.tolist()}
    return json.dumps(content).encode() + b'\n'


class WhitenedVectors(representations.MeanVectors):
  """The mean of whitened vectors of a text's words, brought to the length sqrt(width).

  That is the length of as many standardized numbers.

  Attributes:
    whitening: How the vectors were made of those of a file.
    Others: see the base class.
  """

  def __init__(self, vectors: representations.MeanVectors, whitening: Whitening):
    """Weighs, centres and whitens the vectors of a file."""
    table = (_weighed(vectors)[0] - whitening.centre) @ whitening.axes
    super().__init__(_by_word(vectors, table), vectors.width)
    self.whitening = whitening

  def encode(self, texts: Sequence[str]) -> representations.Encoded:
    """See the base class; texts without a known word stay zeros."""
    ids, means = super().encode(texts)
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    scales = math.sqrt(self.width) / np.where(lengths > 0, lengths, np.inf)
    return representations.Encoded(ids, (means * scales).astype(np.float32))


def read(path: str | pathlib.Path) -> Whitening:
  """Reads what `Whitening.to_bytes` wrote.

  Raises:
    VectorsError: If it is something else.
  """
  try:
    content = json.loads(pathlib.Path(path).read_bytes())
    made = Whitening(*(np.array(content[name], float) for name in ('centre', 'axes')))
  except (OSError, ValueError, KeyError, TypeError) as error:
    raise VectorsError(f'{path}: is not how vectors are whitened ({error})') from None
  if made.axes.shape != 2 * made.centre.shape or made.centre.ndim != 1:
    raise VectorsError(f'{path}: is not how vectors are whitened (shapes)')
  return made


def by_frequency(vectors: representations.MeanVectors) -> Whitening:
  """Whitens by words that are drawn by Zipf's law."""
  return _fit(*_weighed(vectors))


def by_documents(
  vectors: representations.MeanVectors, documents: Iterable[str]
) -> Whitening:
  """Whitens by public text, whose words come together by topics, as users' do.

  Raises:
    VectorsError: If there are not enough documents to tell directions apart.
  """
  texts = [
    text for text in documents if len(rolling_hash.split_words(text)) >= _LEAST_WORDS
  ]
  if len(texts) < 2 * vectors.width:
    raise VectorsError(
      f'{len(texts)} documents of {_LEAST_WORDS} words or more are not enough to whiten '
      f'vectors of {vectors.width} numbers: twice as many documents are needed'
    )
  weighed = representations.MeanVectors(
    _by_word(vectors, _weighed(vectors)[0]), vectors.width
  )
  means = weighed.encode(texts).dense.astype(np.float64)
  return _fit(means, np.full(len(means), 1 / len(means)))


def _weighed(vectors: representations.MeanVectors) -> tuple[np.ndarray, np.ndarray]:
  """Returns the vectors [words, width] times a / (a + p), and the shares p [words]."""
  table = np.array(list(vectors.vectors.values()), np.float64)
  shares = 1 / np.arange(1, len(table) + 1)
  shares /= shares.sum()
  return table * (_COMMON_SHARE / (_COMMON_SHARE + shares))[:, np.newaxis], shares


def _by_word(
  vectors: representations.MeanVectors, table: np.ndarray
) -> dict[bytes, np.ndarray]:
  return dict(zip(vectors.vectors, table.astype(np.float32), strict=True))


def _fit(means: np.ndarray, shares: np.ndarray) -> Whitening:
  """Whitens texts by their means [texts, width], of which each has a share [texts]."""
  centre = shares @ means
  means = means - centre
  variances, axes = np.linalg.eigh((shares * means.T) @ means)
  # Directions in which nothing differs stay nothing.
  is_there = variances > _LEAST_VARIANCE * variances[-1]
  axes = axes[:, is_there]
  return Whitening(centre, (axes / np.sqrt(variances[is_there])) @ axes.T)
