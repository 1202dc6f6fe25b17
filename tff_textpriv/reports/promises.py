"""What the epsilon of a card promises: only figures of one promise can be compared."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from tff_textpriv import metrics
from tff_textpriv.privacy import accountants, errors
from tff_textpriv.privacy.costs import SAMPLINGS, SampledGaussian

# Other cohorts and rounds, in units of the plan's.
_FACTORS = (0.5, 1, 2)


@dataclasses.dataclass(frozen=True)
class Promise:
  """A privacy figure and what it is of.

  Attributes:
    epsilon: The figure of the card; `None` without a guarantee.
    label: What it is of, in short. Figures of different labels are not comparable.
    explanation: The same in a sentence.
  """

  epsilon: float | None
  label: str
  explanation: str

  @property
  def shown(self) -> str:
    """The figure as it is shown."""
    return shown(self.epsilon)

  @property
  def placed(self) -> float | None:
    """The figure where charts have it: as it is shown, so that equals stand together."""
    return None if self.epsilon is None else rounded(self.epsilon)

  def is_at_least(self, other: 'Promise') -> bool:
    """Tells whether it is known to promise as much as another one, or more."""
    if other.epsilon is None:
      return True
    if self.epsilon is None or self.label != other.label:
      return False
    return rounded(self.epsilon) <= rounded(other.epsilon)


def shown(epsilon: float | None) -> str:
  """Writes an epsilon, rounded up as a bound must be; `none` without a guarantee."""
  if epsilon is None:
    return 'none'
  return f'{rounded(epsilon):,.{_digits(epsilon)}f}'


def rounded(epsilon: float) -> float:
  """Rounds an epsilon as it is printed: those that are printed alike are alike."""
  scale = 10 ** _digits(epsilon)
  return math.ceil(round(epsilon * scale, 6)) / scale


def _digits(epsilon: float) -> int:
  return 3 if epsilon < 100 else 0


NONE = Promise(None, 'no formal guarantee', 'Nothing is promised.')


def read(card: Mapping[str, Any] | None) -> Promise:
  """Reads the promise of a privacy card; of one that does not say, nothing is assumed."""
  epsilon = metrics.number((card or {}).get('epsilon'))
  if card is None or epsilon is None:
    return NONE
  promise = card.get('promise')
  words = promise if isinstance(promise, Mapping) else {}
  return Promise(
    epsilon,
    str(words.get('label', 'of an unknown kind')),
    str(words.get('explanation', 'The card does not say what the figure is of.')),
  )


def curve(card: Mapping[str, Any] | None) -> list[tuple[int, float]]:
  """Reads the epsilons of a card at other deltas: x of delta = 10^-x, and epsilon."""
  points = (card or {}).get('curve')
  found = []
  for point in points if isinstance(points, list) else ():
    values = point if isinstance(point, Mapping) else {}
    delta = metrics.number(values.get('delta'))
    epsilon = metrics.number(values.get('epsilon'))
    if delta is not None and epsilon is not None and 0 < delta < 1:
      found.append((round(-math.log10(delta)), epsilon))
  return found


def other_plans(
  card: Mapping[str, Any] | None,
) -> tuple[list[str], list[list[str]]] | None:
  """Returns what other cohorts and rounds would cost at the noise of a card's plan.

  Returns:
    The header and the rows of a table, rounds by cohorts; `None` where the card is of no
    Poisson-sampled or fixed cohorts with Gaussian noise.
  """
  plan = (card or {}).get('plan')
  plan = plan if isinstance(plan, Mapping) else {}
  names = (
    'accounted_population',
    'accounted_cohort',
    'rounds_planned',
    'noise_multiplier',
  )
  numbers = [metrics.number(plan.get(name)) for name in names]
  delta = metrics.number((card or {}).get('delta'))
  sampling = plan.get('sampling')
  if delta is None or None in numbers or sampling not in SAMPLINGS:
    return None
  population, cohort, rounds, noise = (number or 0 for number in numbers)
  if not (0 < cohort <= population and rounds >= 1 and noise > 0 and 0 < delta < 1):
    return None
  cohorts = sorted({max(1, min(int(population), int(cohort * k))) for k in _FACTORS})
  all_rounds = sorted({max(1, int(rounds * k)) for k in _FACTORS})

  def epsilon(users: int, number: int) -> str:
    cost = SampledGaussian(sampling, int(population), users, noise)
    try:
      return shown(accountants.epsilon_of_rounds(cost, number, delta, 'rdp'))
    except (errors.PrivacyError, ValueError, OverflowError):
      return '–'

  header = ['', *(f'{users:,} per round' for users in cohorts)]
  rows = [
    [f'{number:,} rounds', *(epsilon(users, number) for users in cohorts)]
    for number in all_rounds
  ]
  return header, rows
