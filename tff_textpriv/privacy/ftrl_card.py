"""The card of DP-FTRL: its numbers, sentences and tables."""

from typing import TYPE_CHECKING, Any

from tff_textpriv.privacy import card_blocks, central_card

if TYPE_CHECKING:
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
    card_blocks.paragraph(_participation(plan)),
    card_blocks.paragraph(_theorem(plan)),
    card_blocks.paragraph(central_card.sizes(plan)),
    card_blocks.noise_source(plan.noise_source),
  ]


def _settings(plan: 'CorrelatedGaussian', ledger: 'Ledger') -> list[tuple[str, str]]:
  """Returns the table of its numbers: setting, value."""
  done = central_card.rounds_done(plan, ledger)
  rows = [
    ('clip', f'{plan.clip:g}'),
    ('noise multiplier (independent noise)', f'{plan.noise_multiplier:.4g}'),
    ('strategy', plan.strategy.summary),
    ('least rounds between participations', f'{plan.separation:,}'),
    ('most participations', f'{plan.participations:,}'),
    ('sensitivity of the whole run, in clip norms', f'{plan.sensitivity:.4g}'),
  ]
  if plan.noise_multiplier:
    rows.append(('rho-zCDP of the rounds done', f'{plan.cost.rho(done):.4g}'))
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


def _participation(plan: 'CorrelatedGaussian') -> str:
  """Says who takes part, and what that rests on."""
  return (
    'Participation. Nobody is drawn: every user takes part when it is its turn, once in '
    f'about {plan.population / plan.cohort:.4g} rounds and never sooner than after '
    f'{plan.separation:,}. A device can tell by itself, and one that misses its turn '
    'waits for the next. No secrecy of the turns is assumed, and nothing is claimed for '
    'chance.'
  )


def _theorem(plan: 'CorrelatedGaussian') -> str:
  """Names what the figure rests on."""
  return (
    'Accounting. All rounds together are one Gaussian mechanism, also where each depends '
    'on what was released before (Denisov et al., 2022). Its sensitivity is '
    'computed from the numbers of which the noise is made, for every set of rounds at '
    f'least {plan.separation:,} apart (Choquette-Choo et al., Multi-Epoch Matrix '
    f'Factorization, 2023). Strategy: {plan.strategy.reference}.'
  )
