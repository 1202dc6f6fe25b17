"""Banded matrix factorization: noise that remembers the rounds of the last band.

Each column of C has `bands` numbers from the diagonal down, the same for all columns but
for their scale, which makes every column's norm one. If a user's participations are at
least so many rounds apart, no two of the user's columns overlap. Reference:
Choquette-Choo et al., (Amplified) Banded Matrix Factorization (2023).
"""

import dataclasses
import functools

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.signal

from tff_textpriv.privacy import correlated_noise
from tff_textpriv.privacy.errors import PrivacyError

_DENOMINATOR = 2**12


@dataclasses.dataclass(frozen=True)
class BandedNoise(correlated_noise.NearbyStrategy):
  """C is lower triangular with `bands` diagonals and columns of norm one.

  The noise of round t follows from those of the `bands - 1` rounds before:

    w_t = round( (z_t - sum_{i=1}^{bands-1} C[t, t-i] w_{t-i}) / C[t, t] )

  With one band it is independent noise.

  Attributes:
    rounds: The number of rounds that are planned.
    bands: The number of diagonals.
  """

  denominator = _DENOMINATOR
  draws_per_round = 1

  rounds: int
  bands: int

  def __post_init__(self) -> None:
    if not 1 <= self.bands <= self.rounds:
      raise PrivacyError(
        f'{self.bands} bands do not fit into a matrix of {self.rounds} rounds'
      )

  @property
  def num_vectors(self) -> int:
    """See the base class."""
    return self.bands - 1

  @property
  def summary(self) -> str:
    """See the base class."""
    return f'banded matrix factorization with bands: {self.bands}'

  @property
  def reference(self) -> str:
    """See the base class."""
    return 'Choquette-Choo et al., (Amplified) Banded Matrix Factorization (2023)'

  def weights(self) -> np.ndarray:
    """Returns C[t, t - i] times `denominator`, int64 [rounds, bands].

    Rounded down, so that no column is longer than one; 0 above the first row.
    """
    coefficients = optimal_coefficients(self.rounds, self.bands)
    # The last columns are cut off, and so are scaled up more.
    lengths = np.minimum(self.bands, self.rounds - np.arange(self.rounds))
    norms = np.sqrt(np.cumsum(coefficients**2))[lengths - 1]
    columns = np.arange(self.rounds)[:, None] - np.arange(self.bands)
    weights = coefficients / norms[np.maximum(columns, 0)]
    # A norm of one may come out as a trifle less.
    whole = np.floor(weights * self.denominator + 1e-9).astype(np.int64)
    return np.where(columns >= 0, whole, 0)

  def matrix(self) -> np.ndarray:
    """Returns C, float [rounds, rounds]."""
    matrix = np.zeros([self.rounds, self.rounds])
    for i, diagonal in enumerate(self.weights().T):
      places = np.arange(i, self.rounds)
      matrix[places, places - i] = diagonal[i:] / self.denominator
    return matrix

  @property
  def reach(self) -> int:
    """See the base class."""
    return self.bands

  def squared_norms(self) -> np.ndarray:
    """See the base class."""
    squares = (self.weights() / self.denominator) ** 2
    norms = np.zeros(self.rounds)
    for i, diagonal in enumerate(squares.T):
      norms[: self.rounds - i] += diagonal[i:]
    return norms

  def gram(self) -> np.ndarray:
    """See the base class."""
    matrix = self.matrix()
    return matrix.T @ matrix

  def noising(self) -> np.ndarray:
    """See the base class: the inverse of C."""
    return scipy.linalg.solve_triangular(self.matrix(), np.eye(self.rounds), lower=True)


@functools.lru_cache(maxsize=64)
def optimal_coefficients(rounds: int, bands: int) -> np.ndarray:
  """Returns the diagonals of C that make sums over rounds least noisy, [bands].

  With c(x) = sum_i c_i x^i, the noise on sums is the Toeplitz matrix of
  s(x) = 1 / ((1 - x) c(x)), and what is minimized over c_0 = 1 and c_i >= 0 is

    |c|^2 sum_t (rounds - t) s_t^2,

  the mean square noise on sums, for columns of the same norm.

  Args:
    rounds: The number of rounds n.
    bands: The number of diagonals.
  """
  # The square root of 1 / (1 - x), the best one for ever more rounds and bands.
  places = np.arange(1, bands)
  start = np.cumprod(1 - 0.5 / places)
  left = rounds - np.arange(rounds)

  def loss(rest: np.ndarray) -> tuple[float, np.ndarray]:
    coefficients = np.concatenate([[1.0], rest])
    inverse = scipy.signal.lfilter([1.0], coefficients, np.eye(1, rounds)[0])
    sums = np.cumsum(inverse)
    error = np.sum(left * sums**2)
    norm = np.sum(coefficients**2)
    # The derivative of s by c_i is -x^i s(x) / c(x).
    change = scipy.signal.lfilter([1.0], coefficients, sums)
    slope = -2 * scipy.signal.correlate(left * sums, change, method='auto')
    slope = slope[rounds : rounds + bands - 1]
    return error * norm, norm * slope + 2 * error * rest

  if bands == 1:
    return np.ones(1)
  found = scipy.optimize.minimize(
    loss, start, jac=True, method='L-BFGS-B', bounds=[(0, None)] * (bands - 1)
  )
  return np.concatenate([[1.0], found.x])
