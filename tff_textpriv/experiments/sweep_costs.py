"""What all runs of a sweep together cost the users, who are the same in each of them.

Every run spends, whether its model is kept or not, and whether it finished or failed.
"""

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Sequence

from tff_textpriv import run_folder
from tff_textpriv.privacy import card_blocks, ledger_entries
from tff_textpriv.privacy.costs import Cost
from tff_textpriv.privacy.ledger import Ledger
from tff_textpriv.training import journal


@dataclasses.dataclass(frozen=True)
class Together:
  """The cost of some runs together.

  Attributes:
    num_runs: How many runs have spent something, or may have.
    epsilon: The sequential composition of all their releases; `None` if there is none.
    delta: Its delta.
    accountant: The accountant of it.
    reasons: Why it is no guarantee of these models, in words; empty if it is one.
    adds_local: Whether reports of users are added, which are about other neighbours.
  """

  num_runs: int
  epsilon: float | None = None
  delta: float = 0.0
  accountant: str = ''
  reasons: tuple[str, ...] = ()
  adds_local: bool = False

  def in_words(self) -> str:
    """Says it in a paragraph."""
    if not self.num_runs:
      return 'All runs together: no run has spent anything yet.'
    figure = (
      f'({card_blocks.figure(self.epsilon)}, {self.delta:g})-differential privacy for '
      f'every user who is in all of them (sequential composition, '
      f'{self.accountant.upper()})'
    )
    words = f'All {self.num_runs} runs together: '
    if self.epsilon is None:
      words += 'no guarantee.'
    elif self.reasons:
      words += f'no guarantee. What they stand for: {figure}.'
    else:
      words += f'{figure}.'
    if self.adds_local:
      words += (
        ' Local reports are added to central releases, although they are about other '
        'neighbours.'
      )
    words += ''.join(f' {reason}.' for reason in self.reasons)
    return (
      f'{words} Whoever chooses the best of them, or publishes several of the models, '
      'spends what all of them cost.'
    )


def of_runs(folders: Iterable[pathlib.Path]) -> Together:
  """Reads what runs have spent, and composes it.

  Args:
    folders: The runs' folders; those that have not begun cost nothing.
  """
  begun = [folder for folder in folders if run_folder.is_run(folder)]
  ledgers = {folder: journal.Journal(folder).ledger for folder in begun}
  spent = [ledger for ledger in ledgers.values() if ledger is not None]
  reasons = _reasons(begun, ledgers)
  if len(spent) < len(begun) or any(ledger.no_guarantee_reasons for ledger in spent):
    return Together(len(begun), reasons=reasons)
  entries = tuple(
    ledger_entries.Entry(ledger_entries.CENTRAL, 'runs', '', count, cost)
    for cost, count in _counts(spent).items()
  )
  relations = {entry.relation for entry in entries}
  if len(relations - {None}) > 1:
    why = (
      'Some promise something if a user is added or removed, others if one is replaced'
    )
    return Together(len(begun), reasons=(*reasons, why))
  if not entries:
    return Together(len(begun) if reasons else 0, reasons=reasons)
  delta = max(ledger.delta for ledger in spent)
  accountants = {ledger.accountant for ledger in spent}
  accountant = 'pld' if accountants == {'pld'} else 'rdp'
  return Together(
    len(begun),
    ledger_entries.spent(entries, delta, accountant),
    delta,
    accountant,
    reasons,
    len(relations) > 1,
  )


def _counts(ledgers: Sequence[Ledger]) -> dict[Cost, int]:
  """Returns how often a user pays each cost, at most.

  Of a run whose users are in groups, a user pays for one of them, and in another run
  perhaps for another one: for each cost, the group that pays most often counts.
  """
  total: collections.Counter[Cost] = collections.Counter()
  for ledger in ledgers:
    groups = {entry.group for entry in ledger.entries if entry.group} or {''}
    most: collections.Counter[Cost] = collections.Counter()
    for group in groups:
      paid: collections.Counter[Cost] = collections.Counter()
      for entry in ledger.entries:
        if entry.cost is not None and entry.group in ('', group):
          paid[entry.cost] += entry.count
      most |= paid
    total += most
  return dict(total)


def _reasons(
  begun: Sequence[pathlib.Path], ledgers: dict[pathlib.Path, Ledger | None]
) -> tuple[str, ...]:
  """Says of how many runs nothing is promised, or only of what they stand for."""
  unknown = claimless = seeded = scaled = 0
  for folder, ledger in ledgers.items():
    config = run_folder.read_config(folder)
    if ledger is None:
      unknown += 1
    elif ledger.no_guarantee_reasons:
      claimless += 1
    elif config.get('noise_source') == 'seeded':
      seeded += 1
    elif run_folder.has_finished(folder) and not _is_of_its_model(folder):
      scaled += 1
  sentences = {
    'have no ledger': unknown,
    'claim nothing': claimless,
    'have seeded noise, which whoever knows the seed can take out': seeded,
    'stand for a deployment of another size': scaled,
  }
  return tuple(
    f'Of the {len(begun)} runs, {number} {what}'
    for what, number in sentences.items()
    if number
  )


def _is_of_its_model(folder: pathlib.Path) -> bool:
  card = run_folder.read_object(folder / run_folder.CARD)
  return card.get('of_this_model') is True
