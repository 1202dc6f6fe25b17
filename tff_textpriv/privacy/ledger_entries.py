"""What a ledger is made of: things that were released, and what they cost together."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import dp_accounting

from tff_textpriv.privacy import accountants
from tff_textpriv.privacy.costs import ADD_OR_REMOVE_ONE, Cost
from tff_textpriv.privacy.errors import PrivacyError

CENTRAL = 'central'
LOCAL = 'local'
POST_PROCESSING = 'post_processing'
NO_GUARANTEE = 'no_guarantee'
_HAS_COST = {CENTRAL: True, LOCAL: True, POST_PROCESSING: False, NO_GUARANTEE: False}


@dataclasses.dataclass(frozen=True)
class Entry:
  """Something that was released, `count` times.

  Attributes:
    kind: 'central' (a trusted server added noise), 'local' (users randomized their
      reports), 'post_processing' (costs nothing) or 'no_guarantee'.
    name: A short name, such as 'training rounds'.
    description: A sentence about it.
    count: How many times it happened.
    cost: What it costs each time.
    group: Which users it was about; empty for all. Users belong to one group at
      most, so that groups do not add up: the ledger's figure is that of the group
      that spent most.
    by_user: Whether `count` is the number of rounds of the user who took part most
      often, instead of the number of all rounds.
  """

  kind: str
  name: str
  description: str
  count: int = 1
  cost: Cost | None = None
  group: str = ''
  by_user: bool = False

  def __post_init__(self) -> None:
    if (
      _HAS_COST.get(self.kind) is not (self.cost is not None)
      or not isinstance(self.count, int)
      or self.count < 0
    ):
      raise PrivacyError(f'not a ledger entry: {self}')

  @property
  def own_delta(self) -> float:
    """What it takes of the ledger's delta."""
    return 0.0 if self.cost is None else self.count * self.cost.own_delta

  @property
  def relation(self) -> dp_accounting.NeighboringRelation | None:
    """Which data sets are neighbours, where the cost depends on it."""
    return None if self.cost is None else self.cost.relation

  def to_json(self) -> dict[str, Any]:
    """Returns the entry as JSON values."""
    fields = {field.name: getattr(self, field.name) for field in _FIELDS}
    return {**fields, 'cost': self.cost and self.cost.to_json()}

  @classmethod
  def from_json(cls, fields: Mapping[str, Any]) -> 'Entry':
    """Reads what `to_json` wrote."""
    cost = fields['cost']
    return cls(**{**fields, 'cost': None if cost is None else Cost.from_json(cost)})


_FIELDS = dataclasses.fields(Entry)
Entries = tuple[Entry, ...]


def composition(
  entries: Entries,
) -> tuple[dp_accounting.DpEvent, dp_accounting.NeighboringRelation]:
  """Returns the event of all that an accountant composes, and its relation."""
  counts: dict[Cost, int] = {}
  for entry in entries:
    if entry.cost is not None and entry.cost.event() is not None:
      counts[entry.cost] = counts.get(entry.cost, 0) + entry.count
  parts = _joined(cost.composed(count) for cost, count in counts.items())
  relations = [cost.relation for cost in counts if cost.relation is not None]
  return (
    dp_accounting.ComposedDpEvent(parts),
    relations[0] if relations else ADD_OR_REMOVE_ONE,
  )


def _joined(
  events: Iterable[dp_accounting.DpEvent],
) -> tuple[dp_accounting.DpEvent, ...]:
  """Returns events with all Gaussian mechanisms among them as one, which they are.

  Mechanisms of noise multipliers z_i, each of which may depend on what those before it
  released, are together exactly as private as one of (sum_i z_i^-2)^(-1/2) (Dong et al.,
  Gaussian Differential Privacy, 2022, Corollary 3.3). An accountant who composes them
  finds the same, up to the rounding of losses, which is spared.
  """
  parts = tuple(events)
  gaussians = [e for e in parts if isinstance(e, dp_accounting.GaussianDpEvent)]
  if len(gaussians) < 2:
    return parts
  moved = math.hypot(*(1 / event.noise_multiplier for event in gaussians))
  others = (event for event in parts if event not in gaussians)
  return (dp_accounting.GaussianDpEvent(1 / moved), *others)


def spent(entries: Entries, delta: float, accountant: str) -> float:
  """Returns the epsilon of entries, `NO_GUARANTEE` ones left aside.

  Args:
    entries: What was released.
    delta: Delta of all of them; what costs have of their own is taken from it first.
    accountant: 'rdp' or 'pld'.

  Raises:
    PrivacyError: The accountant cannot account the entries.
  """
  groups = {entry.group for entry in entries if entry.group} or {''}
  return max(
    _spent_on(
      tuple(entry for entry in entries if entry.group in ('', group)), delta, accountant
    )
    for group in groups
  )


def _spent_on(entries: Entries, delta: float, accountant: str) -> float:
  """Returns the epsilon of entries that are all about the same users."""
  delta -= sum(entry.own_delta for entry in entries)
  if delta <= 0:
    return math.inf
  costs = [(entry.cost, entry.count) for entry in entries if entry.cost is not None]
  accounted = any(cost.event() is not None for cost, _ in costs)
  own = [(cost, count) for cost, count in costs if cost.event() is None]
  # What is composed with a delta of its own gets an equal share of it.
  parts = sum(cost.shares_delta for cost, _ in own) + accounted
  share = delta / max(1, parts)
  event, relation = composition(entries)
  return (
    accountants.epsilon(event, share, relation, accountant)
    + sum(count * cost.own_epsilon for cost, count in costs)
    + sum(cost.epsilon(count, share) for cost, count in own)
  )
