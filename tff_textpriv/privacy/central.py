"""Central differential privacy: a trusted server adds Gaussian noise to a sum.

From a `CentralGaussian` are made both the aggregation (how much to clip, how much noise
to add) and the ledger's entries (what a round costs).
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tff_textpriv import randomness
from tff_textpriv.privacy import (
  card_blocks,
  central_card,
  lattice,
  ledger_entries,
  mechanism,
  rounded_gaussian,
)
from tff_textpriv.privacy.adaptive_clipping import AdaptiveClipping
from tff_textpriv.privacy.costs import SampledGaussian
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.rounded_gaussian import RoundedGaussian

if TYPE_CHECKING:
  from tff_textpriv.privacy.ledger import Ledger

_SHORT_RELATIONS = {
  'ADD_OR_REMOVE_ONE': 'a user added or removed',
  'REPLACE_ONE': 'a user replaced by another',
}


@dataclasses.dataclass(frozen=True)
class CentralGaussian(mechanism.Mechanism):
  """Central differential privacy of users, round by round.

  Attributes:
    sampling: How a cohort is drawn: 'poisson' or 'fixed'.
    population: Users of the deployment that is accounted for.
    cohort: (Expected) users per round of that deployment.
    simulated_population: Users of the simulation.
    simulated_cohort: (Expected) users per round of the simulation.
    rounds: Planned number of rounds.
    clip: L2 norm to which updates are clipped (the first one, if adaptive).
    noise_multiplier: Total noise multiplier z of a round, from which adaptive
      clipping takes its share.
    delta: Delta of the guarantee.
    accountant: 'rdp' or 'pld', of the headline figure.
    adaptive: Adaptive clipping, or `None` for a fixed clip norm.
    noise_source: 'seeded' or 'system'.
    budget_epsilon: The run stops before the round that would exceed it.
    claim: Whether the run claims its figure; false for comparisons.
    stream: Decides the noise; a secret, unless the source is 'seeded'.
    num_coordinates: The size of an update, at most.
    unit: What is protected: all the data of one user.
    simulated_sampling: How the simulation draws cohorts, as they are accounted if empty;
      otherwise only where it stands for a deployment of other sizes.
  """

  aggregator = 'dp_mean'

  sampling: str
  population: int
  cohort: int
  simulated_population: int
  simulated_cohort: int
  rounds: int
  clip: float
  noise_multiplier: float
  delta: float
  accountant: str = 'rdp'
  adaptive: AdaptiveClipping | None = None
  noise_source: str = 'seeded'
  budget_epsilon: float | None = None
  claim: bool = True
  stream: randomness.Stream = dataclasses.field(
    default_factory=randomness.Stream.of_system
  )
  num_coordinates: int = mechanism.MANY_COORDINATES
  unit: str = 'user'
  simulated_sampling: str = ''

  def __post_init__(self) -> None:
    if self.drawn != self.sampling and not self.is_scaled:
      raise PrivacyError(
        f'cohorts of this run are drawn by {self.drawn} sampling and accounted by '
        f'{self.sampling} sampling: its figure would be false'
      )
    if self.noise_multiplier > 0 and not math.isfinite(self.clip):
      raise PrivacyError(
        'noise on updates that are not clipped protects nobody: give --clip a '
        'finite value, or set --noise_multiplier=0 and no --target_epsilon'
      )
    if self.adaptive is not None:
      if not math.isfinite(self.clip):
        raise PrivacyError('--adaptive_clipping needs a finite --clip to start from')
      if self.noise_multiplier >= self.adaptive.count_noise_multiplier:
        raise PrivacyError(
          f'--adaptive_clipping: its count noise (multiplier '
          f'{self.adaptive.count_noise_multiplier:g}) alone spends more than noise '
          f'multiplier {self.noise_multiplier:g} allows; use a larger (accounted) '
          'cohort, a smaller --noise_multiplier, or a fixed clip'
        )

  @property
  def cost(self) -> SampledGaussian:
    """What one round is to an accountant, at the accounted sizes.

    With adaptive clipping a round releases two Gaussian sums, the update and
    the count. Together they are exactly one of the total noise multiplier.
    """
    return SampledGaussian(
      self.sampling, self.population, self.cohort, self.noise_multiplier, self.num_draws
    )

  @property
  def num_draws(self) -> int:
    """The numbers that are noised in a round: those of an update, and a count."""
    return self.num_coordinates + (self.adaptive is not None)

  def entry(self, group: str) -> ledger_entries.Entry:
    """See the base class."""
    return ledger_entries.Entry(
      ledger_entries.CENTRAL,
      self.entry_name,
      f'Gaussian noise on the sum over a {self.sampling} cohort of '
      f'{self.cohort:,} of {self.population:,} users, '
      f'noise multiplier {self.noise_multiplier:.4g}',
      cost=self.cost,
      group=group,
    )

  def check_sampling(self, sampling: str, separation: int = 1) -> None:
    """Refuses cohorts that are not drawn as they are accounted."""
    if sampling != self.drawn:
      raise PrivacyError(
        f'cohorts are drawn by {sampling} sampling, and the privacy plan '
        f'accounts for {self.drawn} sampling: its figure would be false'
      )

  @property
  def drawn(self) -> str:
    """How the simulation draws cohorts."""
    return self.simulated_sampling or self.sampling

  def of_simulation(self) -> 'CentralGaussian':
    """Returns the mechanism of the simulation: its own sizes, and the noise it adds."""
    adaptive = self.adaptive and dataclasses.replace(
      self.adaptive, count_stddev=self.count_stddev
    )
    return dataclasses.replace(
      self,
      sampling=self.drawn,
      # Nobody else can account cohorts of a fixed size.
      accountant='rdp' if self.drawn == 'fixed' else self.accountant,
      population=self.simulated_population,
      cohort=self.simulated_cohort,
      noise_multiplier=self.noise_multiplier * self.scale,
      adaptive=adaptive,
      budget_epsilon=None,
    )

  @property
  def update_noise_multiplier(self) -> float:
    """What is left of z for the update: (z^-2 - (2 sigma_b)^-2)^(-1/2)."""
    z = self.noise_multiplier
    if self.adaptive is None or z == 0:
      return z
    return (z**-2 - self.adaptive.count_noise_multiplier**-2) ** -0.5

  @property
  def scale(self) -> float:
    """Simulated over accounted cohort: the factor on all noise that is added."""
    return self.simulated_cohort / self.cohort

  def sum_stddev(self, clip: float) -> float:
    """Returns the noise stddev on the simulated sum of updates clipped to `clip`."""
    if self.noise_multiplier == 0:
      return 0.0  # Also where `clip` is infinite.
    return self.update_noise_multiplier * clip * self.scale

  def relative_noise(self, num_coordinates: int) -> float | None:
    """See the base class: z sqrt(d) / m."""
    if self.noise_multiplier == 0:
      return None
    return self.sum_stddev(1.0) * math.sqrt(num_coordinates) / self.mean_denominator

  @property
  def count_stddev(self) -> float:
    """Noise stddev on the simulated sum of +-0.5 bits of adaptive clipping."""
    if self.adaptive is None or self.noise_multiplier == 0:
      return 0.0
    return self.adaptive.count_stddev * self.scale

  @property
  def _is_promise(self) -> bool:
    """Whether users of the simulation itself are promised something."""
    return self.no_guarantee_reason is None and not self.is_scaled

  def points(self, num_coordinates: int) -> lattice.Lattice:
    """Returns the whole numbers that stand for updates of a size."""
    return lattice.fitting(
      num_coordinates,
      self.simulated_cohort,
      self.sum_stddev(1.0),
      rounded_gaussian.SMALLEST_STDDEV
      if self._is_promise
      else rounded_gaussian.SMALLEST_UNCLAIMED,
    )

  @property
  def largest_shift(self) -> float:
    """How far a user can move a noisy number, in standard deviations of its noise."""
    return 2 / self.update_noise_multiplier

  def noise_law(self, stddev: float, noise_multiplier: float) -> RoundedGaussian:
    """Returns the law of the noise on sums of whole numbers.

    Args:
      stddev: Its standard deviation.
      noise_multiplier: Its share of the noise multiplier.
    """
    return RoundedGaussian(stddev, 2 / noise_multiplier if self._is_promise else 0.0)

  def round_seeds(self) -> np.ndarray:
    """Returns the seed of the noise of each planned round, int64 [rounds, 2].

    There are no more: a round that nobody planned has no noise, and is not made.
    """
    return np.stack(
      [self.stream.words('noise', number) for number in range(self.rounds)]
    )

  @property
  def mean_denominator(self) -> float:
    """What sums are divided by: the expected cohort, whoever really came.

    The realised size of a Poisson cohort depends on the users and is not public.
    """
    return float(self.simulated_cohort)

  @property
  def is_scaled(self) -> bool:
    """Whether the accounted deployment differs from the simulation."""
    return (self.population, self.cohort) != (
      self.simulated_population,
      self.simulated_cohort,
    )

  @property
  def no_guarantee_reason(self) -> str | None:
    """Why this plan promises nothing, or `None` if it does promise."""
    if self.noise_multiplier == 0:
      return 'no noise is added (noise multiplier 0)'
    if not self.claim:
      return mechanism.NOT_CLAIMED
    if self.largest_shift > rounded_gaussian.LONGEST_SHIFT:
      return f'noise multiplier {self.noise_multiplier:g} hides nobody'
    return None

  @property
  def warnings(self) -> tuple[str, ...]:
    """What the person who starts the run should be told about its promise."""
    warnings = []
    if self.no_guarantee_reason is not None:
      warnings.append(f'No formal privacy guarantee: {self.no_guarantee_reason}.')
    if self.is_scaled:
      warnings.append(
        f'The privacy figure is that of a deployment with {self.population:,} users '
        f'and {self.cohort:,} per round; the simulation has '
        f'{self.simulated_population:,} and {self.simulated_cohort:,}, adds noise '
        f'scaled by {self.scale:g}, and does not itself carry the guarantee.'
      )
    return tuple(warnings)

  @property
  def summary(self) -> str:
    """See the base class."""
    return (
      f'clip {self.clip:g}, noise multiplier {self.noise_multiplier:.4g}, '
      f'{self.sampling} cohorts of {self.cohort:,} in {self.population:,} users'
    )

  @property
  def advice_on_noise(self) -> str:
    """See the base class."""
    return (
      'more users, more of them per round, fewer parameters (--hash_buckets, --vocab_size, '
      '--model) or a larger --target_epsilon make the noise smaller beside what users send; '
      '`python -m tff_textpriv.tools.plan --data=FILE` shows what your data can carry'
    )

  def headline(self, epsilon: str) -> str:
    """See the base class."""
    whose = f', of {self.population:,}' if self.is_scaled else ''
    return (
      f'({epsilon}, {self.delta:g})-differential privacy for every {self.unit}{whose}'
    )

  @property
  def promise(self) -> tuple[str, str]:
    """See the base class."""
    relation = _SHORT_RELATIONS[self.cost.relation.name]
    words = f'central, {relation}'
    explanation = (
      f'Central: {relation} changes the probability of whatever is released by a factor '
      'of e^epsilon at most, delta aside. The aggregator is trusted.'
    )
    if not self.is_scaled:
      return words, explanation
    return f'{words}, accounted deployment', (
      f'{explanation} The figure is that of a deployment of the accounted size, not of '
      'the simulation.'
    )

  @property
  def threat_model(self) -> str:
    """See the base class."""
    return (
      'Central differential privacy: a trusted aggregator sees the clipped updates, adds '
      'the noise and keeps only the noisy result. The guarantee is against everyone who '
      'sees what is released afterwards, every intermediate model included; it is not '
      'against the aggregator.'
    )

  @property
  def covered(self) -> frozenset[str]:
    """The update and, where the clip norm is adapted, the bit by which it is."""
    return frozenset({'update'} | ({'unclipped_half'} if self.adaptive else set()))

  def largest_step(self, num_coordinates: int) -> float:
    """See the base class."""
    clip = self.clip if math.isfinite(self.clip) else 1.0
    return clip / math.sqrt(num_coordinates)

  def describe(self, ledger: 'Ledger') -> dict[str, Any]:
    """See the base class."""
    return central_card.describe(self, ledger)

  def blocks(self, ledger: 'Ledger') -> list[card_blocks.Block]:
    """See the base class."""
    return central_card.blocks(self, ledger)
