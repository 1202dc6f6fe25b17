"""The plan of central differential privacy: one object, two readers.

From a `CentralDpPlan` are made both the aggregation factory (how much to clip,
how much noise to add) and the ledger's entries (what a round costs).
"""

import dataclasses
import math

import dp_accounting

from tff_textpriv.privacy.mechanism import PrivacyError, SampledGaussian


@dataclasses.dataclass(frozen=True)
class AdaptiveClipping:
  """A clip norm that follows a quantile of update norms, by geometric steps.

  Attributes:
    quantile: Share of users whose updates should not be clipped.
    learning_rate: Step on the logarithm of the clip norm.
    count_stddev: Standard deviation of the noise on the sum of the accounted
      cohort's bits, each +0.5 (not clipped) or -0.5 (clipped).
  """

  quantile: float
  learning_rate: float
  count_stddev: float

  @property
  def count_noise_multiplier(self) -> float:
    """Count noise over the sensitivity 0.5 of a sum of +-0.5 bits."""
    return self.count_stddev / 0.5


@dataclasses.dataclass(frozen=True)
class CentralDpPlan:
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
    unit: What is protected: all the data of one user.
  """

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
  unit: str = 'user'

  def __post_init__(self) -> None:
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
  def mechanism(self) -> SampledGaussian:
    """What one round is to an accountant, at the accounted sizes.

    With adaptive clipping a round releases two Gaussian sums, the update and
    the count. Together they are exactly one of the total noise multiplier.
    """
    return SampledGaussian(
      self.sampling, self.population, self.cohort, self.noise_multiplier
    )

  @property
  def neighbouring_relation(self) -> dp_accounting.NeighboringRelation:
    """Add or remove a user (Poisson sampling), or replace one (fixed size)."""
    return self.mechanism.neighbouring_relation

  def round_event(self) -> dp_accounting.DpEvent:
    """Returns the accounting event of one round."""
    return self.mechanism.event()

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

  @property
  def count_stddev(self) -> float:
    """Noise stddev on the simulated sum of +-0.5 bits of adaptive clipping."""
    if self.adaptive is None or self.noise_multiplier == 0:
      return 0.0
    return self.adaptive.count_stddev * self.scale

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
      return 'the run is a comparison that claims nothing (--privacy_claim=false)'
    return None

  @property
  def warnings(self) -> tuple[str, ...]:
    """What the person who starts the run should be told about its promise."""
    warnings = []
    if self.no_guarantee_reason is not None:
      warnings.append(f'No formal privacy guarantee: {self.no_guarantee_reason}.')
    elif self.delta >= 1 / self.population:
      warnings.append(
        f'--delta={self.delta:g} is not below 1/{self.population:,} (one over the '
        'accounted population): publishing the data '
        'of one random user would satisfy it.'
      )
    if self.is_scaled:
      warnings.append(
        f'The privacy figure is that of a deployment with {self.population:,} users '
        f'and {self.cohort:,} per round; the simulation has '
        f'{self.simulated_population:,} and {self.simulated_cohort:,}, adds noise '
        f'scaled by {self.scale:g}, and does not itself carry the guarantee.'
      )
    return tuple(warnings)
