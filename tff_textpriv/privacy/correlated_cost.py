"""What rounds with correlated noise cost: one Gaussian mechanism, or sampled ones."""

import dataclasses
import itertools
import math

import dp_accounting

from tff_textpriv.privacy import costs
from tff_textpriv.privacy.errors import PrivacyError


@dataclasses.dataclass(frozen=True)
class BandedRounds(costs.GaussianCost):
  """Rounds of a banded matrix mechanism that draw from one slot of users at a time.

  Users are dealt into as many slots as there are bands, b. Round t draws from slot t mod b,
  each user of it independently with probability b * cohort / population. If C has b bands
  and columns of norm 1 at most, a user who is drawn in round t moves rows t to t + b - 1
  by 1 at most and no others, and may be drawn again in round t + b. So the rows from one
  such round to the next are a Poisson-sampled Gaussian mechanism that depends on what was
  released before, and so many rounds are ceil(rounds / b) of them (Choquette-Choo et al.,
  (Amplified) Banded Matrix Factorization, 2023, Theorem 4). It needs draws that nobody
  knows; a user's slot may be known.

  Attributes:
    noise_multiplier: Standard deviation of the independent noise over the clip norm.
    population: Number of users in all slots.
    cohort: Expected number of users in a round.
    bands: The number of bands, and of slots.
    rounds: The number of rounds that C is made for; further ones promise nothing.
    num_draws: How many numbers are drawn in a round.
  """

  sampling = 'banded_poisson'

  noise_multiplier: float
  population: int
  cohort: int
  bands: int
  rounds: int
  num_draws: int = 0

  def __post_init__(self) -> None:
    self._check_noise()
    if self.bands < 1:
      raise PrivacyError(f'{self.bands} is not a number of bands')
    self._sampled.event()  # Refuses slots that are smaller than a cohort.

  @property
  def _sampled(self) -> costs.SampledGaussian:
    """The rows from one round of a user's slot to the next."""
    return costs.SampledGaussian(
      'poisson', self.population, self.bands * self.cohort, self.noise_multiplier
    )

  @property
  def relation(self) -> dp_accounting.NeighboringRelation:
    """A user is there or not; nobody else's slot depends on it."""
    return costs.ADD_OR_REMOVE_ONE

  def rho(self, count: int) -> float:
    """Returns the rho of so many rounds under zCDP, to which sampling adds nothing."""
    return -(-count // self.bands) * self._sampled.rho

  def event(self) -> dp_accounting.DpEvent:
    """Returns the event of the first round."""
    return self.composed(1)

  def composed(self, count: int) -> dp_accounting.DpEvent:
    """Returns the event of the first so many rounds."""
    if count > self.rounds:
      return dp_accounting.NonPrivateDpEvent()
    return self._sampled.composed(-(-count // self.bands))


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
    stage: Which of several such mechanisms, one after the other, the rounds belong to.
      Rounds of different ones are never counted as further rounds of one.
  """

  sampling = 'separated'

  noise_multiplier: float
  separation: int
  squares: tuple[float, ...]
  num_draws: int = 0
  stage: int = 0

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

  def is_like(self, other: costs.Cost | None) -> bool:
    """See the base class: stages differ in their rounds, and a little in their noise.

    It is calibrated for the sizes of their models.
    """
    return (
      isinstance(other, CorrelatedRounds)
      and other.separation == self.separation
      and math.isclose(other.noise_multiplier, self.noise_multiplier, rel_tol=1e-3)
    )

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
