"""What a ledger is made of: things that were released, and what they cost together."""

import dataclasses
import math

import dp_accounting

from tff_textpriv.privacy import calibration
from tff_textpriv.privacy.central import CentralDpPlan
from tff_textpriv.privacy.local import LdpPlan, Reports
from tff_textpriv.privacy.local_gaussian import LocalGaussianPlan
from tff_textpriv.privacy.mechanism import PrivacyError, SampledGaussian

CENTRAL = 'central'
LOCAL = 'local'
POST_PROCESSING = 'post_processing'
NO_GUARANTEE = 'no_guarantee'
_KINDS = (CENTRAL, LOCAL, POST_PROCESSING, NO_GUARANTEE)


@dataclasses.dataclass(frozen=True)
class Entry:
  """Something that was released, `count` times.

  Attributes:
    kind: 'central' (rounds of `mechanism`), 'local' (reports that users
      randomized themselves), 'post_processing' (costs nothing) or 'no_guarantee'.
    name: A short name, such as 'training rounds'.
    description: A sentence about it.
    count: How many times it happened.
    mechanism: The mechanism of a central entry, or of a local one whose rounds are
      composed by the accountant; `count` is then as for `reports`.
    epsilon: Cost per time of a local entry that is added to the rest.
    delta: Delta per time of a local entry.
    reports: The randomized bits of a local entry that is composed; `count` is then the
      number of rounds of the user who took part most often.
    group: Which users it was about; empty for all. Users belong to one group at
      most, so that groups do not add up: the ledger's figure is that of the group
      that spent most.
  """

  kind: str
  name: str
  description: str
  count: int = 1
  mechanism: SampledGaussian | None = None
  epsilon: float = 0.0
  delta: float = 0.0
  reports: Reports | None = None
  group: str = ''

  def __post_init__(self) -> None:
    has_mechanism = self.mechanism is not None
    allowed = {CENTRAL: has_mechanism, LOCAL: not (has_mechanism and self.reports)}
    numbers = (self.count, self.epsilon, self.delta)
    if (
      self.kind not in _KINDS
      or not allowed.get(self.kind, not has_mechanism)
      or not isinstance(self.count, int)
      or not all(isinstance(n, int | float) and 0 <= n < math.inf for n in numbers)
    ):
      raise PrivacyError(f'not a ledger entry: {self}')

  @property
  def is_by_user(self) -> bool:
    """Whether it counts the rounds of the user who took part most often."""
    return self.kind == LOCAL and (self.reports or self.mechanism) is not None


Entries = tuple[Entry, ...]


def of_round(plan: CentralDpPlan, name: str, group: str) -> Entry:
  """Returns the entry of one round of `plan`."""
  description = (
    f'Gaussian noise on the sum over a {plan.sampling} cohort of '
    f'{plan.cohort:,} of {plan.population:,} users, '
    f'noise multiplier {plan.noise_multiplier:.4g}'
  )
  return Entry(CENTRAL, name, description, mechanism=plan.mechanism, group=group)


def of_report(plan: LdpPlan | LocalGaussianPlan, name: str, group: str) -> Entry | None:
  """Returns the entry of one report; `None` if it has no mechanism to account."""
  if isinstance(plan, LocalGaussianPlan):
    if plan.mechanism.noise_multiplier == 0:
      return None
    return Entry(
      LOCAL, name, plan.report_description, mechanism=plan.mechanism, group=group
    )
  description = (
    f'{plan.num_reported:,} of {plan.num_coordinates:,} coordinates, one bit each of '
    f'local epsilon {plan.epsilon:g}; times: rounds of the user with most rounds'
  )
  return Entry(LOCAL, name, description, reports=plan.reports, group=group)


def composition(
  entries: Entries,
) -> tuple[dp_accounting.DpEvent, dp_accounting.NeighboringRelation]:
  """Returns the event of all central entries and their neighbouring relation."""
  rounds: dict[SampledGaussian, int] = {}
  for entry in entries:
    if entry.mechanism is not None:
      rounds[entry.mechanism] = rounds.get(entry.mechanism, 0) + entry.count
  parts = tuple(
    dp_accounting.SelfComposedDpEvent(mechanism.event(), count)
    for mechanism, count in rounds.items()
  )
  relations = [mechanism.neighbouring_relation for mechanism in rounds]
  return (
    dp_accounting.ComposedDpEvent(parts),
    relations[0] if relations else dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
  )


def spent(entries: Entries, delta: float, accountant: str) -> float:
  """Returns the epsilon of entries, `NO_GUARANTEE` ones left aside.

  Args:
    entries: What was released.
    delta: Delta of what is composed; that of other local entries is theirs.
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
  bits = [(entry.reports, entry.count) for entry in entries if entry.reports]
  has_central = any(entry.mechanism is not None for entry in entries)
  # What is composed with a delta of its own gets an equal share of it.
  share = delta / max(1, len(bits) + has_central)
  event, relation = composition(entries)
  return (
    calibration.epsilon(event, share, relation, accountant)
    + sum(reports.composed_epsilon(rounds, share) for reports, rounds in bits)
    + sum(entry.count * entry.epsilon for entry in entries)
  )
