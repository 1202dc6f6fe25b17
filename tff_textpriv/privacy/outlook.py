"""What can be foreseen of a private run: whether its noise drowns what users send.

In a round the noise on the mean has norm r, in units of the largest update. Over T rounds
what users agree on adds up to T of these units at most, noise to r sqrt(T). So

  T / (r sqrt(T)) = sqrt(T) / r

is how far what is learnt can stand out. It is an upper bound, but what is learnt is also not
spread over all coordinates as noise is. Classifiers of hashed words stopped beating the most
frequent class clearly below 1 (docs/first_own_data.md).
"""

import bisect
import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.mechanism import Deployment, Mechanism, MechanismSettings
from tff_textpriv.settings import SettingsError

# Settings, and the deployment that they are for.
_Tried = tuple[MechanismSettings, Deployment]

# Below this a model is not to be expected to learn.
ENOUGH = 1.0
_MOST_TIMES = 1e4
_LARGEST_EPSILON = 64.0


@dataclasses.dataclass(frozen=True)
class Outlook:
  """What is foreseen.

  Attributes:
    noise: The norm of the noise on the mean of a round, in units of the largest update.
    rounds: The number of rounds.
  """

  noise: float
  rounds: int

  @property
  def strength(self) -> float:
    """How far what all users agree on stands out of the noise after all rounds."""
    return math.sqrt(self.rounds) / self.noise

  @property
  def is_enough(self) -> bool:
    """Whether a model can be expected to learn something."""
    return self.strength >= ENOUGH

  def __str__(self) -> str:
    return (
      f'on the mean of a round {shown(self.noise)} times the largest update; after '
      f'{self.rounds:,} rounds what users agree on stands out {shown(self.strength)} '
      f'times, and {ENOUGH:g} is needed'
    )


def shown(number: float) -> str:
  """Writes a ratio in two digits."""
  return f'{number:.2g}' if number < 10 else f'{number:,.0f}'


def foresee(mechanism: Mechanism, deployment: Deployment) -> Outlook | None:
  """Foresees what comes of a mechanism; `None` if it has no noise, or does not say."""
  if deployment.num_coordinates is None:
    return None
  noise = mechanism.relative_noise(deployment.num_coordinates)
  return None if noise is None else Outlook(noise, deployment.rounds)


def estimate(settings: MechanismSettings, deployment: Deployment) -> Outlook | None:
  """Foresees what comes of settings, quickly; `None` also if they keep no promise."""
  try:
    return foresee(_quickly_accounted(settings).mechanism(deployment), deployment)
  except (PrivacyError, SettingsError):
    return None


def remedies(settings: MechanismSettings, deployment: Deployment) -> list[str]:
  """Says what would be enough: how many users, or which epsilon; perhaps nothing would."""
  found = []
  more = _first_enough(list(_more_users(settings, deployment)))
  if more is not None:
    accounted, one = more
    population = getattr(accounted, 'accounted_population', None) or one.population
    cohort = getattr(accounted, 'accounted_cohort', None) or one.cohort
    found.append(
      f'about {_round_up(population):,} users, {_round_up(cohort):,} of them per round'
    )
  epsilon = getattr(settings, 'target_epsilon', None)
  if epsilon is not None:
    larger = _first_enough(list(_larger_epsilons(settings, deployment, epsilon)))
    if larger is not None:
      enough = math.ceil(vars(larger[0])['target_epsilon'] * 2) / 2
      found.append(f'--target_epsilon={enough:g}')
  return found


def _more_users(
  settings: MechanismSettings, deployment: Deployment
) -> Iterator[_Tried]:
  """Yields deployments of more and more users, and the settings that go with them."""
  accounted = {
    name: getattr(settings, name)
    for name in ('accounted_population', 'accounted_cohort')
    if getattr(settings, name, None) is not None
  }
  times = math.sqrt(2)
  while times < _MOST_TIMES:
    scaled = {name: int(value * times) for name, value in accounted.items()}
    # What is simulated is no matter where another deployment is accounted for.
    one = deployment if accounted else _scaled(deployment, times)
    yield dataclasses.replace(settings, **scaled), one
    times *= math.sqrt(2)


def _scaled(deployment: Deployment, times: float) -> Deployment:
  return dataclasses.replace(
    deployment,
    population=int(deployment.population * times),
    cohort=int(deployment.cohort * times),
  )


def _first_enough(tried: Sequence[_Tried]) -> _Tried | None:
  """Returns the first of ever larger ones that would do; looks at few of them.

  Each look calibrates noise, which takes seconds where cohorts are of a fixed size.
  """
  place = bisect.bisect_left(tried, True, key=lambda one: _is_enough(*one))
  return tried[place] if place < len(tried) else None


def _larger_epsilons(
  settings: MechanismSettings, deployment: Deployment, epsilon: float
) -> Iterator[_Tried]:
  """Yields larger and larger epsilons, up to one that means nothing any more."""
  while epsilon < _LARGEST_EPSILON:
    epsilon *= math.sqrt(2)
    larger: dict[str, Any] = {'target_epsilon': epsilon}
    yield dataclasses.replace(settings, **larger), deployment


def _is_enough(settings: MechanismSettings, deployment: Deployment) -> bool:
  found = estimate(settings, deployment)
  return found is not None and found.is_enough


def _quickly_accounted(settings: MechanismSettings) -> MechanismSettings:
  """Returns the settings with the quicker accountant: an estimate needs no other."""
  if getattr(settings, 'accountant', None) != 'auto':
    return settings
  by_rdp: dict[str, Any] = {'accountant': 'rdp'}
  return dataclasses.replace(settings, **by_rdp)


def _round_up(number: int) -> int:
  """Rounds to two digits: more would say more than is known."""
  unit = 10 ** max(0, len(str(number)) - 2)
  return math.ceil(number / unit) * unit
