"""Randomized response of k bits at once: a symbol of 2^k, kept or replaced by any.

Let there be M = 2^k symbols and r = 1 / (e^eps + M - 1). With probability M r a symbol is
replaced by one that is drawn uniformly from all, the true one included; otherwise it is
kept. So it is reported with probability 1 - (M - 1) r, and each other symbol with
probability r, which is a factor e^eps less: epsilon-local differential privacy.

Read as k signs, a uniform symbol has the mean 0 in each of them. So the mean of a
reported sign is 1 - M r times the true one, and the sign over that is unbiased.

Reference: Chen, Kairouz and Ozgur, "Breaking the Communication-Privacy-Accuracy Trilemma"
(2020), where such a response is the last step of SQKR.
"""

import dataclasses
import functools
import math

from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.randomized_response import MIN_EPSILON, NUM_DRAWS

# More bits are never better: their symbols are so many that even epsilon 11 is lost.
MOST_BITS = 16


@dataclasses.dataclass(frozen=True)
class SymbolResponse:
  """The response of k bits, with its probabilities on a grid of 1 / `NUM_DRAWS`.

  Rounding goes to the safe side, as that of `randomized_response.BitResponse`.

  Attributes:
    epsilon: Local epsilon of the symbol.
    num_bits: The number k of bits in it.
  """

  epsilon: float
  num_bits: int

  def __post_init__(self) -> None:
    if not MIN_EPSILON <= self.epsilon < math.inf:
      raise PrivacyError(
        f'epsilon {self.epsilon} of a report is not a number >= {MIN_EPSILON:g}'
      )
    if not 1 <= self.num_bits <= MOST_BITS:
      raise PrivacyError(f'{self.num_bits} bits are not 1 to {MOST_BITS}')
    if self.contrast == 0:
      raise PrivacyError(
        f'epsilon {self.epsilon:g} says nothing in {self.num_bits} bits; report fewer'
      )

  @property
  def num_symbols(self) -> int:
    """M = 2^k."""
    return 1 << self.num_bits

  @property
  def replaced_draws(self) -> int:
    """The draws, out of `NUM_DRAWS`, by which a symbol is replaced: M r of all."""
    odds = math.exp(-self.epsilon)  # Of e^eps: that would overflow.
    share = self.num_symbols * odds / (1 + (self.num_symbols - 1) * odds)
    return min(NUM_DRAWS, max(1, math.ceil(NUM_DRAWS * share)))

  @property
  def contrast(self) -> float:
    """1 - M r: the mean of a reported sign whose truth is +1."""
    return 1 - self.replaced_draws / NUM_DRAWS


@functools.lru_cache(maxsize=256)
def bits_of_least_noise(epsilon: float, most: int) -> int:
  """Returns how many bits a report of an epsilon should have.

  The noise of an estimate that is put together of reports of k coordinates among many has
  a variance that grows with 1 / (k (1 - M r)^2).

  Args:
    epsilon: Local epsilon of the report.
    most: How many coordinates there are to report.
  """
  numbers = range(1, min(most, MOST_BITS) + 1)
  return max(numbers, key=lambda k: k * SymbolResponse(epsilon, k).contrast ** 2)
