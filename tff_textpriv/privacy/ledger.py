"""The ledger: an append-only record of what a run has spent.

It is part of the checkpoint, so that a run that was stopped and resumed knows
everything that was released before. Counts only ever rise.
"""

import dataclasses
import json
import math
from collections.abc import Iterable
from typing import Any

from tff_textpriv.privacy import accountants, ledger_entries
from tff_textpriv.privacy.costs import Fixed
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.ledger_entries import Entry
from tff_textpriv.privacy.mechanism import Mechanism


@dataclasses.dataclass
class Ledger:
  """What was spent so far, and what the next round would make of it.

  Attributes:
    delta: Delta of the guarantee as a whole.
    accountant: 'rdp' or 'pld', of the headline figure.
    entries: The record, in order of first appearance. Only the `charge...`
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
    if not 0 < self.delta < 1 or self.accountant not in accountants.ACCOUNTANTS:
      raise PrivacyError(
        f'no ledger for delta {self.delta} and accountant {self.accountant!r}'
      )
    if self._delta_left() <= 0:
      raise PrivacyError(f'the entries spend more than the delta {self.delta:g}')

  @classmethod
  def of(cls, mechanism: Mechanism) -> 'Ledger':
    """Opens the ledger of a run under a mechanism."""
    return cls(mechanism.delta, mechanism.accountant)

  def charge(
    self, mechanism: Mechanism, users: Iterable[str] = (), group: str = ''
  ) -> None:
    """Records one more round of a mechanism.

    Where a round costs only those who take part, the figure is that of the user who took
    part most often. Which users take part is then known to whoever collects the reports,
    so that it does not help that cohorts are drawn at random.

    Args:
      mechanism: What was done.
      users: Who took part, each once, by names that a checkpoint may hold.
      group: The users from whom they are drawn; see `Entry`.

    Raises:
      PrivacyError: The round would exceed the mechanism's budget, its delta is not the
        ledger's, or it cannot be composed with what was charged before.
    """
    entry = self._checked_entry(mechanism, group)
    users = tuple(users)
    if self.would_exceed(mechanism, group, users):
      raise PrivacyError(
        'one more round would exceed the budget of epsilon '
        f'{mechanism.budget_epsilon:g}'
      )
    charged = [other for other in self.entries if other.by_user]
    if (
      entry is not None
      and mechanism.by_user
      and any(dataclasses.replace(other, count=1) != entry for other in charged)
    ):
      raise PrivacyError('reports of two plans cannot be charged together')
    if mechanism.no_guarantee_reason is not None:
      self.note_no_guarantee(mechanism.entry_name, mechanism.no_guarantee_reason)
    if entry is None:
      return
    if not mechanism.by_user:
      self._add(entry)
      return
    for user in users:
      self.rounds_by_user[user] = self.rounds_by_user.get(user, 0) + 1
    most = max(self.rounds_by_user.values(), default=0)
    # Where the user with most rounds took no part again, the entry stays as it is.
    if most > sum(other.count for other in charged):
      self._add(entry)

  def charge_local(
    self,
    name: str,
    description: str,
    epsilon: float,
    delta: float = 0.0,
    group: str = '',
  ) -> None:
    """Records a report that each user randomized on the device, once.

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
    if not delta < self._delta_left():
      raise PrivacyError(
        f'{name}: delta {delta:g} is not below the {self._delta_left():g} that '
        "is left of the ledger's delta"
      )
    cost = Fixed(epsilon, delta)
    self._add(Entry(ledger_entries.LOCAL, name, description, cost=cost, group=group))

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
    return accountants.supports(event, relation, accountant)

  def epsilon(self, accountant: str | None = None, delta: float | None = None) -> float:
    """Returns the epsilon of everything so far; infinite without a guarantee.

    Args:
      accountant: 'rdp' (fast enough for every round) or 'pld' (about a second);
        the ledger's own if not given.
      delta: At which delta; the ledger's own if not given.

    Raises:
      PrivacyError: The accountant cannot account the entries.
    """
    if self.no_guarantee_reasons:
      return math.inf
    return ledger_entries.spent(
      self.entries, delta or self.delta, accountant or self.accountant
    )

  def epsilon_after_next_round(self, mechanism: Mechanism, group: str = '') -> float:
    """Returns what `epsilon` would be after one more round that everybody pays for."""
    entry = self._checked_entry(mechanism, group)
    if self.no_guarantee_reasons or mechanism.no_guarantee_reason or entry is None:
      return math.inf
    return ledger_entries.spent((*self.entries, entry), self.delta, self.accountant)

  def would_exceed(
    self, mechanism: Mechanism, group: str = '', users: Iterable[str] | None = None
  ) -> bool:
    """Tells whether one more round of a mechanism would exceed its budget.

    The budget is that of all that its users spend. Where a round costs only those who
    take part, it is exceeded by the first of them who would: others may go on.

    The budget binds the mechanism even where nothing is claimed, so that a
    comparison runs as long as what it is compared with. As cost grows with
    rounds, the last round that fits is searched once and remembered.

    Args:
      mechanism: What would be done.
      group: The users from whom those who take part are drawn; see `Entry`.
      users: Who would take part, by the names of `charge`; if that is not known, whoever
        took part most often may be among them.
    """
    entry = self._checked_entry(mechanism, group)
    budget = mechanism.budget_epsilon
    if budget is None or entry is None:
      return False
    theirs = [e for e in self.entries if e.cost is not None and e.group in ('', group)]
    rounds = [e.count for e in theirs if e.cost == entry.cost]
    others = tuple(e for e in theirs if e.cost != entry.cost)
    delta = self.delta - sum(e.own_delta for e in self.entries if e not in theirs)
    wanted = sum(rounds) + 1
    if mechanism.by_user and users is not None:
      theirs_after = (self.rounds_by_user.get(user, 0) + 1 for user in users)
      wanted = max(sum(rounds), *theirs_after, 0)
    key = (entry.cost, budget, others)
    fits, exceeds = self._known.get(key, (0, math.inf))
    while fits < wanted < exceeds:
      probe = (
        max(wanted, mechanism.rounds)
        if exceeds == math.inf
        else int(fits + exceeds) // 2
      )
      trial = (*others, dataclasses.replace(entry, count=probe))
      cost = ledger_entries.spent(trial, delta, self.accountant)
      if cost > budget:
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
        'entries': [entry.to_json() for entry in self.entries],
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
      entries = tuple(Entry.from_json(entry) for entry in fields.pop('entries'))
      return cls(entries=entries, **fields)
    except PrivacyError:
      raise
    except (
      ValueError, AttributeError, KeyError, TypeError, RecursionError
    ) as error:  # fmt: skip
      raise PrivacyError(f'not a privacy ledger: {error!r}') from error

  def _checked_entry(self, mechanism: Mechanism, group: str) -> Entry | None:
    """Returns the entry of one round, checked against the ledger."""
    entry = mechanism.entry(group)
    if entry is None:
      if mechanism.no_guarantee_reason is None:
        raise PrivacyError(
          f'{type(mechanism).__name__} promises something, and no round costs anything'
        )
      return None
    if mechanism.delta != self.delta:
      raise PrivacyError(
        f'a plan for delta {mechanism.delta:g} cannot be charged to a ledger for delta '
        f'{self.delta:g}'
      )
    relation = entry.relation
    for other in self.entries:
      before = other.relation
      if relation is not None and before is not None and before != relation:
        raise PrivacyError(
          f'{entry.description}: cannot be composed with earlier rounds '
          f'({other.description}): {relation.name} and {before.name} are different '
          'promises'
        )
    return entry

  def _add(self, new: Entry) -> None:
    """Adds an entry, or to the count of the entry that is just like it."""
    for i, old in enumerate(self.entries):
      if dataclasses.replace(old, count=new.count) == new:
        merged = dataclasses.replace(old, count=old.count + new.count)
        self.entries = (*self.entries[:i], merged, *self.entries[i + 1 :])
        return
    self.entries += (new,)

  def _delta_left(self) -> float:
    """Returns what fixed costs leave of delta."""
    return self.delta - sum(entry.own_delta for entry in self.entries)
