"""What mechanisms have in common by which users randomize what they send."""

import dataclasses
from collections.abc import Sequence

from tff_textpriv.privacy import card_blocks, ledger_entries, mechanism
from tff_textpriv.privacy.costs import Cost


@dataclasses.dataclass(frozen=True)
class LocalMechanism(mechanism.Mechanism):
  """Local differential privacy: each report costs the user who sends it."""

  randomizes_on_device = True
  by_user = True
  entry_name = 'training reports'

  @property
  def promise(self) -> tuple[str, str]:
    """See the base class."""
    return 'local, a user’s whole run', (
      'Local: the figure is of everything that one user sends in the whole run, against '
      'whoever collects it, for the user who took part most often.'
    )

  def report(self, what: str, cost: Cost, group: str) -> ledger_entries.Entry:
    """Returns the ledger's entry of a report, given what it is and what it costs."""
    return ledger_entries.Entry(
      ledger_entries.LOCAL,
      self.entry_name,
      f'{what}; times: rounds of the user with most rounds',
      cost=cost,
      group=group,
      by_user=True,
    )

  @property
  def unit_block(self) -> card_blocks.Block:
    """What the card says of whose data are protected, against which others."""
    return card_blocks.paragraph(
      f'Unit of privacy: one **{self.unit}**. Any data may stand in place of any other.'
    )


def users_table(
  figures: Sequence[str], rows: Sequence[Sequence[str]], num_users: int
) -> card_blocks.Block:
  """Returns the table of what users have spent.

  Args:
    figures: The columns after the first, which says how many rounds.
    rows: The rows, of `user_rows`.
    num_users: How many took part.
  """
  return card_blocks.table(
    ('rounds', *figures), rows, title=f'User by user ({num_users:,} took part)'
  )


def user_rows(rounds: Sequence[int]) -> dict[str, int]:
  """Returns the rounds of the users with fewest, middling and most of them, by words."""
  if not rounds:
    return {}
  ordered = sorted(rounds)
  chosen = {
    'fewest': ordered[0],
    'median': ordered[len(ordered) // 2],
    'most': ordered[-1],
  }
  return {f'{name}: {count:,}': count for name, count in chosen.items()}
