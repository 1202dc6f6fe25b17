"""What a release costs: values that compose, and that a checkpoint can hold.

A kind of cost is a class here or in the module of its mechanism. A ledger that names a
kind nobody has defined is refused, not passed over.
"""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import dp_accounting

from tff_textpriv.privacy import randomized_response, rounded_gaussian
from tff_textpriv.privacy.errors import PrivacyError

ADD_OR_REMOVE_ONE = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = dp_accounting.NeighboringRelation.REPLACE_ONE
SAMPLINGS = ('poisson', 'fixed')


@dataclasses.dataclass(frozen=True)
class Cost(abc.ABC):
  """The cost of one release.

  Either an accountant composes it (`event`), or it composes itself (`epsilon`).
  """

  # Whether several such costs at a positive delta must divide that delta.
  shares_delta: ClassVar[bool] = True
  _kinds: ClassVar[dict[str, type['Cost']]] = {}

  def __init_subclass__(cls) -> None:
    Cost._kinds[cls.__name__] = cls

  @property
  def relation(self) -> dp_accounting.NeighboringRelation | None:
    """Which data sets are neighbours; `None` where any two data of a user are."""
    return None

  @property
  def own_delta(self) -> float:
    """What it takes of the ledger's delta before anything else is composed."""
    return 0.0

  @property
  def own_epsilon(self) -> float:
    """What it adds to the epsilon of an accountant, who does not know of it."""
    return 0.0

  @property
  def source(self) -> str:
    """Who proved how it is counted; empty where the mechanism's own part of the card says."""
    return ''

  def event(self) -> dp_accounting.DpEvent | None:
    """Returns the event that an accountant composes, or `None`."""
    return None

  def composed(self, count: int) -> dp_accounting.DpEvent:
    """Returns the event of so many releases; only asked where there is one."""
    return dp_accounting.SelfComposedDpEvent(self.event(), count)

  @abc.abstractmethod
  def epsilon(self, count: int, delta: float) -> float:
    """Returns the epsilon of so many releases, where no accountant composes them."""

  @abc.abstractmethod
  def in_words(self, count: int) -> str:
    """Says how so many releases are counted, for the card's ledger."""

  def to_json(self) -> dict[str, Any]:
    """Returns the cost as JSON values."""
    return {'kind': type(self).__name__, **dataclasses.asdict(self)}

  @staticmethod
  def from_json(fields: Mapping[str, Any]) -> 'Cost':
    """Reads what `to_json` wrote; a `PrivacyError` if the kind is not known."""
    values = dict(fields)
    kind = values.pop('kind')
    if kind not in Cost._kinds:
      raise PrivacyError(f'nobody knows how to count a cost of kind {kind!r}')
    return Cost._kinds[kind](**values)


class GaussianCost(Cost):
  """Gaussian noise, which an accountant composes.

  Attributes:
    sampling: How those whom a release is about are chosen.
    noise_multiplier: Standard deviation of the noise over the clip norm.
    num_draws: How many numbers the noise has; what is known of each only to the
      precision of the machine is added to epsilon and delta.
  """

  sampling: str
  noise_multiplier: float
  num_draws: int

  @property
  @abc.abstractmethod
  def relation(self) -> dp_accounting.NeighboringRelation:
    """The change of the data under which the accounting holds."""

  @property
  def own_epsilon(self) -> float:
    """What the rounding of the noise's probabilities may add."""
    return rounded_gaussian.added_epsilon(self.num_draws)

  @property
  def own_delta(self) -> float:
    """What the tails of the noise may add."""
    return rounded_gaussian.added_delta(self.num_draws)

  def with_noise(self, noise_multiplier: float) -> Self:
    """Returns the same release with other noise, as if it were drawn exactly."""
    changed = {'noise_multiplier': noise_multiplier, 'num_draws': 0}
    return type(self)(**{**vars(self), **changed})

  def is_like(self, other: Cost | None) -> bool:
    """Tells whether another cost is that of rounds of the same run."""
    return self == other

  def epsilon(self, count: int, delta: float) -> float:
    """Is never asked: an accountant composes the events."""
    raise PrivacyError('Gaussian noise is composed by an accountant')

  def in_words(self, count: int) -> str:
    """Says who composes."""
    return f'composed by the accountant; drawing the noise adds {self._drawing(count)}'

  def _drawing(self, count: int) -> str:
    return f'{count * self.own_epsilon:.1e} to epsilon, {count * self.own_delta:.1e} to delta'

  def _check_noise(self) -> None:
    if not 0 <= self.noise_multiplier < float('inf'):
      raise PrivacyError(
        f'a noise multiplier of {self.noise_multiplier} is not a number >= 0'
      )
    if not isinstance(self.num_draws, int) or self.num_draws < 0:
      raise PrivacyError(f'{self.num_draws} is not a number of draws')


