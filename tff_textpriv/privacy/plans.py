"""Privacy plans: what a run promises, checked before anything is trained.

A `CentralDpPlan` is the one object from which both the aggregation factory (how
much to clip, how much noise to add) and the ledger's entries (what a round
costs) are made. `make_plan` makes it from the flags, or refuses.
"""

import dataclasses
import math

import dp_accounting

from tff_textpriv.privacy import calibration
from tff_textpriv.privacy.mechanism import PrivacyError, SampledGaussian
from tff_textpriv.settings import Settings, SettingsError, setting

# The noisy count's standard deviation is 1/20 of the cohort (Andrew et al. 2021,
# "Differentially Private Learning with Adaptive Clipping", section 3.1).
_COUNT_STDDEV_PER_COHORT = 1 / 20


@dataclasses.dataclass(frozen=True)
class PrivacySettings(Settings):
  """Flags of central user-level differential privacy."""

  clip: float = setting(
    0.5,
    "L2 norm to which a user's update is clipped; where --adaptive_clipping "
    'starts. `inf` turns clipping off, which only a run without noise may do.',
    above=0,
  )
  noise_multiplier: float | None = setting(
    None,
    'Standard deviation of the noise on the sum of updates, over the clip norm.',
    low=0,
    below=math.inf,
  )
  target_epsilon: float | None = setting(
    None,
    'Epsilon of the whole run. Alone, it calibrates the noise; with '
    '--noise_multiplier, the run stops before the round that would exceed it.',
    above=0,
    below=math.inf,
  )
  delta: float = setting(1e-6, 'Delta of the guarantee.', above=0, below=1)
  accountant: str = setting(
    'rdp',
    'Accountant of the headline figure and of calibration; the card shows both.',
    choices=calibration.ACCOUNTANTS,
  )
  accounted_population: int | None = setting(
    None,
    'Users of the deployment that is accounted for; the simulated ones if not set.',
    low=1,
  )
  accounted_cohort: int | None = setting(
    None,
    'Users per round of the deployment that is accounted for; if it differs from '
    '--clients_per_round, noise is scaled by simulated over accounted cohort.',
    low=1,
  )
  adaptive_clipping: bool = setting(
    False, "Let the clip norm follow a quantile of the updates' norms, privately."
  )
  clip_quantile: float = setting(
    0.5, 'Quantile that --adaptive_clipping follows.', above=0, below=1
  )
  clip_learning_rate: float = setting(
    0.2,
    'Step of --adaptive_clipping, on the logarithm of the clip norm.',
    above=0,
    below=math.inf,
  )
  noise_source: str = setting(
    'seeded',
    'Where noise comes from: `seeded` repeats with --seed (for experiments), '
    '`system` is seeded by the operating system (for real use).',
    choices=('seeded', 'system'),
  )
  client_weighting: str = setting(
    'uniform',
    'Weights of the mean over users. Differential privacy needs `uniform`.',
    choices=('uniform', 'examples'),
  )
  privacy_claim: bool = setting(
    True,
    'Set to false to run a comparison (such as an oracle tokenizer) under the same '
    'mechanism without claiming anything.',
  )


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
        'accounted population): a guarantee this weak allows publishing one '
        "user's data outright."
      )
    if self.is_scaled:
      warnings.append(
        f'The privacy figure is that of a deployment with {self.population:,} users '
        f'and {self.cohort:,} per round; the simulation has '
        f'{self.simulated_population:,} and {self.simulated_cohort:,}, adds noise '
        f'scaled by {self.scale:g}, and does not itself carry the guarantee.'
      )
    return tuple(warnings)


