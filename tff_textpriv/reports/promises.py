"""What the epsilon of a card promises: only figures of one promise can be compared."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from tff_textpriv.reports import runs

_RELATIONS = {
  'ADD_OR_REMOVE_ONE': 'a user added or removed',
  'REPLACE_ONE': 'a user replaced by another',
}


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

  def is_at_least(self, other: 'Promise') -> bool:
    """Tells whether it is known to promise as much as another one, or more."""
    if other.epsilon is None:
      return True
    if self.epsilon is None or self.label != other.label:
      return False
    return self.epsilon <= other.epsilon


def shown(epsilon: float | None) -> str:
  """Writes an epsilon, rounded up as a bound must be; `none` without a guarantee."""
  if epsilon is None:
    return 'none'
  digits = 3 if epsilon < 100 else 0
  scale = 10**digits
  return f'{math.ceil(round(epsilon * scale, 6)) / scale:,.{digits}f}'


NONE = Promise(None, 'no formal guarantee', 'Nothing is promised.')


def read(card: Mapping[str, Any] | None) -> Promise:
  """Reads the promise of a privacy card."""
  epsilon = runs.number((card or {}).get('epsilon'))
  if card is None or epsilon is None:
    return NONE
  delta = f'delta {runs.number(card.get("delta")) or 0:g}'
  plan = card.get('plan')
  if not isinstance(plan, Mapping) or 'neighbouring_relation' not in plan:
    return Promise(
      epsilon, f'local, a user’s whole run, {delta}', _local_explanation(plan)
    )
  relation = _RELATIONS.get(str(plan['neighbouring_relation']), 'neighbouring data')
  parts = ['central', relation]
  explanation = (
    f'Central: {relation} changes the probability of whatever is released by a factor of '
    'e^epsilon at most, delta aside. The aggregator is trusted.'
  )
  if _sizes(plan, 'accounted') != _sizes(plan, 'simulated'):
    parts.append('accounted deployment')
    explanation += ' The figure is that of a deployment of the accounted size, not of the simulation.'
  entries = card.get('ledger')
  if isinstance(entries, list) and any(_is_local(entry) for entry in entries):
    parts.append('with local reports')
    explanation += ' What users reported locally for the tokenizer has been added.'
  return Promise(epsilon, ', '.join([*parts, delta]), explanation)


def _local_explanation(plan: Any) -> str:
  explanation = (
    'Local: the figure is of everything that one user sends in the whole run, against '
    'whoever collects it, for the user who took part most often.'
  )
  per_coordinate = isinstance(plan, Mapping) and plan.get('epsilon_per_coordinate')
  if per_coordinate:
    explanation += (
      ' The setting epsilon_per_coordinate is of one bit in one round; it is another '
      'figure and is not compared with these.'
    )
  return explanation


def _is_local(entry: Any) -> bool:
  return isinstance(entry, Mapping) and entry.get('kind') == 'local'


def _sizes(plan: Mapping[str, Any], which: str) -> tuple[Any, Any]:
  return plan.get(f'{which}_population'), plan.get(f'{which}_cohort')
