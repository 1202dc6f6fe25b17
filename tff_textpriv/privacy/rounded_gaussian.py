"""Gaussian noise on whole numbers: its law, and how nearly it is drawn.

TensorFlow's generators of Gaussian numbers end at 5.7 standard deviations and give
floating-point numbers, whose last digits tell what they were added to. Here noise is a
whole number with the law of a Gaussian number that was rounded. Since
round(x + Gaussian) = x + round(Gaussian) for whole x, what is released follows from the
Gaussian mechanism, and the figure of that is a bound of its own.

The rounded Gaussian of standard deviation s gives j with a probability in proportion to

  exp(-j^2 / (2 s^2 + 1/6))

to a relative error of the order (j / s)^4 / s^4 (Sheppard's correction of the variance).
It is drawn by rejection: the numbers are dealt into strips of 2^b, a strip is drawn by
16 random bits and a number of it by b more, and it is kept with a probability that is
compared with 64 further bits. A kept number's probability is right up to the rounding of
that one comparison, in the tails too.
"""

import dataclasses
import functools
import math
from typing import Protocol

import numpy as np

from tff_textpriv.privacy.errors import PrivacyError

SLOT_BITS = 16
_SLOTS = 1 << SLOT_BITS
# Strips of 1/32 to 1/16 of a standard deviation, of which 97 in 100 numbers are kept.
_STRIPS_PER_STDDEV = 16
# How far the noise reaches, in standard deviations, beyond where a user can move it.
REACH = 12.0
# A user who can move it further is not hidden by it at any epsilon that means something.
LONGEST_SHIFT = 400.0
# Below this the law is not that of a rounded Gaussian to the precision that is claimed.
SMALLEST_STDDEV = 4096.0
# Where nothing is claimed it need not be.
SMALLEST_UNCLAIMED = 1.0
# Above this the longest reach is no longer a whole number in double precision.
_LARGEST_STDDEV = 2.0**44

# Bounds of what the rounding of doubles does, each with a margin. Up to 6 standard
# deviations the exponent is at most 18 + log(slots) and is made of five operations with
# a relative error of 2^-53 each; so is its exponential.
_RELATIVE_ERROR = 2.0**-45
# Further out the 64 bits are too few for a relative error: all that lies there, and
# how wrong it may be, is a matter of delta.
_TAIL_ERROR = 2.0**-72


@dataclasses.dataclass(frozen=True)
class Tables:
  """What a draw looks up.

  Attributes:
    strip_bits: The number b of bits that choose a number within a strip.
    starts: The first number of the strip of each slot, int64 [slots].
    log_keeps: What the logarithm of the probability to be kept has besides
      -j^2 curvature, for each slot, float64 [slots].
    curvature: 1 / (2 variance); 0 where strips have one number each.
    kept: The share of draws that are kept.
  """

  strip_bits: int
  starts: np.ndarray
  log_keeps: np.ndarray
  curvature: float
  kept: float


class Law(Protocol):
  """A law on whole numbers that can be drawn."""

  def tables(self) -> Tables:
    """Returns what a draw looks up."""


@dataclasses.dataclass(frozen=True)
class RoundedGaussian:
  """The law of noise on whole numbers.

  Attributes:
    stddev: The standard deviation s of the Gaussian that is rounded.
    shift: By how much one user can move a number, in standard deviations; 0 where no
      user is promised anything.
  """

  stddev: float
  shift: float

  def __post_init__(self) -> None:
    smallest = SMALLEST_STDDEV if self.shift else SMALLEST_UNCLAIMED
    if not smallest <= self.stddev <= _LARGEST_STDDEV:
      raise PrivacyError(
        f'noise of standard deviation {self.stddev:g} has no law on whole numbers'
      )
    if not 0 <= self.shift <= LONGEST_SHIFT:
      raise PrivacyError(f'noise does not hide a shift of {self.shift:g} deviations')

  @property
  def variance(self) -> float:
    """The variance in the exponent: s^2 + 1/12."""
    return self.stddev**2 + 1 / 12

  @property
  def reach(self) -> float:
    """The largest number that can be drawn, in standard deviations."""
    return REACH + self.shift

  def tables(self) -> Tables:
    """Returns what a draw looks up."""
    return gaussian_tables(self.stddev, self.variance, self.reach)


def added_epsilon(num_draws: int) -> float:
  """Returns what rounding errors may add to epsilon, in the worst case of all draws.

  Each probability is right to a relative error, so that a ratio of two is, twice.
  """
  return 2 * _RELATIVE_ERROR * num_draws


def added_delta(num_draws: int) -> float:
  """Returns what the tails may add to delta: those that are cut off, or coarse."""
  return num_draws * (math.erfc(REACH / math.sqrt(2)) + _TAIL_ERROR)


@functools.lru_cache(maxsize=8)
def gaussian_tables(stddev: float, variance: float, reach: float) -> Tables:
  """Returns the tables of a law in proportion to exp(-j^2 / (2 variance)).

  Args:
    stddev: Its standard deviation.
    variance: That in the exponent.
    reach: The largest number, in standard deviations.
  """
  strip_bits = max(0, math.floor(math.log2(stddev / _STRIPS_PER_STDDEV)))
  width = 1 << strip_bits
  per_side = math.ceil(reach * stddev / width)
  strips = np.arange(-per_side, per_side, dtype=np.int64)
  # The number of a strip that is nearest to 0, and so the likeliest.
  nearest = np.where(strips >= 0, strips * width, (strips + 1) * width - 1)
  log_largest = -(nearest.astype(np.float64) ** 2) / (2 * variance)
  return lay_out(
    strips * width,
    log_largest,
    total=math.sqrt(2 * math.pi) * stddev,
    strip_bits=strip_bits,
    curvature=0.5 / variance,
  )


def lay_out(
  starts: np.ndarray,
  log_largest: np.ndarray,
  *,
  total: float,
  strip_bits: int = 0,
  curvature: float = 0.0,
) -> Tables:
  """Deals slots out: to each strip as many as its largest probability.

  Args:
    starts: The first number of each strip, int64 [strips], in order.
    log_largest: The logarithm of the largest weight in each strip, float64 [strips].
    total: The sum of the weights of all numbers.
    strip_bits: Strips have 2 to this numbers.
    curvature: Numbers j of a strip have weights exp(-j^2 curvature). Where it is 0, strips
      have one number each.
  """

  def slots_of(scale: float) -> np.ndarray:
    return np.maximum(1, np.ceil(scale * np.exp(log_largest))).astype(np.int64)

  low, high = 0.0, float(_SLOTS)
  for _ in range(64):
    middle = (low + high) / 2
    low, high = (middle, high) if slots_of(middle).sum() <= _SLOTS else (low, middle)
  slots = slots_of(low)
  slots[np.argmax(log_largest)] += _SLOTS - slots.sum()
  # The least factor with which no probability to be kept exceeds 1.
  log_scale = (log_largest - np.log(slots)).max()
  own = 0.0 if curvature else log_largest
  return Tables(
    strip_bits,
    np.repeat(starts, slots),
    np.repeat(own - log_scale - np.log(slots), slots),
    curvature,
    total / (math.exp(log_scale) * _SLOTS * (1 << strip_bits)),
  )
