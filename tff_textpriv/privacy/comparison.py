"""Who must be trusted, and what that saves in noise: all trust models at one deployment.

The noise of each is told as one figure: the standard deviation, in clip norms, of
independent noise on the mean update of a round that would do to the sums over rounds what
its own noise does, in the root mean square over rounds. For independent noise that is its
own standard deviation; correlated noise cancels in sums, and counts for what is left.
"""

import dataclasses
import functools
import math
from collections.abc import Callable

from tff_textpriv.privacy import (
  calibration,
  participation,
  randomized_response,
  shuffling,
)
from tff_textpriv.privacy.central_settings import CentralPrivacySettings
from tff_textpriv.privacy.costs import SampledGaussian
from tff_textpriv.privacy.distributed_settings import DistributedPrivacySettings
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.ftrl_settings import FtrlPrivacySettings
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.privacy.priv_unit import PrivUnit
from tff_textpriv.privacy.sqkr import Sqkr
from tff_textpriv.privacy.vector_reports import VectorReports
from tff_textpriv.settings import SettingsError

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
# The noise on a round's mean, of reports of an epsilon at a place.
ReportNoise = Callable[[float, 'Place'], float]
# Numbers of a rotated update of norm C are hardly ever above 3 C / sqrt(d).
_RANGE = 3.0


@dataclasses.dataclass(frozen=True)
class Place:
  """A deployment in which mechanisms are compared.

  Attributes:
    population: Users who may take part.
    cohort: (Expected) users per round.
    rounds: Number of rounds.
    delta: Delta of all guarantees.
    num_coordinates: The size of an update.
  """

  population: int
  cohort: int
  rounds: int
  delta: float
  num_coordinates: int

  def __str__(self) -> str:
    return (
      f'{self.population:,} users, {self.cohort:,} per round, {self.rounds:,} rounds, '
      f'delta {self.delta:g}'
    )

  @property
  def separation(self) -> int:
    """The least number of rounds between participations, where users take turns."""
    return self.population // self.cohort

  @property
  def participations(self) -> int:
    """In how many rounds a user then takes part at most."""
    return participation.most_participations(self.rounds, self.separation)

  def deployment(self, sampling: str) -> Deployment:
    """Returns it as mechanisms want to know it."""
    return Deployment(
      sampling,
      self.population,
      self.cohort,
      rounds=self.rounds,
      num_coordinates=self.num_coordinates,
      separation=1 if sampling == 'poisson' else self.separation,
    )


@dataclasses.dataclass(frozen=True)
class TrustModel:
  """A way to keep a promise.

  Attributes:
    name: What it is called.
    trust: Who or what must be trusted.
    noise: Returns its noise at a place and an epsilon.
  """

  name: str
  trust: str
  noise: Callable[[Place, float], float]


def _central(place: Place, epsilon: float) -> float:
  settings = CentralPrivacySettings(target_epsilon=epsilon, delta=place.delta)
  plan = settings.mechanism(place.deployment('poisson'))
  return plan.noise_multiplier / place.cohort


def _correlated(kind: str) -> Callable[[Place, float], float]:
  def noise(place: Place, epsilon: float) -> float:
    settings = FtrlPrivacySettings(
      target_epsilon=epsilon, delta=place.delta, ftrl_noise=kind
    )
    plan = settings.mechanism(place.deployment('separated'))
    # The mean over t of the variances t of sums of t independent numbers.
    independent = math.sqrt((place.rounds + 1) / 2)
    left = plan.strategy.prefix_error() / independent
    return plan.noise_multiplier * left / place.cohort

  return noise


def _distributed(place: Place, epsilon: float) -> float:
  settings = DistributedPrivacySettings(target_epsilon=epsilon, delta=place.delta)
  plan = settings.mechanism(place.deployment('separated'))
  # All clients add noise, those who are not counted on, too.
  everybody = math.sqrt(plan.cohort / plan.counted_clients)
  return plan.noise_multiplier * everybody / place.cohort


def _bits(report_epsilon: float, place: Place) -> float:
  """Returns the noise of rotated updates of which some coordinates are sent as bits.

  A report has s bits of report_epsilon / s each; what is sent of a coordinate stands for
  q d / s (2p - 1), and q = 3 C / sqrt(d). So the noise on a coordinate of the mean is
  3 C / (sqrt(s m) (2p - 1)), whatever d is; s is the best.
  """
  most = max(1, math.ceil(report_epsilon))
  return min(
    _RANGE / (math.sqrt(number * place.cohort) * _contrast(report_epsilon / number))
    for number in range(1, most + 1)
  )


def _contrast(epsilon: float) -> float:
  return randomized_response.BitResponse(epsilon).contrast


def _few_bits(report_epsilon: float, place: Place) -> float:
  return _of_reports(Sqkr(report_epsilon, place.num_coordinates), place)


def _vectors(report_epsilon: float, place: Place) -> float:
  return _of_reports(PrivUnit(report_epsilon, place.num_coordinates), place)


def _of_reports(reports: VectorReports, place: Place) -> float:
  return reports.noise / math.sqrt(place.cohort)


def _local(report_noise: ReportNoise) -> Callable[[Place, float], float]:
  return lambda place, epsilon: report_noise(epsilon / place.participations, place)


def _shuffled(report_noise: ReportNoise) -> Callable[[Place, float], float]:
  return lambda place, epsilon: report_noise(_behind_shuffler(place, epsilon), place)


@functools.lru_cache(maxsize=64)
def _behind_shuffler(place: Place, epsilon: float) -> float:
  """Returns the local epsilon of a report, whichever mechanism makes it."""
  return shuffling.local_epsilon_for(
    epsilon, place.cohort, place.participations, place.delta
  )


def _local_gaussian(place: Place, epsilon: float) -> float:
  one_user = SampledGaussian('poisson', 1, 1, 1.0)
  budget = calibration.Budget(epsilon, place.delta, 'pld')
  noise = calibration.noise_for_budget(one_user, place.participations, budget)
  # Any update may stand in place of any other: two clip norms.
  return 2 * noise / math.sqrt(place.cohort)


TRUST_MODELS = (
  TrustModel(
    'central, random cohorts',
    'the server, and that nobody knows who was drawn',
    _central,
  ),
  TrustModel('central, BLT', 'the server', _correlated('blt')),
  TrustModel('central, banded', 'the server', _correlated('banded')),
  TrustModel('central, tree', 'the server', _correlated('tree')),
  TrustModel(
    'distributed', 'secure aggregation, and most of a cohort’s devices', _distributed
  ),
  TrustModel('shuffled PrivUnitG', 'a shuffler', _shuffled(_vectors)),
  TrustModel('shuffled bits', 'a shuffler', _shuffled(_bits)),
  TrustModel('local PrivUnitG', 'nobody', _local(_vectors)),
  TrustModel('local SQKR', 'nobody', _local(_few_bits)),
  TrustModel('local bits', 'nobody', _local(_bits)),
  TrustModel('local Gaussian', 'nobody', _local_gaussian),
)


def noises(place: Place) -> dict[str, list[float | None]]:
  """Returns the noise of each trust model at each of `EPSILONS`."""
  return {
    model.name: [noise(model, place, epsilon) for epsilon in EPSILONS]
    for model in TRUST_MODELS
  }


def noise(model: TrustModel, place: Place, epsilon: float) -> float | None:
  """Returns the noise of a trust model, or `None` where it cannot keep the promise."""
  try:
    return model.noise(place, epsilon)
  except (PrivacyError, SettingsError):
    return None
