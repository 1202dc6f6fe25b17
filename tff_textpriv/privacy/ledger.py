"""The ledger: an append-only record of what a run has spent.

It is part of the checkpoint, so that a run that was stopped and resumed knows
everything that was released before. Counts only ever rise.
"""

import dataclasses
import json
import math
from collections.abc import Iterable
from typing import Any

from tff_textpriv.privacy import calibration, ledger_entries
from tff_textpriv.privacy.central import CentralDpPlan
from tff_textpriv.privacy.ledger_entries import Entry
from tff_textpriv.privacy.local import LdpPlan, Reports
from tff_textpriv.privacy.local_gaussian import LocalGaussianPlan
from tff_textpriv.privacy.mechanism import PrivacyError, SampledGaussian


@dataclasses.dataclass
class Ledger:
  """What was spent so far, and what the next round would make of it.

  Attributes:
    delta: Delta of the guarantee as a whole.
    accountant: 'rdp' or 'pld', of the headline figure.
    entries: The record, in order of first appearance. Only the `charge_...`
      and `note_...` methods write it.
    rounds_by_user: In how many rounds each user has sent randomized reports, by a name
      that tells nothing of the user.
  """

  delta: float
  accountant: str = 'rdp'
  entries: tuple[Entry, ...] = ()
  rounds_by_user: dict[str, int] = dataclasses.field(default_factory=dict)
  _known: dict[Any, tuple[int, float]] = dataclasses.field(
    default_factory=dict, init=False, repr=False, compare=False
  )

  def __post_init__(self) -> None:
    if not 0 < self.delta < 1 or self.accountant not in calibration.ACCOUNTANTS:
      raise PrivacyError(
        f'no ledger for delta {self.delta} and accountant {self.accountant!r}'
      )
    if self._central_delta() <= 0:
      raise PrivacyError(f'the entries spend more than the delta {self.delta:g}')

  def charge_round(
    self, plan: CentralDpPlan, name: str = 'training rounds', group: str = ''
  ) -> None:
    """Records one more round of `plan`.

    Args:
      plan: What was done.
      name: A short name.
      group: The users from whom the cohorts are drawn; see `Entry`.

    Raises:
      PrivacyError: The round would exceed the plan's budget, its delta is not
        the ledger's, or its neighbouring relation is not that of earlier rounds.
    """
    if self.would_exceed(plan, group):
      raise PrivacyError(
        f'one more round would exceed the budget of epsilon {plan.budget_epsilon:g}'
      )
    if plan.no_guarantee_reason is not None:
      self.note_no_guarantee(name, plan.no_guarantee_reason)
    self._add(self._round_entry(plan, name, group))

  def charge_local(
    self,
    name: str,
    description: str,
    epsilon: float,
    delta: float = 0.0,
    group: str = '',
  ) -> None:
    """Records a report that each user randomized on the device.

    It adds to the rest by basic composition: epsilons and deltas are summed. A
    local guarantee is about what a user reports; that there is a report is not
    hidden.

    Args:
      name: A short name, such as 'heavy hitters'.
      description: A sentence about it.
      epsilon: All that one user spends on it.
      delta: Its delta; the rest of the ledger keeps what is left of the whole.
      group: The users who report; see `Entry`.

    Raises:
      PrivacyError: The cost is not a number, or leaves no delta for the rest.
    """
    if not 0 <= epsilon < math.inf:
      raise PrivacyError(f'{name}: epsilon {epsilon} is not a number >= 0')
    if not 0 <= delta < self._central_delta():
      raise PrivacyError(
        f'{name}: delta {delta:g} is not below the {self._central_delta():g} that '
        "is left of the ledger's delta"
      )
    self._add(
      Entry(
        ledger_entries.LOCAL,
        name,
        description,
        epsilon=epsilon,
        delta=delta,
        group=group,
      )
    )

  def charge_reports(
    self,
    plan: LdpPlan | LocalGaussianPlan,
    users: Iterable[str],
    name: str = 'training reports',
    group: str = '',
  ) -> None:
    """Records one more round in which users sent what they had randomized.

    Bits are composed exactly, Gaussian noise by the accountant, user by user; the
    figure is that of the user who took part most often. Which users take part is known
    to whoever collects the reports, so that it does not help that cohorts are drawn at
    random.

    Args:
      plan: What was done.
      users: Who took part, each once, by names that a checkpoint may hold.
      name: A short name.
      group: The users from whom they are drawn; see `Entry`.

    Raises:
      PrivacyError: The plan's delta is not the ledger's, or reports of another plan
        have been charged before.
    """
    self._check_delta(plan.delta)
    if plan.no_guarantee_reason is not None:
      self.note_no_guarantee(name, plan.no_guarantee_reason)
    entry = ledger_entries.of_report(plan, name, group)
    if entry is None:
      return
    charged = [other for other in self.entries if other.is_by_user]
    if any(dataclasses.replace(other, count=1) != entry for other in charged):
      raise PrivacyError('reports of two plans cannot be charged together')
    for user in users:
      self.rounds_by_user[user] = self.rounds_by_user.get(user, 0) + 1
    most = max(self.rounds_by_user.values(), default=0)
    # Where the user with most rounds took no part again, the entry stays as it is.
    if most > sum(other.count for other in charged):
      self._add(entry)

  def charge_post_processing(self, name: str, description: str) -> None:
    """Records work on what was already released, which costs nothing."""
    self._add(Entry(ledger_entries.POST_PROCESSING, name, description))

  def note_no_guarantee(self, name: str, why: str) -> None:
    """Records a release without any guarantee: now the whole ledger has none."""
    entry = Entry(ledger_entries.NO_GUARANTEE, name, why)
    if entry not in self.entries:
      self.entries += (entry,)

  @property
  def no_guarantee_reasons(self) -> tuple[str, ...]:
    """Why there is no guarantee; empty if there is one."""
    return tuple(
      f'{entry.name}: {entry.description}'
      for entry in self.entries
      if entry.kind == ledger_entries.NO_GUARANTEE
    )

  def supports(self, accountant: str) -> bool:
    """Tells whether `accountant` can account all entries."""
    event, relation = ledger_entries.composition(self.entries)
    return calibration.supports(event, relation, accountant)

  def epsilon(self, accountant: str | None = None) -> float:
    """Returns the epsilon of everything so far; infinite without a guarantee.

    Args:
      accountant: 'rdp' (fast enough for every round) or 'pld' (about a second);
        the ledger's own if not given.

    Raises:
      PrivacyError: The accountant cannot account the entries.
    """
    if self.no_guarantee_reasons:
      return math.inf
    return ledger_entries.spent(
      self.entries, self._central_delta(), accountant or self.accountant
    )

  def epsilon_after_next_round(self, plan: CentralDpPlan, group: str = '') -> float:
    """Returns what `epsilon` would be after one more round of `plan`."""
    if self.no_guarantee_reasons or plan.no_guarantee_reason is not None:
      return math.inf
    entry = self._round_entry(plan, '', group)
    return ledger_entries.spent(
      (*self.entries, entry), self._central_delta(), self.accountant
    )

  def would_exceed(self, plan: CentralDpPlan, group: str = '') -> bool:
    """Tells whether one more round of `plan` would exceed its budget.

    The budget is that of the rounds. What users report under local differential
    privacy has a budget of its own, and `epsilon` adds the two.

    The budget binds the mechanism even where nothing is claimed, so that a
    comparison runs as long as what it is compared with. As cost grows with
    rounds, the last round that fits is searched once and remembered.
    """
    if plan.budget_epsilon is None:
      return False
    entry = self._round_entry(plan, '', group)
    theirs = [
      e
      for e in self.entries
      if e.kind == ledger_entries.CENTRAL and e.group in ('', group)
    ]
    rounds = [e.count for e in theirs if e.mechanism == plan.mechanism]
    others = tuple(e for e in theirs if e.mechanism != plan.mechanism)
    wanted = sum(rounds) + 1
    key = (plan.mechanism, plan.budget_epsilon, others)
    fits, exceeds = self._known.get(key, (0, math.inf))
    while fits < wanted < exceeds:
      probe = (
        max(wanted, plan.rounds) if exceeds == math.inf else int(fits + exceeds) // 2
      )
      trial = (*others, dataclasses.replace(entry, count=probe))
      cost = ledger_entries.spent(trial, self._central_delta(), self.accountant)
      if cost > plan.budget_epsilon:
        exceeds = probe
      else:
        fits = probe
    self._known[key] = (fits, exceeds)
    return wanted >= exceeds

  def to_json(self) -> str:
    """Writes the ledger as JSON text, for a checkpoint."""
    return json.dumps(
      {
        'delta': self.delta,
        'accountant': self.accountant,
        'entries': [dataclasses.asdict(entry) for entry in self.entries],
        'rounds_by_user': self.rounds_by_user,
      }
    )

  @classmethod
  def from_json(cls, text: str) -> 'Ledger':
    """Reads what `to_json` wrote.

    Raises:
      PrivacyError: The text is not that of a ledger.
    """
    try:
      fields = json.loads(text)
      entries = []
      for entry in fields.pop('entries'):
        mechanism, reports = entry.pop('mechanism'), entry.pop('reports', None)
        entries.append(
          Entry(
            mechanism=mechanism and SampledGaussian(**mechanism),
            reports=reports and Reports(**reports),
            **entry,
          )
        )
      return cls(entries=tuple(entries), **fields)
    except (
      ValueError, AttributeError, KeyError, TypeError, RecursionError
    ) as error:  # fmt: skip
      if isinstance(error, PrivacyError):
        raise
      raise PrivacyError(f'not a privacy ledger: {error!r}') from error

  def _round_entry(self, plan: CentralDpPlan, name: str, group: str) -> Entry:
    """Returns the entry of one round of `plan`, checked against the ledger."""
    self._check_delta(plan.delta)
    for entry in self.entries:
      if (
        entry.mechanism is not None
        and entry.mechanism.neighbouring_relation != plan.neighbouring_relation
      ):
        raise PrivacyError(
          f'rounds with {plan.sampling} cohorts cannot be composed with earlier '
          f'{entry.mechanism.sampling} ones: {plan.neighbouring_relation.name} and '
          f'{entry.mechanism.neighbouring_relation.name} are different promises'
        )
    return ledger_entries.of_round(plan, name, group)

  def _check_delta(self, delta: float) -> None:
    if delta != self.delta:
      raise PrivacyError(
        f'a plan for delta {delta:g} cannot be charged to a ledger for delta '
        f'{self.delta:g}'
      )

  def _add(self, new: Entry) -> None:
    """Adds an entry, or to the count of the entry that is just like it."""
    for i, old in enumerate(self.entries):
      if dataclasses.replace(old, count=new.count) == new:
        merged = dataclasses.replace(old, count=old.count + new.count)
        self.entries = (*self.entries[:i], merged, *self.entries[i + 1 :])
        return
    self.entries += (new,)

  def _central_delta(self) -> float:
    """Returns what local entries leave of delta."""
    return self.delta - sum(entry.count * entry.delta for entry in self.entries)
