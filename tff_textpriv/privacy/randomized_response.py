"""One randomized bit for a number: its law, its estimate, and what bits add up to.

A number v in [-q, q] becomes the bit 1 with probability (v + q) / 2q, and the bit is
then kept with probability p = e^eps / (1 + e^eps) and flipped otherwise. Seen as one
step, the bit is 1 with probability (1 - p) + (2p - 1) (v + q) / 2q, which lies between
1 - p and p whatever v is: that is epsilon-local differential privacy of the bit.

The unbiased estimate of v from a bit b is 2q (b - (1 - p)) / (2p - 1) - q, and that is
simply +q / (2p - 1) for a 1 and -q / (2p - 1) for a 0.
"""

import dataclasses
import functools
import math

import numpy as np
from scipy import signal, stats

from tff_textpriv.privacy.errors import PrivacyError

# Bits are decided by a uniform integer below this.
NUM_DRAWS = 2**32
MIN_EPSILON = 1e-6
# The share of delta that composition may give away by leaving out the far tail.
_TAIL_SHARE = 1e-9


@dataclasses.dataclass(frozen=True)
class BitResponse:
  """The response of one bit, with its probabilities on a grid of 1 / `NUM_DRAWS`.

  A device draws one of `NUM_DRAWS` integers and sends 1 if it is below a threshold.
  The thresholds reach from `flip_draws` to `NUM_DRAWS - flip_draws`. Rounding goes to
  the safe side, so that the ratio of the two is at most e^epsilon exactly, and not
  only up to the rounding of floating-point numbers.

  Attributes:
    epsilon: Local epsilon of the bit.
  """

  epsilon: float

  def __post_init__(self) -> None:
    if not MIN_EPSILON <= self.epsilon < math.inf:
      raise PrivacyError(
        f'epsilon {self.epsilon} of a bit is not a number >= {MIN_EPSILON:g}'
      )

  @property
  def flip_draws(self) -> int:
    """The draws, out of `NUM_DRAWS`, that give the less likely bit."""
    # 1 / (1 + e^eps), written so that it does not overflow.
    odds = math.exp(-self.epsilon)
    return max(1, math.ceil(NUM_DRAWS * odds / (1 + odds)))

  @property
  def flip_probability(self) -> float:
    """1 - p: the probability that a bit is not the true one."""
    return self.flip_draws / NUM_DRAWS

  @property
  def keep_probability(self) -> float:
    """The probability p that a bit is the true one."""
    return 1 - self.flip_probability

  @property
  def contrast(self) -> float:
    """2p - 1: by how much the mean of a bit moves when v moves from -q to q."""
    return 1 - 2 * self.flip_probability

  def thresholds(self, values: np.ndarray, bound: float) -> np.ndarray:
    """Returns how many draws give a 1.

    Args:
      values: Numbers within [-bound, bound], of any shape.
      bound: The quantization range q.

    Returns:
      Integers of the same shape, int64.
    """
    share = (np.asarray(values, np.float64) + bound) / (2 * bound)
    spread = NUM_DRAWS - 2 * self.flip_draws
    return self.flip_draws + np.rint(spread * share).astype(np.int64)

  def estimate(self, mean_bit: np.ndarray, bound: float) -> np.ndarray:
    """Returns the unbiased estimate of the mean of values from the mean of bits.

    The paper's Equation 5 multiplies by the contrast; it must divide.
    """
    shifted = np.asarray(mean_bit) - self.flip_probability
    return 2 * bound * shifted / self.contrast - bound

  def variance(
    self, value: np.ndarray, bound: float, reported_share: float = 1.0
  ) -> np.ndarray:
    """Returns the variance of the estimate of a value from one client's report.

    It is q^2 / (share (2p - 1)^2) - v^2. Of this, quantization alone makes
    q^2 - v^2, and randomized response q^2 / (2p - 1)^2 - q^2.

    Args:
      value: The true values, within [-bound, bound].
      bound: The quantization range q.
      reported_share: The probability that the client reports the coordinate; its
        report is then divided by that, so that the estimate stays unbiased.
    """
    return (bound / self.contrast) ** 2 / reported_share - np.asarray(value) ** 2


@functools.lru_cache(maxsize=4096)
def composed_epsilon(epsilon: float, num_bits: int, delta: float) -> float:
  """Returns the epsilon of many bits of one user, composed without slack.

  If two inputs would have each bit of one user answered with opposite truths, j
  flips among n bits have the privacy loss eps (n - 2j), and j is binomial. This is the
  worst case, and its privacy loss distribution is known in full: no discretization
  is needed, and the figure is exact for any n (Kairouz, Oh and Viswanath 2015, "The
  Composition Theorem for Differential Privacy"). Bits may be chosen adaptively,
  as they are from round to round.

  Args:
    epsilon: Local epsilon of one bit.
    num_bits: How many bits there are, n.
    delta: The delta of the guarantee; 0 for the pure one, n eps.

  Returns:
    The smallest epsilon at that delta, rounded up by at most 1e-9 of delta.
  """
  if num_bits == 0 or delta == 0:
    return num_bits * epsilon
  flip = math.exp(-epsilon) / (1 + math.exp(-epsilon))
  low = int(stats.binom.ppf(_TAIL_SHARE * delta, num_bits, flip))
  below = stats.binom.cdf(low - 1, num_bits, flip)
  width = 64
  while True:
    flips = np.arange(low, min(low + width, num_bits // 2 + 2))
    masses = stats.binom.pmf(flips, num_bits, flip)
    # Between the losses of j + 1 and of j flips, delta(e) = P(<= j flips) - e^e Q(<= j
    # flips). `scaled` is Q times e^loss of j flips; it leaves out the far tail, which
    # makes the figure larger.
    cumulated = below + np.cumsum(masses)
    scaled = signal.lfilter([1.0], [1.0, -math.exp(-2 * epsilon)], masses)
    (over,) = np.nonzero(cumulated - scaled > delta)
    if over.size or flips[-1] > num_bits // 2:
      break
    width *= 2
  if not over.size:
    return 0.0  # Even the loss 0 costs less than delta.
  last = over[0] - 1
  loss = epsilon * (num_bits - 2 * int(flips[last]))
  found = loss + math.log((cumulated[last] - delta) / scaled[last])
  return min(max(found, 0.0), num_bits * epsilon)
