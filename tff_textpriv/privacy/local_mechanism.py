"""What mechanisms have in common by which users randomize what they send."""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tff_textpriv import randomness
from tff_textpriv.privacy import card_blocks, ledger_entries, mechanism, shuffling
from tff_textpriv.privacy.costs import Bits, Cost


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

  @property
  def advice_on_noise(self) -> str:
    """See the base class."""
    return (
      'users noise what they send themselves, which takes very many of them: more users per '
      'round, fewer parameters or a larger epsilon make the noise smaller beside what they '
      'send. Where the server can be trusted to add it, --algo=dp_fed_avg needs far fewer'
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class PureReports(LocalMechanism):
  """Reports of which each is locally private at delta 0.

  Attributes:
    delta: Delta at which the composed epsilon is given; a report has none.
    noise_source: 'seeded' or 'system'.
    claim: Whether the run claims its figure; false for comparisons.
    accountant: Reports are composed by their privacy loss distribution, in closed form.
    budget_epsilon: The total of a user, which no further report may exceed.
    rounds: Planned number of rounds.
    population: Users who may be drawn.
    stream: A secret, for clients that are given no seed of their own.
    unit: What is protected: all the data of one user.
    crowd: How many reports a shuffler would mix in a round; by default the user's own.
    participations: In how many rounds a user can take part.
  """

  accountants = ('pld',)

  delta: float = 1e-6
  noise_source: str = 'seeded'
  claim: bool = True
  accountant: str = 'pld'
  budget_epsilon: float | None = None
  rounds: int = 1
  population: int = 1
  stream: randomness.Stream = dataclasses.field(
    default_factory=randomness.Stream.of_system
  )
  unit: str = 'user'
  crowd: shuffling.Crowd = shuffling.Crowd()
  participations: int = 1

  @property
  @abc.abstractmethod
  def cost(self) -> Bits:
    """What one round costs a user who takes part."""

  @property
  def shuffled_bound(self) -> Callable[[float, int, int, float], float]:
    """What bounds the central epsilon of reports behind a shuffler."""
    return shuffling.epsilon_of_reports

  @property
  def no_guarantee_reason(self) -> str | None:
    """Why this plan promises nothing, or `None` if it does promise."""
    return None if self.claim else mechanism.NOT_CLAIMED

  @property
  def total(self) -> float:
    """Epsilon of a user who takes part in as many rounds as can be."""
    return self.cost.epsilon(self.participations, self.delta)

  @property
  def total_in_words(self) -> str:
    """Says what the whole run costs a user, and how it could cost less."""
    words = (
      f'Epsilon {card_blocks.figure(self.total)} at delta {self.delta:g} is the total of a user over the '
      f'whole run, in {self.participations:,} rounds at most.'
    )
    if self.crowd.sampling == 'separated' or self.crowd.cohort == self.crowd.population:
      return words
    return (
      f'{words} Who is drawn by chance may be drawn so often, and that is paid for: '
      '--cohort_sampling=separated lets each come in its turn, less often, so that a '
      'report may say more.'
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


def pure_figures(delta: float) -> tuple[str, str]:
  """Returns the columns of what reports cost without a delta, and with it."""
  return 'epsilon (pure)', f'epsilon at delta {delta:g} (exact)'


def spent_by_users(
  cost: Bits, rounds: Sequence[int], delta: float
) -> list[dict[str, Any]]:
  """Returns what users have spent who took part in so many rounds, as JSON values."""
  return [
    {
      'rounds': name,
      'pure': cost.pure_epsilon(count),
      'composed': cost.epsilon(count, delta),
    }
    for name, count in user_rows(rounds).items()
  ]


def spent_table(
  spent: Sequence[Mapping[str, Any]], delta: float, num_users: int
) -> card_blocks.Block:
  """Returns the table of what `spent_by_users` says."""
  shown = card_blocks.figure
  return users_table(
    pure_figures(delta),
    [(row['rounds'], shown(row['pure']), shown(row['composed'])) for row in spent],
    num_users,
  )
