"""The flags of central differential privacy, checked before anything is trained."""

import dataclasses
import math

from tff_textpriv.privacy import (
  accountants,
  calibration,
  claim_settings,
  mechanism,
  planning,
)
from tff_textpriv.privacy.adaptive_clipping import (
  COUNT_STDDEV_PER_COHORT,
  AdaptiveClipping,
)
from tff_textpriv.privacy.central import CentralGaussian
from tff_textpriv.privacy.costs import GaussianCost, SampledGaussian
from tff_textpriv.settings import SettingsError, setting


@dataclasses.dataclass(frozen=True)
class NoisySumSettings(claim_settings.GaussianClaimSettings):
  """Flags of a trusted server that adds noise to sums of clipped updates."""

  clip: float = setting(
    0.5,
    "L2 norm to which a user's update is clipped. `inf` turns clipping off, which only a "
    'run without noise may do.',
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
    key='epsilon of a run',
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
  client_weighting: str = setting(
    'uniform',
    'Weights of the mean over users. Differential privacy needs `uniform`.',
    choices=('uniform', 'examples'),
  )

  def check(self) -> None:
    """See the base class: noise must be said, and be able to keep the promise."""
    _check_noise(self)

  def accounted_sizes(self, deployment: mechanism.Deployment) -> tuple[int, int]:
    """Returns population and cohort of the deployment that is accounted for.

    Raises:
      SettingsError: They, or flags on which the noise rests, cannot be.
    """
    if deployment.rounds < 1:
      raise SettingsError('total_rounds', deployment.rounds, 'must be at least one')
    population, cohort = self._sizes(
      deployment.population, deployment.cohort, deployment.parts
    )
    _check_sizes(population, cohort, deployment)
    self.check()
    return population, cohort

  def _sizes(self, population: int, cohort: int, parts: int) -> tuple[int, int]:
    """Returns population and cohort that are accounted for, given the simulated ones."""
    if self.accounted_population is not None:
      population = self.accounted_population // parts
    return population, self.accounted_cohort or cohort

  def settled_noise(
    self,
    cost: GaussianCost,
    deployment: mechanism.Deployment,
    delta: float,
    accountant: str,
  ) -> float:
    """Returns the noise multiplier, the least that keeps within `--target_epsilon`.

    Args:
      cost: What a round is; its own noise multiplier is not read.
      deployment: What it is for.
      delta: Delta of the guarantee.
      accountant: Who keeps it.
    """
    target = self.rounds_epsilon(deployment)
    if self.noise_multiplier is not None:
      return self.noise_multiplier
    assert target is not None  # By _check_noise.
    budget = calibration.Budget(target, delta, accountant)
    return calibration.noise_for_budget(cost, deployment.rounds, budget)

  def rounds_epsilon(self, deployment: mechanism.Deployment) -> float | None:
    """Returns what of `--target_epsilon` is left for rounds; see `left_for_rounds`."""
    target = self.target_epsilon
    return None if target is None else self.left_for_rounds(target, deployment)


@dataclasses.dataclass(frozen=True)
class CentralPrivacySettings(NoisySumSettings):
  """Flags of central user-level differential privacy."""

  promise = 'differential privacy for users; the server is trusted to add the noise'

  clip: float = setting(
    0.5,
    "L2 norm to which a user's update is clipped; where --adaptive_clipping "
    'starts. `inf` turns clipping off, which only a run without noise may do.',
    above=0,
  )
  simulated_cohorts: str | None = setting(
    None,
    'How a simulation draws users that stands for a Poisson-sampled deployment of other '
    'sizes: exactly --clients_per_round (fixed), each in its turn as dp_ftrl and '
    'distributed have them (separated), or each independently, too (as_accounted), so '
    'that a small cohort varies as no large one does. By default fixed where the '
    'accounted sizes differ from the simulated ones.',
    choices=('fixed', 'separated', 'as_accounted'),
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

  @classmethod
  def solve(cls, question: planning.Question) -> list[planning.Solution]:
    """See the base class."""
    return planning.solve_sampled_gaussian(question)

  def simulated_sampling(
    self, sampling: str, population: int, cohort: int, parts: int
  ) -> str:
    """Returns what was asked for where it stands for another one; see the base class.

    Raises:
      SettingsError: Such cohorts would make the promise to the run's own users false.
    """
    if sampling != 'poisson':
      return sampling
    accounted = self._sizes(population, cohort, parts)
    asked = self.simulated_cohorts
    if accounted != (population, cohort):
      return sampling if asked == 'as_accounted' else asked or 'fixed'
    if asked not in (None, 'as_accounted'):
      raise SettingsError(
        'simulated_cohorts',
        asked,
        f'the figure is about this run, {cohort:,} of {population:,} users, who must be '
        'drawn as it is accounted; leave the flag out, or account for another '
        'deployment with --accounted_population and --accounted_cohort',
      )
    return sampling

  def mechanism(self, deployment: mechanism.Deployment) -> CentralGaussian:
    """Makes the mechanism, with the least noise that keeps within `--target_epsilon`.

    See the base class.
    """
    population, cohort = self.accounted_sizes(deployment)
    num_coordinates = deployment.num_coordinates or mechanism.MANY_COORDINATES
    cost = SampledGaussian(
      deployment.sampling,
      population,
      cohort,
      self.noise_multiplier or 0.0,
      num_coordinates + self.adaptive_clipping,
    )
    accountant = self.settled_accountant(deployment.sampling)
    _check_accountant(accountant, cost)
    delta = self.settled_delta(population)
    return CentralGaussian(
      sampling=deployment.sampling,
      population=population,
      cohort=cohort,
      simulated_population=deployment.population,
      simulated_cohort=deployment.cohort,
      rounds=deployment.rounds,
      clip=self.clip,
      noise_multiplier=self.settled_noise(cost, deployment, delta, accountant),
      delta=delta,
      accountant=accountant,
      adaptive=_adaptive_clipping(self, cohort),
      noise_source=self.noise_source,
      budget_epsilon=self.target_epsilon,
      claim=self.privacy_claim,
      stream=deployment.stream_from(self.noise_source),
      num_coordinates=num_coordinates,
      unit=deployment.unit,
      simulated_sampling=deployment.simulated_sampling or deployment.sampling,
    )


def _adaptive_clipping(
  settings: CentralPrivacySettings, cohort: int
) -> AdaptiveClipping | None:
  """Returns the adaptive clipping that the flags ask for."""
  if not settings.adaptive_clipping:
    return None
  return AdaptiveClipping(
    settings.clip_quantile,
    settings.clip_learning_rate,
    count_stddev=cohort * COUNT_STDDEV_PER_COHORT,
  )


def _check_sizes(
  population: int, cohort: int, deployment: mechanism.Deployment
) -> None:
  """Refuses cohorts that are larger than what they are drawn from."""
  if deployment.cohort > deployment.population:
    raise SettingsError(
      'clients_per_round',
      deployment.cohort,
      f'must be at most the number of training users, {deployment.population}',
    )
  if cohort > population:
    raise SettingsError(
      'accounted_cohort',
      cohort,
      f'must be at most the accounted population, {population}; '
      'set --accounted_population too',
    )


def _check_noise(settings: NoisySumSettings) -> None:
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


def _check_accountant(accountant: str, cost: SampledGaussian) -> None:
  """Refuses an accountant that does not match how cohorts are drawn."""
  with_noise = dataclasses.replace(cost, noise_multiplier=1.0)
  if not accountants.supports(with_noise.event(), with_noise.relation, accountant):
    raise SettingsError(
      'accountant',
      accountant,
      f'cannot account cohorts drawn with {cost.sampling} size; use '
      '--accountant=rdp, or Poisson sampling',
    )
