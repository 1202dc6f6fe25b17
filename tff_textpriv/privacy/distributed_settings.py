"""The flags of distributed differential privacy, checked before anything is trained."""

import dataclasses
import math

from tff_textpriv.privacy import (
  central_settings,
  device_noise,
  mechanism,
  planning,
  secure_sum,
)
from tff_textpriv.privacy.distributed import SEPARATED, DistributedNoise
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.settings import SettingsError, setting

# Where nobody says how many devices may drop out: a tenth, and more where cohorts, whose
# sizes vary by their root, are small.
_MISSING_SHARE = 0.1
_DEVIATIONS = 3.0
_LARGEST_SHARE = 0.9
# What is assumed of an update before its size is known.
_SOME_COORDINATES = 2**16
_LARGEST_LOG_NOISE = 12.0
_NOISE_TOLERANCE = 1e-6
_MOST_ROUNDS = 10_000


@dataclasses.dataclass(frozen=True)
class DistributedPrivacySettings(central_settings.NoisySumSettings):
  """Flags of noise that clients add, of which the server sees sums only."""

  promise = (
    'differential privacy for users; the server sees noisy sums only, by secure '
    'aggregation'
  )

  noise_multiplier: float | None = setting(
    None,
    'Standard deviation of the noise that is counted on in a sum, over the clip norm.',
    low=0,
    below=math.inf,
  )
  cohort_sampling: str = setting(
    SEPARATED,
    'How users come: each when it is its turn, as many rounds apart as the users allow.',
    choices=(SEPARATED,),
  )
  accountant: str = setting(
    'auto',
    'Accountant of the figure: only Renyi divergences are known of such sums.',
    choices=('auto', 'rdp'),
  )
  device_noise: str = setting(
    device_noise.DISCRETE_GAUSSIAN,
    'The law of the whole numbers that each device adds.',
    choices=device_noise.LAWS,
  )
  modular_bits: str = setting(
    '32',
    'Bits of each number that a device sends; sums are kept modulo 2 to this. Fewer are '
    'cheaper to send, and rounding to them costs noise.',
    choices=tuple(map(str, secure_sum.BITS)),
  )
  missing_share: float | None = setting(
    None,
    'Share of a cohort whose noise may be missing, because devices dropped out or help '
    'the server; with fewer clients left, a round is abandoned. By default a tenth, and '
    'more where cohorts are small and vary.',
    low=0,
    below=1,
  )

  @classmethod
  def solve(cls, question: planning.Question) -> list[planning.Solution]:
    """See the base class; with the defaults of the other flags."""
    return [_solve(question)]

  def mechanism(self, deployment: mechanism.Deployment) -> DistributedNoise:
    """Makes the mechanism, with the least noise that keeps within `--target_epsilon`.

    See the base class.
    """
    population, cohort = self.accounted_sizes(deployment)
    separation = deployment.separation
    if (population, cohort) != (deployment.population, deployment.cohort):
      separation = population // cohort
    delta = self.settled_delta(population)
    plan = DistributedNoise(
      sampling=deployment.sampling,
      population=population,
      cohort=cohort,
      simulated_population=deployment.population,
      simulated_cohort=deployment.cohort,
      rounds=deployment.rounds,
      clip=self.clip,
      noise_multiplier=self.noise_multiplier or 0.0,
      delta=delta,
      accountant='rdp',
      noise_source=self.noise_source,
      budget_epsilon=self.target_epsilon,
      claim=self.privacy_claim,
      stream=deployment.stream_from(self.noise_source),
      num_coordinates=deployment.num_coordinates or _SOME_COORDINATES,
      unit=deployment.unit,
      device_noise=self.device_noise,
      bits=int(self.modular_bits),
      missing_share=self._missing_share(cohort),
      separation=separation,
      simulated_separation=deployment.separation,
    )
    if self.noise_multiplier == 0:
      raise SettingsError(
        'noise_multiplier', 0, 'devices that add no noise hide nothing; use fed_avg'
      )
    target = self.rounds_epsilon(deployment)
    if self.noise_multiplier is not None:
      return plan
    assert target is not None  # By the check of the sizes.
    return calibrated(plan, target)

  def _missing_share(self, cohort: int) -> float:
    """Returns the share of a cohort whose noise is not counted on."""
    if self.missing_share is not None:
      return self.missing_share
    varying = _DEVIATIONS / math.sqrt(cohort)
    return min(_LARGEST_SHARE, max(_MISSING_SHARE, varying))


def calibrated(plan: DistributedNoise, epsilon: float) -> DistributedNoise:
  """Returns the plan with the least noise that keeps within an epsilon.

  Raises:
    PrivacyError: No noise does.
  """

  def with_noise(log_noise: float) -> DistributedNoise:
    return dataclasses.replace(plan, noise_multiplier=math.exp(log_noise))

  def fits(log_noise: float) -> bool:
    spent = with_noise(log_noise).cost.epsilon(plan.rounds, plan.delta)
    return spent <= epsilon

  low = high = 0.0
  while not fits(high):
    low, high = high, high + 1
    if high > _LARGEST_LOG_NOISE:
      raise PrivacyError(
        f'no noise of devices up to {math.exp(_LARGEST_LOG_NOISE):,.0f} clip norms keeps '
        f'{plan.rounds:,} rounds within epsilon {epsilon:g} at delta {plan.delta:g}'
      )
  while low > -_LARGEST_LOG_NOISE and fits(low):
    low, high = low - 1, low
  while high - low > _NOISE_TOLERANCE:
    middle = (low + high) / 2
    low, high = (low, middle) if fits(middle) else (middle, high)
  return with_noise(high)


def _solve(question: planning.Question) -> planning.Solution:
  """Solves for what is left out."""
  unknown, target = question.unknown, question.epsilon
  # Whether a run would claim its delta is for the tool to say.
  settings = DistributedPrivacySettings(
    noise_multiplier=question.noise_multiplier or 1.0,
    delta=question.delta,
    privacy_claim=False,
  )

  def at(cohort: int, rounds: int) -> DistributedNoise:
    return settings.mechanism(
      mechanism.Deployment(
        SEPARATED,
        question.population,
        cohort,
        rounds=rounds,
        num_coordinates=question.num_coordinates,
        separation=question.population // cohort,
      )
    )

  def spends(plan: DistributedNoise) -> float:
    return plan.cost.epsilon(plan.rounds, plan.delta)

  cohort, rounds = question.cohort or 1, question.rounds or 1
  if target is not None and unknown == 'cohort':
    cohort = planning.largest(
      lambda size: spends(at(size, rounds)) <= target, question.population
    )
  elif target is not None and unknown == 'rounds':
    rounds = planning.largest(
      lambda number: spends(at(cohort, number)) <= target, _MOST_ROUNDS
    )
  plan = at(cohort, rounds)
  if target is not None and unknown == 'noise_multiplier':
    plan = calibrated(plan, target)
  return planning.Solution(
    'rdp',
    spends(plan),
    cohort,
    rounds,
    SEPARATED,
    plan.cost.relation,
    noise_multiplier=plan.noise_multiplier,
  )
