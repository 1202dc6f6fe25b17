"""Buffered linear Toeplitz noise: a few buffers that remember all rounds.

The numbers in a column of C are one on the diagonal and then a sum of a few geometric
series, so that the noise of a round follows from as many buffers, however many rounds
there were. Reference: Dvijotham et al., Efficient and Near-Optimal Noise Generation for
Streaming Differential Privacy (2024); McMahan et al., A Hassle-free Algorithm for Strong
Differential Privacy in Federated Learning Systems (2024).
"""

import dataclasses
import functools
import math

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.signal

from tff_textpriv.privacy import correlated_noise, participation
from tff_textpriv.privacy.errors import PrivacyError

# The share by which the rounding of buffers may let a user move further.
_ARITHMETIC_SHARE = 2.0**-10


@dataclasses.dataclass(frozen=True)
class BufferedNoise(correlated_noise.Strategy):
  """C has c_0 = 1 and c_i = sum_k scale_k decay_k^(i-1) below the diagonal.

  With buffers h_k that start at zero, the noise of round t is

    w_t = round( z_t - sum_k scale_k h_k ),    h_k <- decay_k h_k + w_t.

  Attributes:
    rounds: The number of rounds that are planned.
    buffers: The number of buffers.
    separation: The rounds between two participations for which it is made.
  """

  denominator = None
  draws_per_round = 1

  rounds: int
  buffers: int
  separation: int

  def __post_init__(self) -> None:
    if self.buffers < 1 or self.rounds < 1 or self.separation < 1:
      raise PrivacyError(f'no noise of rounds can be made by {self}')

  @property
  def num_vectors(self) -> int:
    """See the base class."""
    return self.buffers

  @property
  def summary(self) -> str:
    """See the base class."""
    return f'buffered linear Toeplitz with buffers: {self.buffers}'

  @property
  def reference(self) -> str:
    """See the base class."""
    return (
      'McMahan et al., A Hassle-free Algorithm for Strong Differential Privacy in '
      'Federated Learning Systems (2024); the worst participations by Kalinin and '
      'Lampert, Banded Square Root Matrix Factorization (2024)'
    )

  @property
  def parameters(self) -> tuple[np.ndarray, np.ndarray]:
    """The scales and decays of the buffers, float [buffers] each."""
    return optimal_parameters(self.rounds, self.buffers, self.separation)

  def coefficients(self) -> np.ndarray:
    """Returns the first column of C, float [rounds]."""
    return _coefficients(self.rounds, *self.parameters)

  def squared_sensitivities(self, separation: int) -> tuple[float, ...]:
    """See the base class.

    The numbers of a column are >= 0 and do not grow. Then of all participations those at
    0, b, 2 b, ... move C x most (Kalinin and Lampert, 2024). What rounding of the buffers
    may add is added.
    """
    return _squared_sensitivities(self, separation)

  def noising(self) -> np.ndarray:
    """See the base class: the inverse of C."""
    return _lower_toeplitz(_inverse(self.rounds, *self.parameters))

  def check_arithmetic(self, largest_draw: float, clip: float, size: int) -> None:
    """See the base class.

    Buffers are rounded, so that they are not quite linear in the noise, and what a user
    can move in a round is wrong by up to twice that.
    """
    moved = 2 * self._rounding(largest_draw) * math.sqrt(size * self.rounds)
    if moved > _ARITHMETIC_SHARE * clip:
      raise PrivacyError(
        f'buffers cannot be kept precisely enough for {size:,} weights and '
        f'{self.rounds:,} rounds; use another --ftrl_noise'
      )

  def _rounding(self, largest_draw: float) -> float:
    """Bounds by how much the sum of scaled buffers is wrong.

    A buffer is multiplied in double precision and rounded, which errs by a half and by
    two roundings of its size, at most what draws can make of it; what is wrong with it
    decays like all else.
    """
    scales, decays = self.parameters
    inverse = _inverse(self.rounds, scales, decays)
    error = 0.0
    for scale, decay in zip(scales, decays, strict=True):
      response = scipy.signal.lfilter([1.0], [1.0, -decay], inverse)
      # Twice as much as it can be, for the roundings that went before.
      largest = 2 * largest_draw * np.abs(response).sum()
      step = 0.5 + 2.0**-52 * largest
      error += scale * step * min(self.rounds, 1 / (1 - decay)) + step
    return float(error)


