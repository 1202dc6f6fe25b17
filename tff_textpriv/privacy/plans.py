"""From privacy flags to a privacy plan, checked before anything is trained."""

import dataclasses
import math

from tff_textpriv.privacy import calibration
from tff_textpriv.privacy.central import AdaptiveClipping, CentralDpPlan
from tff_textpriv.privacy.mechanism import SampledGaussian
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
  if rounds < 1:
    raise SettingsError('total_rounds', rounds, 'a plan needs at least one round')
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
  """Refuses noise that is missing or cannot give the promise, and a weighted mean."""
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
  if settings.client_weighting != 'uniform':
    raise SettingsError(
      'client_weighting',
      settings.client_weighting,
      'a mean weighted by examples has no bounded sensitivity to one user, so that '
      'noise gives no privacy; use --client_weighting=uniform',
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
