"""The card of DP-FTRL: its numbers, sentences and tables."""

from typing import TYPE_CHECKING, Any

from tff_textpriv.privacy import card_blocks, central_card
from tff_textpriv.privacy.correlated_cost import BandedRounds, CorrelatedRounds

if TYPE_CHECKING:
  from tff_textpriv.privacy.distributed import DistributedNoise
  from tff_textpriv.privacy.ftrl import CorrelatedGaussian
  from tff_textpriv.privacy.ledger import Ledger

_NUMBER_BYTES = 8


def describe(plan: 'CorrelatedGaussian', ledger: 'Ledger') -> dict[str, Any]:
  """Returns its numbers, as JSON values."""
  numbers = central_card.describe(plan, ledger)
  for name in ('update_noise_multiplier', 'count_noise_multiplier'):
    del numbers[name]
  return numbers | {
    'strategy': plan.strategy.summary,
    'separation': plan.separation,
    'simulated_separation': plan.simulated_separation,
    'participations': plan.participations,
    'sensitivity': plan.sensitivity,
    'prefix_error': plan.strategy.prefix_error(),
    'phases': len(plan.strategies),
    'state_bytes_per_weight': plan.strategy.num_vectors * _NUMBER_BYTES,
  }


def blocks(plan: 'CorrelatedGaussian', ledger: 'Ledger') -> list[card_blocks.Block]:
  """Returns what the card's page says of it."""
  return [
    card_blocks.paragraph(
      f'Unit of privacy: one **{plan.unit}**. Two data sets are neighbours if they '
      f'differ by adding or removing all the data of one {plan.unit}, while everybody '
      'else takes part in the same rounds as before (which is the same as setting all '
      f'that the {plan.unit} sends to zero). Whose turn it is follows from a '
      f'{plan.unit}’s own id and the sizes of the plan, which count as public.'
    ),
    card_blocks.paragraph(_mechanism(plan), title='Mechanism'),
    card_blocks.table(('setting', 'value'), _settings(plan, ledger)),
    card_blocks.paragraph(participation(plan)),
    card_blocks.paragraph(_theorem(plan)),
    *([card_blocks.paragraph(_phases(plan))] if plan.other_strategies else []),
    card_blocks.paragraph(central_card.sizes(plan)),
    card_blocks.noise_source(plan.noise_source),
  ]


def _settings(plan: 'CorrelatedGaussian', ledger: 'Ledger') -> list[tuple[str, str]]:
  """Returns the table of its numbers: setting, value."""
  rows = [
    ('clip', f'{plan.clip:g}'),
    ('noise multiplier (independent noise)', f'{plan.noise_multiplier:.4g}'),
    ('strategy', plan.strategy.summary),
    ('least rounds between participations', f'{plan.separation:,}'),
    ('most participations', f'{plan.participations:,}'),
    ('sensitivity of the whole run, in clip norms', f'{plan.sensitivity:.4g}'),
  ]
  if plan.noise_multiplier:
    rows.append(('rho-zCDP of the rounds done', f'{_rho(plan, ledger):.4g}'))
  rows += [
    (
      'noise on sums over rounds, in deviations of the independent noise',
      f'{plan.strategy.prefix_error():.4g}',
    ),
    (
      'noise that the server keeps, in bytes per weight',
      f'{plan.strategy.num_vectors * _NUMBER_BYTES:,}',
    ),
  ]
  return rows + central_card.size_rows(plan, ledger)


def _rho(plan: 'CorrelatedGaussian', ledger: 'Ledger') -> float:
  """Returns the rho of zCDP of the users who spent most: phases add up, groups do not."""
  spent: dict[str, float] = {}
  for entry in ledger.entries:
    cost = entry.cost
    if isinstance(cost, BandedRounds | CorrelatedRounds) and plan.cost.is_like(cost):
      spent[entry.group] = spent.get(entry.group, 0.0) + cost.rho(entry.count)
  return max(spent.values(), default=0.0)


def _mechanism(plan: 'CorrelatedGaussian') -> str:
  """Says what is done to updates and to their sums."""
  if plan.noise_multiplier == 0:
    return central_card.mechanism(plan)
  return (
    f"Each user's update is clipped to an L2 norm of {plan.clip:g}. The sum over a cohort "
    'gets noise that is made of that of earlier rounds and of new Gaussian noise of '
    f'standard deviation noise multiplier x clip: {plan.strategy.summary}. Much of it '
    'cancels in the sums over rounds that the server optimizer makes. Sums are divided by '
    'the planned size of the cohort, a constant.'
  )


def participation(plan: 'CorrelatedGaussian | DistributedNoise') -> str:
  """Says who takes part, and what that rests on."""
  if isinstance(plan.cost, BandedRounds):
    share = plan.separation * plan.cohort / plan.population
    return (
      f'Participation. Users are dealt into {plan.separation:,} slots, by their own ids, '
      'and rounds take one slot after the other. Of its slot, each user joins a round '
      f'independently, with probability {share:.4g}. The figure rests on this chance and '
      'on its secrecy: nobody may know who was drawn. The slots may be known.'
    )
  return (
    'Participation. Nobody is drawn: every user takes part when it is its turn, once in '
    f'about {plan.population / plan.cohort:.4g} rounds and never sooner than after '
    f'{plan.separation:,}. A device can tell by itself, and one that misses its turn '
    'waits for the next. No secrecy of the turns is assumed, and nothing is claimed for '
    'chance.'
  )


def _theorem(plan: 'CorrelatedGaussian') -> str:
  """Names what the figure rests on."""
  if isinstance(plan.cost, BandedRounds):
    return (
      'Accounting. The columns of the strategy have norm one at most and end before a '
      'user’s slot comes again, so that all rounds together cost what '
      f'{plan.participations:,} rounds of the Poisson-sampled Gaussian mechanism do, also '
      'where each depends on what was released before (Choquette-Choo et al., (Amplified) '
      'Banded Matrix Factorization, 2023, Theorem 4).'
    )
  return (
    f'Accounting. All rounds {"of a phase " * bool(plan.other_strategies)}together are one Gaussian mechanism, also where each depends '
    'on what was released before (Denisov et al., 2022). Its sensitivity is '
    'computed from the numbers of which the noise is made, for every set of rounds at '
    f'least {plan.separation:,} apart (Choquette-Choo et al., Multi-Epoch Matrix '
    f'Factorization, 2023). Strategy: {plan.strategy.reference}.'
  )


def _phases(plan: 'CorrelatedGaussian') -> str:
  """Says how phases add up."""
  return (
    f'Phases. The run has {len(plan.strategies)}, each with a tokenizer of its own and with '
    'noise that has nothing in common with that of the others. They are composed: each is a '
    'Gaussian mechanism, a user’s participations are counted in each as if there were no '
    'other, and the squares of the sensitivities add up. One noise multiplier is calibrated '
    'for all of them together.'
  )