@dataclasses.dataclass(frozen=True)
class SampledGaussian(GaussianCost):
  """Gaussian noise on the sum of the clipped updates of a random cohort of users.

  Everything that an accountant has to know about a round; clip norms, learning rates and
  simulated sizes are not.

  Attributes:
    sampling: 'poisson' (each user joins independently with probability
      `cohort / population`) or 'fixed' (a uniform subset of exactly `cohort`).
    population: Number of users that may be sampled.
    cohort: Expected (Poisson) or exact (fixed) number of users in a round.
    noise_multiplier: Standard deviation of the noise over the clip norm.
    num_draws: How many numbers the noise has; what is known of each only to the
      precision of the machine is added to epsilon and delta.
  """

  sampling: str
  population: int
  cohort: int
  noise_multiplier: float
  num_draws: int = 0

  def __post_init__(self) -> None:
    if self.sampling not in SAMPLINGS:
      raise PrivacyError(
        f'sampling {self.sampling!r} has no accounting; use one of '
        f'{", ".join(SAMPLINGS)}'
      )
    if not 1 <= self.cohort <= self.population:
      raise PrivacyError(
        f'a cohort of {self.cohort} cannot be drawn from {self.population} users'
      )
    self._check_noise()

  @property
  def relation(self) -> dp_accounting.NeighboringRelation:
    """The change of the data under which the accounting of the sampling holds."""
    return ADD_OR_REMOVE_ONE if self.sampling == 'poisson' else REPLACE_ONE

  @property
  def source(self) -> str:
    """See the base class."""
    if self.cohort == self.population:
      return (
        'Gaussian mechanism, which composes exactly: Dong, Roth and Su, Gaussian '
        'Differential Privacy (2019)'
      )
    if self.sampling == 'fixed':
      return (
        'Gaussian mechanism on samples without replacement: Wang, Balle and '
        'Kasiviswanathan, Subsampled Renyi Differential Privacy and Analytical Moments '
        'Accountant (2019)'
      )
    return (
      'Poisson-sampled Gaussian mechanism. PLD: Koskela, Jälkö and Honkela, Computing Tight '
      'Differential Privacy Guarantees Using FFT (2020), on the grid of Doroshenko et al., '
      'Connect the Dots (2022). RDP: Mironov, Talwar and Zhang, Renyi Differential Privacy '
      'of the Sampled Gaussian Mechanism (2019)'
    )

  @property
  def rho(self) -> float:
    """The rho of a round under zCDP, to which sampling adds nothing."""
    sensitivity = 1 if self.sampling == 'poisson' else 2
    return (sensitivity / self.noise_multiplier) ** 2 / 2

  def event(self) -> dp_accounting.DpEvent:
    """Returns the accounting event of one round.

    Adding or removing a user moves the sum by at most one clip norm. Replacing
    a user moves it by up to two, one away and one back, so that the noise is
    worth only half its multiplier when the cohort's size is fixed.
    """
    if self.noise_multiplier == 0:
      return dp_accounting.NonPrivateDpEvent()
    if self.sampling == 'poisson':
      gaussian = dp_accounting.GaussianDpEvent(self.noise_multiplier)
      if self.cohort == self.population:
        return gaussian
      return dp_accounting.PoissonSampledDpEvent(
        self.cohort / self.population, gaussian
      )
    gaussian = dp_accounting.GaussianDpEvent(self.noise_multiplier / 2)
    if self.cohort == self.population:
      return gaussian
    return dp_accounting.SampledWithoutReplacementDpEvent(
      self.population, self.cohort, gaussian
    )


@dataclasses.dataclass(frozen=True)
class Bits(Cost):
  """What one user sends in one round: some bits, each randomized.

  Attributes:
    bit_epsilon: Local epsilon of a bit.
    num_bits: The number of bits.
  """

  bit_epsilon: float
  num_bits: int

  def __post_init__(self) -> None:
    randomized_response.BitResponse(self.bit_epsilon)  # Refuses what is no epsilon.
    if not isinstance(self.num_bits, int) or self.num_bits < 0:
      raise PrivacyError(f'{self.num_bits} is not a number of bits')

  @property
  def source(self) -> str:
    """See the base class."""
    return (
      'Randomized responses together, which compose exactly: Kairouz, Oh and Viswanath, The '
      'Composition Theorem for Differential Privacy (2015)'
    )

  def pure_epsilon(self, count: int) -> float:
    """Returns the epsilon at delta 0 of a user who takes part in so many rounds."""
    return self.bit_epsilon * self.num_bits * count

  def epsilon(self, count: int, delta: float) -> float:
    """Returns the exact epsilon at `delta` of a user who does."""
    return randomized_response.composed_epsilon(
      self.bit_epsilon, self.num_bits * count, delta
    )

  def in_words(self, count: int) -> str:
    """Says that nothing is lost by the composition."""
    return 'composed exactly, bit by bit'


@dataclasses.dataclass(frozen=True)
class Fixed(Cost):
  """An epsilon, and perhaps a delta, that is added to the rest.

  Attributes:
    added_epsilon: The epsilon of one release.
    added_delta: Its delta.
  """

  shares_delta: ClassVar[bool] = False

  added_epsilon: float
  added_delta: float = 0.0

  def __post_init__(self) -> None:
    for number in (self.added_epsilon, self.added_delta):
      if not isinstance(number, int | float) or not 0 <= number < float('inf'):
        raise PrivacyError(f'a cost of {number} is not a number >= 0')

  @property
  def own_delta(self) -> float:
    """Its delta."""
    return self.added_delta

  def epsilon(self, count: int, delta: float) -> float:
    """Returns the sum of the epsilons."""
    return count * self.added_epsilon

  def in_words(self, count: int) -> str:
    """Says what is added."""
    return f'epsilon {count * self.added_epsilon:g}, added'