def make_plan(
  settings: PrivacySettings,
  *,
  sampling: str,
  simulated_population: int,
  simulated_cohort: int,
  rounds: int,
) -> CentralDpPlan:
  """Makes the plan that the flags ask for, with its noise calibrated.

  Args:
    settings: The privacy flags.
    sampling: How the run draws its cohorts: 'poisson' or 'fixed'.
    simulated_population: Training users of the simulation.
    simulated_cohort: (Expected) users per round of the simulation.
    rounds: Number of rounds the run is going to make.

  Returns:
    A plan. If only an epsilon was given, the noise is the least with which all
    `rounds` keep within it.

  Raises:
    SettingsError: A flag is missing or cannot hold.
    PrivacyError: The flags together amount to a promise that would be false.
  """
  population = settings.accounted_population or simulated_population
  cohort = settings.accounted_cohort or simulated_cohort
  _check_sizes(settings, population, cohort, simulated_population, simulated_cohort)
  _check_noise(settings)
  mechanism = SampledGaussian(
    sampling, population, cohort, settings.noise_multiplier or 0.0
  )
  _check_accountant(settings, mechanism)
  if settings.noise_multiplier is None:
    assert settings.target_epsilon is not None  # By _check_noise.
    noise_multiplier = calibration.noise_for_budget(
      mechanism,
      rounds,
      calibration.Budget(settings.target_epsilon, settings.delta, settings.accountant),
    )
  else:
    noise_multiplier = settings.noise_multiplier
  return CentralDpPlan(
    sampling=sampling,
    population=population,
    cohort=cohort,
    simulated_population=simulated_population,
    simulated_cohort=simulated_cohort,
    rounds=rounds,
    clip=settings.clip,
    noise_multiplier=noise_multiplier,
    delta=settings.delta,
    accountant=settings.accountant,
    adaptive=_adaptive_clipping(settings, cohort),
    noise_source=settings.noise_source,
    budget_epsilon=settings.target_epsilon,
    claim=settings.privacy_claim,
  )


def _adaptive_clipping(
  settings: PrivacySettings, cohort: int
) -> AdaptiveClipping | None:
  """Returns the adaptive clipping that the flags ask for."""
  if not settings.adaptive_clipping:
    return None
  return AdaptiveClipping(
    settings.clip_quantile,
    settings.clip_learning_rate,
    count_stddev=cohort * _COUNT_STDDEV_PER_COHORT,
  )


def _check_sizes(
  settings: PrivacySettings,
  population: int,
  cohort: int,
  simulated_population: int,
  simulated_cohort: int,
) -> None:
  """Refuses cohorts that are larger than what they are drawn from."""
  if simulated_cohort > simulated_population:
    raise SettingsError(
      'clients_per_round',
      simulated_cohort,
      f'must be at most the number of training users, {simulated_population}',
    )
  if cohort > population:
    raise SettingsError(
      'accounted_cohort',
      cohort,
      f'must be at most the accounted population, {population}; '
      'set --accounted_population too',
    )


def _check_noise(settings: PrivacySettings) -> None:
  """Refuses noise that is missing, or that cannot give the promised epsilon."""
  noise, target = settings.noise_multiplier, settings.target_epsilon
  if noise is None and target is None:
    raise SettingsError(
      'target_epsilon',
      target,
      'give --target_epsilon, to which the noise is calibrated, or '
      '--noise_multiplier, from which epsilon follows, or both',
    )
  if noise == 0 and target is not None:
    raise SettingsError(
      'noise_multiplier', noise, f'no noise cannot give --target_epsilon={target:g}'
    )
  if noise != 0 and settings.client_weighting != 'uniform':
    raise SettingsError(
      'client_weighting',
      settings.client_weighting,
      'a mean weighted by examples has no bounded sensitivity to one user, so that '
      'noise gives no privacy; use --client_weighting=uniform',
    )
  if noise != 0 and not math.isfinite(settings.clip):
    raise SettingsError(
      'clip',
      settings.clip,
      'noise on updates that are not clipped protects nobody; give a finite clip '
      'norm, or --noise_multiplier=0 without --target_epsilon',
    )


def _check_accountant(settings: PrivacySettings, mechanism: SampledGaussian) -> None:
  """Refuses an accountant that does not match how cohorts are drawn."""
  with_noise = dataclasses.replace(mechanism, noise_multiplier=1.0)
  if not calibration.supports(
    with_noise.event(), with_noise.neighbouring_relation, settings.accountant
  ):
    raise SettingsError(
      'accountant',
      settings.accountant,
      f'cannot account cohorts drawn with {mechanism.sampling} size; use '
      '--accountant=rdp, or Poisson sampling',
    )
