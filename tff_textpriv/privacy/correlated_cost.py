"""What rounds with correlated noise cost: one Gaussian mechanism, over all of them."""

import dataclasses
import itertools
import math

import dp_accounting

from tff_textpriv.privacy import costs
from tff_textpriv.privacy.errors import PrivacyError


@dataclasses.dataclass(frozen=True)
class CorrelatedRounds(costs.GaussianCost):
  """Rounds of a matrix mechanism in which a user takes part only now and then.

  So many rounds are a Gaussian mechanism whose sensitivity is that of a user with as many
  participations as they have room for. It holds for rounds that depend on what was
  released before, too (Denisov et al., Improved Differential Privacy for SGD via Optimal
  Private Linear Operators on Adaptive Streams, 2022). Nothing is drawn at random, and so
  nothing is amplified.

  Attributes:
    noise_multiplier: Standard deviation of the independent noise over the clip norm.
    separation: The least number of rounds from one participation to the next.
    squares: The squared sensitivity, in clip norms, of a user with one participation,
      with two, and so on; rounds that have room for more were not planned.
    num_draws: How many numbers are drawn in a round.
  """

  sampling = 'separated'

  noise_multiplier: float
  separation: int
  squares: tuple[float, ...]
  num_draws: int = 0

  def __post_init__(self) -> None:
    # A list where it comes from a file.
    object.__setattr__(self, 'squares', tuple(self.squares))
    self._check_noise()
    steps = itertools.pairwise((0.0, *self.squares, math.inf))
    if (
      not isinstance(self.separation, int)
      or self.separation < 1
      or not self.squares
      or not all(before <= after for before, after in steps)
    ):
      raise PrivacyError(f'no sensitivities of users who come back: {self}')

  @property
  def relation(self) -> dp_accounting.NeighboringRelation:
    """A user is there or not; nobody else's rounds depend on it."""
    return costs.ADD_OR_REMOVE_ONE

  def square(self, count: int) -> float:
    """Returns the squared sensitivity of the first so many rounds."""
    participations = -(-count // self.separation)
    if participations > len(self.squares):
      return math.inf
    return self.squares[participations - 1] if participations else 0.0

  def rho(self, count: int) -> float:
    """Returns the rho of so many rounds under zCDP."""
    return self.square(count) / self.noise_multiplier**2 / 2

  def event(self) -> dp_accounting.DpEvent:
    """Returns the event of the first round."""
    return self.composed(1)

  def composed(self, count: int) -> dp_accounting.DpEvent:
    """Returns the event of the first so many rounds."""
    square = self.square(count)
    if square == 0:
      return dp_accounting.NoOpDpEvent()
    if self.noise_multiplier == 0 or square == math.inf:
      return dp_accounting.NonPrivateDpEvent()
    return dp_accounting.GaussianDpEvent(self.noise_multiplier / square**0.5)
