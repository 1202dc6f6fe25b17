"""The law of PrivUnitG: a random vector that leans towards a direction, privately.

A direction u, a unit vector of D numbers, is answered by a standard Gaussian vector x of
which only the component a along u is drawn otherwise: from the Gaussian's own tail above
an edge g with probability p, and from what is below it with probability 1 - p. With f the
density of the standard Gaussian in D dimensions and s the share of the tail,

  density of x given u = f(x) p / s              where <x, u> >= g,
                         f(x) (1 - p) / (1 - s)  elsewhere.

So for all directions u and u' and every x the densities differ by a factor of at most
(p / (1 - p)) ((1 - s) / s). With p = e^c / (1 + e^c) and s = 1 / (1 + e^t) it is e^(c + t):
epsilon-local differential privacy of x at epsilon = c + t and delta 0, and so of all that
is made of x. As a has the mean

  m = phi(g) (p / s - (1 - p) / (1 - s))

and whatever is across u the mean 0, x / m is an unbiased estimate of u, whose noise per
coordinate, 1 / m, does not grow with D. How epsilon is divided into c and t is chosen for
the least variance.

What is sent are whole numbers, coordinates in steps of 2^-11; that too is made of x. The
proof is about real numbers and the code computes in double precision. Let a rounded vector
z stand for a box of sides h = 2^-11, and let what is computed differ from x by at most e =
2^-44 a coordinate. Then z has at least the probability of the box with e cut off at its
sides and at most that of the box with e added, and under f these are at most a factor
(1 + 4.2 e / h) a coordinate apart within 16 standard deviations, where the numbers are cut
off. The weights of the two regions bound the rest as above, wherever the edge lies in the
box. The component along u also has the error of a scalar product, below 13 D^1.5 2^-53, which
moves a Gaussian within 40 standard deviations by a factor of e^(40 of that). Together this is
less than D 2^-29 of epsilon, which `ROUNDING` is and a mechanism has to take off. Gaussian
numbers come from 126 random bits, whose tails end at 13 standard deviations: what is beyond
has a probability below 1e-30, which no delta can show.

Reference: Asi, Feldman and Talwar, "Optimal Algorithms for Mean Estimation under Local
Differential Privacy" (2022).
"""

import dataclasses
import functools
import math

import numpy as np
from scipy import optimize, special

from tff_textpriv.privacy import randomized_response
from tff_textpriv.privacy.errors import PrivacyError

# Steps per standard deviation of the numbers that are sent.
STEPS = 2**11
# Where they are cut off: two bytes each.
LARGEST_STEP = 2**15 - 1
# What rounding adds to epsilon, at most, for each of D numbers.
ROUNDING = 2.0**-29
_MIN_EPSILON = 1e-3


@dataclasses.dataclass(frozen=True)
class CapResponse:
  """The law, of directions of a dimension.

  Attributes:
    coin_epsilon: What the coin that decides for the tail has of epsilon, c.
    tail_epsilon: What the tail's share has of it, t.
  """

  coin_epsilon: float
  tail_epsilon: float

  @property
  def coin(self) -> randomized_response.BitResponse:
    """How likely the component is drawn from the tail: p, as a bit is kept."""
    return randomized_response.BitResponse(self.coin_epsilon)

  @property
  def tail_share(self) -> float:
    """The share s of the Gaussian that is above the edge."""
    return 1 / (1 + math.exp(self.tail_epsilon))

  @property
  def edge(self) -> float:
    """Where the tail begins, g, in standard deviations."""
    return -float(special.ndtri(self.tail_share))

  @property
  def gain(self) -> float:
    """The mean m of the component along the direction."""
    density = math.exp(-(self.edge**2) / 2) / math.sqrt(2 * math.pi)
    p, s = self.coin.keep_probability, self.tail_share
    return density * (p / s - (1 - p) / (1 - s))

  @property
  def mean_square(self) -> float:
    """The mean of the square of that component.

    A Gaussian above an edge g has 1 + g phi(g) / s, one below it 1 - g phi(g) / (1 - s).
    """
    return 1 + self.edge * self.gain

  def log_weight(self, components: np.ndarray) -> np.ndarray:
    """Returns the logarithm of the density over that of a Gaussian.

    Args:
      components: <x, u>, of any shape.
    """
    p, s = self.coin.keep_probability, self.tail_share
    within, without = math.log(p / s), math.log((1 - p) / (1 - s))
    return np.where(np.asarray(components) >= self.edge, within, without)

  def variance(self, coordinate: np.ndarray) -> np.ndarray:
    """Returns the variance of x / m in coordinates of which u has these values."""
    along = self.mean_square - self.gain**2
    rounding = 1 / (12 * STEPS**2)
    square = np.asarray(coordinate) ** 2
    return (1 + (along - 1) * square + rounding) / self.gain**2


@functools.lru_cache(maxsize=64)
def least_noise(epsilon: float, dimension: int) -> CapResponse:
  """Returns the law of an epsilon that has the least variance, summed over coordinates.

  It is (D - 1 + E[a^2]) / m^2; the best division of epsilon into coin and tail is found
  numerically.

  Args:
    epsilon: Local epsilon of a report.
    dimension: D, the numbers that a direction has.

  Raises:
    PrivacyError: Epsilon is too small for it.
  """
  if not _MIN_EPSILON <= epsilon < math.inf:
    raise PrivacyError(
      f'epsilon {epsilon:g} of a report is not a number >= {_MIN_EPSILON:g}'
    )

  def divided(share: float) -> CapResponse:
    return CapResponse((1 - share) * epsilon, share * epsilon)

  def variance(share: float) -> float:
    law = divided(share)
    return (dimension - 1 + law.mean_square) / law.gain**2

  # Each part keeps something: a coin needs an epsilon of its own.
  found = optimize.minimize_scalar(variance, bounds=(0.001, 0.999), method='bounded')
  return divided(float(found.x))
