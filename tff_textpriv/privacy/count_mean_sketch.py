"""Apple's count-mean sketch: word counts under local differential privacy.

A device reports a word in three steps. It draws one of k hash functions
uniformly, marks the word's hash among m cells, and flips each cell independently
with probability p = 1 / (1 + e^(epsilon / 2)). The number of the hash function and
the m flipped bits are the report. The server adds up, for each hash function, the
bits of each cell: the sketch, a k x m matrix of integers.

Privacy. The number of the hash function says nothing of the word. Given it, the
marked vectors of two words differ in at most two cells, and in each of them the
probabilities of what is reported differ by a factor of at most
(1 - p) / p = e^(epsilon / 2): together at most e^epsilon.

A device without a word to report marks a cell drawn uniformly. Its report is a
mixture of those of m words, so the same factor bounds it against that of any word:
having no word is as well hidden as which word it is. In expectation such a report adds
1/m to every cell, just as a report of another word does, so that it biases no
count; it costs only the variance of one more report.

A user who reports several words spends the sum of their epsilons.

Everything after the sum is post-processing: `SketchParameters.estimate` turns the
sketch into unbiased counts, and `word_estimates` finds those that stand out.
"""

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from tff_textpriv import randomness
from tff_textpriv.settings import Settings, SettingsError, setting

# Words are hashed by polynomials over the field of this size, a prime whose square
# fits into an int64.
_FIELD_SIZE = 2**31 - 1
# A cell is flipped if 32 uniform bits, read as a number, are below a threshold.
_FLIP_STEPS = 2**32


@dataclasses.dataclass(frozen=True)
class SketchParameters:
  """What devices and server must agree on.

  Attributes:
    num_hashes: k, the number of hash functions; rows of the sketch. More of them
      cost a device nothing.
    width: m, the number of cells, a multiple of 8; columns of the sketch, and bits of a
      report.
    epsilon_per_word: The privacy loss of one report.
    words_per_user: The number of reports that each user makes.
    seed: Decides the hash functions, which are public.
  """

  num_hashes: int
  width: int
  epsilon_per_word: float
  words_per_user: int
  stream: randomness.Stream = randomness.Stream.of_seed(0)

  def __post_init__(self) -> None:
    if self.num_hashes < 1 or self.words_per_user < 1:
      raise ValueError(f'{self}: hash functions and words must be at least one')
    if self.width < 8 or self.width % 8:
      raise ValueError(f'{self}: the width must be a multiple of 8')
    if not 0 < self.flip_probability < 0.5:
      raise ValueError(f'{self}: the epsilon is not positive, too small or too large')

  @property
  def epsilon_per_user(self) -> float:
    """The privacy loss of all reports of a user."""
    return self.words_per_user * self.epsilon_per_word

  @property
  def flip_threshold(self) -> int:
    """The number of the 2^32 equally likely draws that flip a cell.

    Rounded up: a cell is never flipped with less than the probability that the
    privacy loss asks for.
    """
    odds = math.exp(-self.epsilon_per_word / 2)
    return math.ceil(_FLIP_STEPS * (odds / (1 + odds)))

  @property
  def flip_probability(self) -> float:
    """The probability with which each cell is flipped, p."""
    return self.flip_threshold / _FLIP_STEPS

  @functools.cached_property
  def hash_coefficients(self) -> np.ndarray:
    """The coefficients of the hash functions, int64 [num_hashes, 3]."""
    rng = self.stream.generator('count-mean sketch')
    return rng.integers(_FIELD_SIZE, size=(self.num_hashes, 3))

  def hashes(self, num_words: int) -> np.ndarray:
    """Hashes the words of a dictionary, known by their indices, with every function.

    Args:
      num_words: The size of the dictionary.

    Returns:
      The cell of each word in each row, int32 [num_hashes, num_words].
    """
    words = np.arange(num_words, dtype=np.int64)
    # Row by row, so that only the result is as large as the result.
    rows = np.empty([self.num_hashes, num_words], np.int32)
    for row, coefficients in zip(rows, self.hash_coefficients, strict=True):
      row[:] = hash_words(coefficients, words, self.width)
    return rows

  def estimate(
    self, bit_sums: np.ndarray, row_counts: np.ndarray, hashes: np.ndarray
  ) -> np.ndarray:
    """Estimates how often each word was reported, without bias.

    A bit b stands for (b - p) / (1 - 2p), whose expectation is the bit before the
    flip. Summed over the cells of a word, one in each row, that gives the word's own
    reports and 1/m of all others.

    Args:
      bit_sums: The sketch, integers [num_hashes, width].
      row_counts: The number of reports in each row, integers [num_hashes].
      hashes: The cells of the words, integers [num_hashes, num_words].

    Returns:
      The estimated counts, float64 [num_words]; those of rare words may be
      negative.
    """
    flip = self.flip_probability
    num_reports = row_counts.sum()
    cells = np.zeros(hashes.shape[1], np.int64)
    for row_sums, row_cells in zip(bit_sums, hashes, strict=True):
      cells += row_sums[row_cells]
    marked = (cells - flip * num_reports) / (1 - 2 * flip)
    return (marked - num_reports / self.width) * self.width / (self.width - 1)

  def variance(
    self, num_reports: float, count: float, squared_other_counts: float
  ) -> float:
    """The variance of the estimated count of a word.

    It is over the flips, the choice of rows and the choice of hash functions. Each
    report adds p (1 - p) / (1 - 2p)^2 for its flips, whatever its word. Another word,
    reported f times, hits a cell of this one with probability 1/m in each row; with
    N ~ Binomial(f, 1/k) reports in that row, the k rows add (1/m) (1 - 1/m) k E[N^2],
    and k E[N^2] = f (1 - 1/k) + f^2 / k. A report without a word counts as another
    word with f = 1.

    Args:
      num_reports: All reports, also those without a word.
      count: The reports of this word.
      squared_other_counts: The sum of f^2 over all other words.

    Returns:
      The variance, in squared counts.
    """
    k, m, flip = self.num_hashes, self.width, self.flip_probability
    flips = num_reports * flip * (1 - flip) / (1 - 2 * flip) ** 2
    rows = (num_reports - count) * (1 - 1 / k) + squared_other_counts / k
    return (m / (m - 1)) ** 2 * (flips + rows / m * (1 - 1 / m))


