"""Noise that clients add to whole numbers, of which only the sum is ever seen.

Two laws are offered, both on whole numbers:

  Skellam             P(j) = e^-v I_|j|(v)            sums of them are Skellam again
  discrete Gaussian   P(j) in proportion to e^(-j^2 / 2v)    sums are nearly so again

with I the modified Bessel function of the first kind and v the variance (of a discrete
Gaussian it is a little less, where it is below 1). What the sum of
n of them costs is known as Renyi divergences (`lines`). Draws are those of
`rounded_gaussian`: numbers are dealt into strips and kept by rejection.
"""

import dataclasses
import functools
import math

import numpy as np

from tff_textpriv.privacy import rounded_gaussian
from tff_textpriv.privacy.errors import PrivacyError

SKELLAM, DISCRETE_GAUSSIAN = 'skellam', 'discrete_gaussian'
LAWS = (DISCRETE_GAUSSIAN, SKELLAM)
# Numbers less likely than e to this, over the likeliest, are never drawn.
_LEAST_LOG = -80.0
# The numbers of a Skellam law are looked up one by one, and must not be too many.
LARGEST_STDDEV = {DISCRETE_GAUSSIAN: math.inf, SKELLAM: 256.0}
# From here on, a discrete Gaussian is dealt into strips of several numbers.
_SMALLEST_IN_STRIPS = 64.0
# What is wrong with the tails of one draw, all together: each of up to 2^13 numbers far
# out has a probability that is a multiple of 2^-79.
_TAIL_ERROR = 2.0**-66
# Below this variance nothing but zero would be drawn.
_LEAST_VARIANCE = 1e-6


@dataclasses.dataclass(frozen=True)
class DeviceNoise:
  """The law of what one client adds to each number.

  Attributes:
    name: One of `LAWS`.
    variance: Its variance v, in whole numbers.
  """

  name: str
  variance: float

  def __post_init__(self) -> None:
    if self.name not in LAWS or not _LEAST_VARIANCE <= self.variance < math.inf:
      raise PrivacyError(f'there is no {self.name} noise of variance {self.variance:g}')
    if self.stddev > LARGEST_STDDEV[self.name] * (1 + 1e-9):
      raise PrivacyError(
        f'{self.name} noise of standard deviation {self.stddev:,.0f} is too much for one '
        'device'
      )

  @property
  def stddev(self) -> float:
    """Its standard deviation."""
    return math.sqrt(self.variance)

  def tables(self) -> rounded_gaussian.Tables:
    """Returns what a draw looks up."""
    return _tables(self.name, self.variance)


@dataclasses.dataclass(frozen=True)
class Line:
  """A bound slope * order + constant of Renyi divergences, at all whole orders >= 2."""

  slope: float
  constant: float = 0.0


def lines(
  name: str, variance: float, clients: int, l1: float, l2: float, dimension: int
) -> tuple[Line, ...]:
  """Bounds what a sum with the noise of some clients tells of one of them.

  Args:
    name: The law.
    variance: That of one client's noise.
    clients: How many clients' noise is in the sum.
    l1: How far a client moves the sum, as a sum of absolute values; whole numbers.
    l2: The same, as a length.
    dimension: How many numbers there are.

  Returns:
    Bounds that all hold. Skellam: Agarwal, Kairouz, Liu, The Skellam Mechanism for
    Differentially Private Federated Learning (2021), Corollary 4.1. Discrete Gaussian:
    Kairouz, Liu, Steinke, The Distributed Discrete Gaussian Mechanism (2021),
    Proposition 14.
  """
  total = clients * variance
  if name == SKELLAM:
    # a l2^2 / 2v + min( ((2a - 1) l2^2 + 6 l1) / 4v^2, 3 l1 / 2v )
    slope = l2**2 / (2 * total)
    return (
      Line(slope + l2**2 / (2 * total**2), (6 * l1 - l2**2) / (4 * total**2)),
      Line(slope, 3 * l1 / (2 * total)),
    )
  tau = _distance_from_gaussian(variance, clients)
  moved, moved_l1 = l2 / math.sqrt(total), l1 / math.sqrt(total)
  return (
    Line(moved**2 / 2, tau * dimension),
    Line((moved**2 + 2 * moved_l1 * tau + tau**2 * dimension) / 2),
    Line((moved + math.sqrt(dimension) * tau) ** 2 / 2),
  )


def added_delta(num_draws: int) -> float:
  """Returns what the tails of so many draws may add to delta."""
  return rounded_gaussian.added_delta(num_draws) + num_draws * _TAIL_ERROR


def _distance_from_gaussian(variance: float, clients: int) -> float:
  """Returns tau: how far a sum of discrete Gaussians is from being one.

  tau = 10 sum_{k=1}^{n-1} e^(-2 pi^2 v k / (k + 1))
  """
  steps = np.arange(1, clients, dtype=np.float64)
  exponents = -2 * math.pi**2 * variance * steps / (steps + 1)
  return 10 * float(np.sum(np.exp(exponents)))


@functools.lru_cache(maxsize=8)
def _tables(name: str, variance: float) -> rounded_gaussian.Tables:
  stddev = math.sqrt(variance)
  if stddev >= _SMALLEST_IN_STRIPS and name == DISCRETE_GAUSSIAN:
    return rounded_gaussian.gaussian_tables(stddev, variance, rounded_gaussian.REACH)
  logs = _log_skellam(variance) if name == SKELLAM else _log_gaussian(variance)
  both_sides = np.concatenate([logs[:0:-1], logs])
  numbers = np.arange(1 - len(logs), len(logs), dtype=np.int64)
  return rounded_gaussian.lay_out(
    numbers, both_sides, total=float(np.exp(both_sides).sum())
  )


def _log_gaussian(variance: float) -> np.ndarray:
  """Returns -j^2 / 2v for j = 0, 1, ... as far as that is not too little."""
  last = math.ceil(math.sqrt(-2 * _LEAST_LOG * variance))
  return -(np.arange(last + 1, dtype=np.float64) ** 2) / (2 * variance)


def _log_skellam(variance: float) -> np.ndarray:
  """Returns log P(j) less log P(0) for j = 0, 1, ... as far as that is not too little.

  From the ratios r_j = I_j / I_{j-1} = 1 / (2j / v + r_{j+1}), whose recurrence is stable
  downwards: an error shrinks with every step. In extended precision, so that a sum of
  many logarithms is still right to double precision.
  """
  # Tails are at most those of a Gaussian and an exponential together.
  last = math.ceil(math.sqrt(-2 * _LEAST_LOG * variance) - 2 * _LEAST_LOG)
  ratio, logs = np.longdouble(0), np.zeros(last + 1, np.longdouble)
  for j in range(2 * last, 0, -1):
    ratio = 1 / (np.longdouble(2 * j) / np.longdouble(variance) + ratio)
    if j <= last:
      logs[j] = np.log(ratio)
  logs = np.cumsum(logs)
  return logs[logs >= _LEAST_LOG].astype(np.float64)
