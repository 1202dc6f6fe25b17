"""Whole numbers that are added up modulo a power of two, as secure aggregation does.

A client turns its clipped update by a random rotation, which spreads it evenly over all
coordinates, scales it so that the clip norm is `clip`, and rounds each number up or down
at random. The rounded vector is a little longer than the update; how much longer it may
be is checked on the device, so that no user moves a sum by more. Sums are kept modulo
2^bits. Where a sum leaves that range it comes back on the other side: that spoils the
round, but tells nobody more, since it is a function of the sum with its noise.
"""

import dataclasses
import functools
import math

from scipy import optimize

from tff_textpriv.privacy.errors import PrivacyError

# The types of whole numbers that there are.
BITS = (16, 32)
# The chance that rounding makes an update longer than is allowed, so that its numbers are
# rounded towards zero instead.
_TOO_LONG = 1e-6
# The chance that any number of a round's sum leaves the range.
OVERFLOW = 1e-6
# What single precision may add to the length of an update, with a margin.
_FLOAT_ERROR = 2.0**-12
# A clip norm that is no more than one whole number says nothing.
_SMALLEST_CLIP = 1.0
# Up to here single precision knows whole numbers, and double precision their squares.
_LARGEST_CLIP = 2.0**24


@dataclasses.dataclass(frozen=True)
class SumCode:
  """How updates become whole numbers.

  Attributes:
    num_coordinates: The size of an update, at most.
    bits: Sums are kept modulo 2^bits.
    clip: The clip norm, in whole numbers, before rounding.
  """

  num_coordinates: int
  bits: int
  clip: float

  @property
  def dimension(self) -> int:
    """How many numbers a client sends: rotations need a power of two."""
    return padded(self.num_coordinates)

  @property
  def inner_clip(self) -> float:
    """To what updates are scaled, so that single precision makes none too long."""
    return self.clip * (1 - _FLOAT_ERROR)

  @property
  def largest_square(self) -> int:
    """The largest squared length that a rounded update may have.

    Rounding x at random gives a squared length of |x|^2 + d / 4 at most on average, and
    with chance 1 - b at most

      |x|^2 + d / 4 + sqrt(2 log(1 / b)) (|x| + sqrt(d) / 2)

    (Kairouz, Liu, Steinke, 2021, Proposition 22). Nothing rests on that chance: longer
    ones are not sent.
    """
    half_root = math.sqrt(self.dimension) / 2
    spread = math.sqrt(2 * math.log(1 / _TOO_LONG)) * (self.clip + half_root)
    return math.floor(self.clip**2 + self.dimension / 4 + spread)

  @property
  def l2(self) -> float:
    """How far a client moves a sum, as a length."""
    return math.sqrt(self.largest_square)

  @property
  def l1(self) -> float:
    """The same, as a sum of absolute values; of whole numbers, no more than of squares."""
    return min(math.sqrt(self.dimension) * self.l2, float(self.largest_square))

  @property
  def loss(self) -> float:
    """How much more noise rounding needs, as a share."""
    return self.l2 / self.inner_clip - 1


def padded(num_coordinates: int) -> int:
  """Returns the power of two that is no less."""
  return 1 << max(0, num_coordinates - 1).bit_length()


def fitting(
  num_coordinates: int,
  bits: int,
  cohort: int,
  noise: float,
  largest_clip: float = math.inf,
) -> SumCode:
  """Returns the finest code with which sums hardly ever leave their range.

  Args:
    num_coordinates: The size of an update.
    bits: Sums are kept modulo 2^bits.
    cohort: Clients of a sum.
    noise: The standard deviation of the noise of all of them, in clip norms.
    largest_clip: The largest clip norm, in whole numbers, that is of use.

  Raises:
    PrivacyError: So few bits hold no such sum.
  """
  dimension = padded(num_coordinates)

  def excess(log_clip: float) -> float:
    chance = _log_overflow(math.exp(log_clip), bits, cohort, noise, dimension)
    return chance - math.log(OVERFLOW)

  largest_clip = max(_SMALLEST_CLIP, min(_LARGEST_CLIP, largest_clip))
  low, high = math.log(_SMALLEST_CLIP), math.log(largest_clip)
  if excess(low) > 0:
    raise PrivacyError(
      f'--modular_bits={bits} cannot hold the sum of {cohort:,} updates of '
      f'{num_coordinates:,} numbers with noise of {noise:.3g} clip norms; use more bits'
    )
  if excess(high) <= 0:
    return SumCode(num_coordinates, bits, largest_clip)
  # A trifle less than where the search ended, which may be beyond.
  root = optimize.brentq(excess, low, high, xtol=1e-9) - 1e-8
  return SumCode(num_coordinates, bits, math.exp(root))


@functools.lru_cache(maxsize=4096)
def _log_overflow(
  clip: float, bits: int, cohort: int, noise: float, dimension: int
) -> float:
  """Bounds the logarithm of the chance that some number of a sum leaves its range.

  A number of the rotated sum of vectors is at most n clip long and has random signs: it
  is sub-Gaussian with (n clip)^2 / d. Rounding adds n numbers in an interval of length 1.
  Noise has log E e^(l Z) <= v (cosh l - 1), with equality for Skellam. So by Chernoff,
  for every l,

    P(|sum| >= T) <= 2 exp( l^2 ((n clip)^2 / d + n / 4) / 2 + v (cosh l - 1) - l T ).
  """
  most = 2.0 ** (bits - 1) - 1
  spread = (cohort * clip) ** 2 / dimension + cohort / 4
  variance = (noise * clip) ** 2

  def exponent(log_rate: float) -> float:
    rate = math.exp(log_rate)
    # cosh l - 1 = 2 sinh(l / 2)^2, without cancellation.
    return rate**2 * spread / 2 + 2 * variance * math.sinh(rate / 2) ** 2 - rate * most

  # The best rate is at most that of a Gaussian, T / (spread + variance).
  best = math.log(min(most / (spread + variance), 20.0))
  found = optimize.minimize_scalar(exponent, bounds=(best - 12, best), method='bounded')
  return math.log(2 * dimension) + min(float(found.fun), exponent(best))
