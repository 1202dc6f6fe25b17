"""What rounds of secure sums cost whose noise comes from the clients."""

import dataclasses
import functools
import math

import dp_accounting
import numpy as np
from dp_accounting import rdp

from tff_textpriv.privacy import costs, device_noise, participation, rounded_gaussian
from tff_textpriv.privacy.errors import PrivacyError

# The bounds are proved for whole orders.
_ORDERS = np.array([*range(2, 257), *(2**exponent for exponent in range(9, 17))])


@dataclasses.dataclass(frozen=True)
class SecureSumRounds(costs.Cost):
  """Rounds of which everybody sees the sum, and a user takes part in some.

  Rounds in which a user takes part compose by their Renyi divergences; others tell
  nothing of the user that is new.

  Attributes:
    noise: The law of the noise that each client adds, one of `device_noise.LAWS`.
    variance: Its variance, in whole numbers.
    clients: How many clients' noise is counted on in a sum.
    largest_square: The largest squared length of what a client adds besides.
    dimension: How many numbers a sum has.
    separation: The least number of rounds from one participation to the next.
  """

  noise: str
  variance: float
  clients: int
  largest_square: int
  dimension: int
  separation: int

  def __post_init__(self) -> None:
    device_noise.DeviceNoise(self.noise, self.variance)  # Refuses what is no law.
    for number in (self.clients, self.largest_square, self.dimension, self.separation):
      if not isinstance(number, int) or number < 1:
        raise PrivacyError(f'no sums of clients’ noise: {self}')

  @property
  def relation(self) -> dp_accounting.NeighboringRelation:
    """A user's data are there or not; the user takes part, with noise, in either case."""
    return costs.ADD_OR_REMOVE_ONE

  def is_like(self, other: costs.Cost | None) -> bool:
    """Tells whether another cost is that of rounds of the same run, of another model."""
    return isinstance(other, SecureSumRounds) and other.separation == self.separation

  @functools.cached_property
  def lines(self) -> tuple[device_noise.Line, ...]:
    """Bounds of the Renyi divergences of one participation."""
    l2 = math.sqrt(self.largest_square)
    l1 = min(math.sqrt(self.dimension) * l2, float(self.largest_square))
    return device_noise.lines(
      self.noise, self.variance, self.clients, l1, l2, self.dimension
    )

  @property
  def num_draws(self) -> int:
    """The numbers that are drawn for one sum."""
    return self.clients * self.dimension

  def epsilon(self, count: int, delta: float) -> float:
    """See the base class; with what the precision of the draws may add."""
    times = participation.most_participations(count, self.separation)
    left = delta - times * device_noise.added_delta(self.num_draws)
    if left <= 0:
      return math.inf
    if times == 0:
      return 0.0
    divergences = np.min(
      [line.slope * _ORDERS + line.constant for line in self.lines], axis=0
    )
    composed, _ = rdp.compute_epsilon(_ORDERS, times * divergences, left)
    return float(composed) + times * rounded_gaussian.added_epsilon(self.num_draws)

  def in_words(self, count: int) -> str:
    """Says how it is composed."""
    times = participation.most_participations(count, self.separation)
    return f'{times:,} participations, composed by their Renyi divergences'