def hash_words(coefficients: Any, words: Any, width: int) -> Any:
  """Hashes words with polynomials of degree two over a prime field.

  For random coefficients the hashes of any three words are independent, which is
  what the variance of an estimated count takes for granted. NumPy arrays and int64
  tensors will do alike.

  Args:
    coefficients: int64 [3] or [..., 3], one polynomial for all words or for each.
    words: Indices of words, int64 [...], below 2^31 - 1.
    width: The number of cells.

  Returns:
    Cells below `width`, int64 [...].
  """
  value = coefficients[..., 0] * words + coefficients[..., 1]
  value = value % _FIELD_SIZE * words + coefficients[..., 2]
  return value % _FIELD_SIZE % width


@dataclasses.dataclass(frozen=True)
class HeavyHittersSettings(Settings):
  """How users' frequent words are found under local differential privacy.

  The defaults of k and m: with epsilon 8/3 a word, flips add 0.49 n to the variance of
  a count among n reports. Collisions add n/m, which 1,024 cells make negligible, and
  the sum of squared counts over k m: for words as frequent as in English about
  0.02 n^2 / (k m), less than the flips up to three million reports, one million users.
  """

  heavy_hitters_epsilon: float = setting(
    8.0,
    'Local privacy loss of a user in finding frequent words, in all.',
    low=0.01,
    high=1000,
  )
  heavy_hitters_words_per_user: int = setting(
    3, 'Words that each user reports; they share the epsilon.', low=1, high=1000
  )
  heavy_hitters_hashes: int = setting(
    128, 'Hash functions of the count-mean sketch.', low=1, high=65536
  )
  heavy_hitters_width: int = setting(
    1024,
    'Cells of the count-mean sketch, a multiple of 8: bits of a report.',
    low=8,
    high=8192,
  )
  heavy_hitters_error: float = setting(
    0.05,
    'Probability that any word which nobody writes is taken for a frequent one; the '
    'larger the dictionary, the higher the threshold.',
    above=0,
    below=1,
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.heavy_hitters_width % 8:
      raise SettingsError(
        'heavy_hitters_width', self.heavy_hitters_width, 'must be a multiple of 8'
      )

  def sketch(self, stream: randomness.Stream) -> SketchParameters:
    """Makes the parameters of the sketch; the stream decides its hash functions."""
    return SketchParameters(
      num_hashes=self.heavy_hitters_hashes,
      width=self.heavy_hitters_width,
      epsilon_per_word=self.heavy_hitters_epsilon / self.heavy_hitters_words_per_user,
      words_per_user=self.heavy_hitters_words_per_user,
      stream=stream,
    )
