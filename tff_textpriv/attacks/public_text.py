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

  def pairs(self, rows: np.ndarray) -> np.ndarray:
    """Returns how probable each of some tokens is after each other one.

    Args:
      rows: The tokens [n].

    Returns:
      Natural logarithms [n, n], the first token in the row.
    """
    number = len(rows)
    place = np.full(self.num_rows, number)
    place[rows] = np.arange(number)
    counts = np.zeros((number + 1, number + 1))
    for text in self.texts:
      places = place[text]
      np.add.at(counts, (places[:-1], places[1:]), 1)
    after = counts[:number].sum(axis=1, keepdims=True)
    counts = counts[:number, :number]
    share = np.divide(counts, after, out=np.zeros_like(counts), where=after > 0)
    return np.log((1 - _BACK_OFF) * share + _BACK_OFF * self.frequencies[rows])