def _coefficients(rounds: int, scales: np.ndarray, decays: np.ndarray) -> np.ndarray:
  powers = decays ** np.arange(rounds - 1)[:, None]
  return np.concatenate([[1.0], powers @ scales])


def _inverse(rounds: int, scales: np.ndarray, decays: np.ndarray) -> np.ndarray:
  """Returns the first column of the inverse of C: the series of Q(x) / P(x).

  With Q(x) = prod_k (1 - decay_k x), c(x) = 1 + sum_k scale_k x / (1 - decay_k x) = P / Q.
  """
  bottom = np.array([1.0])
  for decay in decays:
    bottom = np.convolve(bottom, [1.0, -decay])
  top = bottom.copy()
  for scale, decay in zip(scales, decays, strict=True):
    others = scipy.signal.deconvolve(bottom, [1.0, -decay])[0]
    top[1:] += scale * others
  return scipy.signal.lfilter(bottom, top, np.eye(1, rounds)[0])


def _squares(coefficients: np.ndarray, separation: int) -> np.ndarray:
  """Returns the squared norms of one column, of that and the one after b rounds, ..."""
  rounds = len(coefficients)
  most = participation.most_participations(rounds, separation)
  total, squares = np.zeros(rounds), []
  for start in range(0, most * separation, separation):
    total[start:] += coefficients[: rounds - start]
    squares.append(np.sum(total**2))
  return np.array(squares)


@functools.lru_cache(maxsize=64)
def _squared_sensitivities(
  strategy: BufferedNoise, separation: int
) -> tuple[float, ...]:
  squares = _squares(strategy.coefficients(), separation)
  return tuple(map(float, squares * (1 + _ARITHMETIC_SHARE) ** 2))


def _lower_toeplitz(column: np.ndarray) -> np.ndarray:
  return scipy.linalg.toeplitz(column, np.zeros_like(column))


@functools.lru_cache(maxsize=64)
def optimal_parameters(
  rounds: int, buffers: int, separation: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns scales and decays that make sums over rounds least noisy, for their privacy.

  What is minimized is sensitivity^2 sum_t (rounds - t) s_t^2, where s are the partial sums
  of the inverse's column: the mean square noise on sums.

  Args:
    rounds: The number of rounds.
    buffers: The number of buffers.
    separation: The least number of rounds from one participation to the next.
  """
  left = rounds - np.arange(rounds)

  def loss(parameters: np.ndarray) -> float:
    scales, gaps = np.exp(parameters).reshape(2, buffers)
    square = _squares(_coefficients(rounds, scales, 1 - gaps), separation)[-1]
    sums = np.cumsum(_inverse(rounds, scales, 1 - gaps))
    return float(np.log(square) + np.log(np.sum(left * sums**2)))

  # Columns must not grow: c_1, the sum of all scales, is at most one.
  bounds = [(np.log(1e-9), np.log(1 / buffers))] * buffers
  bounds += [(-np.log(10 * rounds), np.log(0.999))] * buffers
  found = [
    scipy.optimize.minimize(
      loss,
      np.clip(_start(rounds, buffers, longest), *np.transpose(bounds)),
      method='L-BFGS-B',
      bounds=bounds,
    )
    for longest in (rounds, separation)
  ]
  scales, gaps = np.exp(min(found, key=lambda one: one.fun).x).reshape(2, buffers)
  return scales, 1 - gaps


def _start(rounds: int, buffers: int, longest: int) -> np.ndarray:
  """Returns where to search from: as near as may be to the square root of 1 / (1 - x).

  Args:
    rounds: The number of rounds.
    buffers: The number of buffers.
    longest: How many rounds the slowest buffer remembers.

  Returns:
    The logarithms of scales and of one minus decays.
  """
  gaps = np.geomspace(0.6, 1 / max(longest, 2), buffers)
  root = np.cumprod(1 - 0.5 / np.arange(1, rounds + 1))
  powers = (1 - gaps) ** np.arange(rounds)[:, None]
  scales = np.maximum(scipy.optimize.nnls(powers, root)[0], 1e-3)
  return np.log(np.concatenate([scales, gaps]))
