"""What the epsilon of a card promises: only figures of one promise can be compared."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from tff_textpriv import metrics


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
