"""What everybody knows of a language: how frequent tokens are, and which follow which."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

# The share of a pair's probability that comes from the frequency of its second token.
_BACK_OFF = 0.2


@dataclasses.dataclass(frozen=True, repr=False)
class PublicText:
  """Texts that anybody may read, of the kind that is attacked.

  Attributes:
    texts: The rows of their tokens, in a vocabulary.
    num_rows: The size of the vocabulary; its last row is that of all other tokens.
  """

  texts: Sequence[np.ndarray]
  num_rows: int

  @functools.cached_property
  def frequencies(self) -> np.ndarray:
    """The share of each token, none of which is zero; float [rows]."""
    counts = np.bincount(np.concatenate(self.texts), minlength=self.num_rows) + 0.1
    return counts / counts.sum()

  def most_frequent(self, number: int) -> np.ndarray:
    """Returns the most frequent tokens, but for the row of all others."""
    return self._by_frequency[:number]

  @functools.cached_property
  def _by_frequency(self) -> np.ndarray:
    order = np.argsort(-self.frequencies, kind='stable')
    return order[order != self.num_rows - 1]

  def log_following(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Returns how probable tokens are after others: natural logarithms.

    Args:
      before: Rows of the first tokens [...].
      after: Rows of those that follow, of a shape that goes with it.
    """
    keys, counts, totals = self._pairs
    wanted = before * self.num_rows + after
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    number = np.where(keys[places] == wanted, counts[places], 0)
    share = number / np.maximum(totals[before], 1)
    return np.log((1 - _BACK_OFF) * share + _BACK_OFF * self.frequencies[after])

  @functools.cached_property
  def _pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which tokens follow which as sorted numbers, how often, and how often any does."""
    first = np.concatenate([text[:-1] for text in self.texts]).astype(np.int64)
    second = np.concatenate([text[1:] for text in self.texts])
    keys, counts = np.unique(first * self.num_rows + second, return_counts=True)
    return keys, counts, np.bincount(first, minlength=self.num_rows)
