"""The card of randomized bits: its numbers, sentences and tables."""

import dataclasses
from typing import TYPE_CHECKING, Any

from tff_textpriv.privacy import card_blocks, local_mechanism, shuffled_card
from tff_textpriv.privacy.truth_table import truth_table

if TYPE_CHECKING:
  from tff_textpriv.privacy.ledger import Ledger
  from tff_textpriv.privacy.randomized_bits import RandomizedBits


def describe(plan: 'RandomizedBits', ledger: 'Ledger') -> dict[str, Any]:
  """Returns its numbers, as JSON values."""
  rounds = list(ledger.rounds_by_user.values())
  most = max(rounds, default=0)
  return {
    'unit': plan.unit,
    'epsilon_per_coordinate': plan.epsilon,
    'flip_probability': plan.response.flip_probability,
    'num_coordinates': plan.num_coordinates,
    'coordinates_per_client': plan.num_reported,
    'truth_table': [dataclasses.asdict(row) for row in truth_table(plan, most)],
    'users_who_took_part': len(rounds),
    'by_user': local_mechanism.spent_by_users(plan.cost, rounds, plan.delta),
    'shuffled': shuffled_card.describe(plan, most),
    'noise_source': plan.noise_source,
  }


def blocks(plan: 'RandomizedBits', ledger: 'Ledger') -> list[card_blocks.Block]:
  """Returns what the card's page says of it."""
  numbers = describe(plan, ledger)
  figures = local_mechanism.pure_figures(plan.delta)
  shown = card_blocks.figure
  return [
    plan.unit_block,
    card_blocks.paragraph(_mechanism_note(plan), title='Mechanism'),
    card_blocks.paragraph(_sampling_note(plan)),
    card_blocks.noise_source(plan.noise_source),
    card_blocks.table(
      ('what is looked at', 'bits', *figures),
      [
        (
          row['what'],
          f'{row["num_bits"]:,}',
          shown(row['pure']),
          shown(row['composed']),
        )
        for row in numbers['truth_table']
      ],
      title='What epsilon is of',
    ),
    local_mechanism.spent_table(
      numbers['by_user'], plan.delta, numbers['users_who_took_part']
    ),
    *shuffled_card.blocks(plan, numbers['shuffled']),
  ]


def _mechanism_note(plan: 'RandomizedBits') -> str:
  return (
    'Each coordinate of a user’s update is clipped to [-q, q], becomes one bit at random '
    'with a mean that follows its value, and the bit is flipped with probability '
    f'{plan.response.flip_probability:.4g} before it leaves the device. Two users, '
    'however different, give any one bit with probabilities at most a factor '
    f'e^{plan.epsilon:g} apart; their bits taken together tell them apart as the table '
    'says.'
  )


def _sampling_note(plan: 'RandomizedBits') -> str:
  if not plan.samples_coordinates:
    return (
      'Coordinates. A user reports all of them in every round. '
      '--coordinates_per_client has a user report fewer, which divides the pure figure '
      'accordingly and makes the mean noisier.'
    )
  return (
    f'Coordinates. A user reports {plan.num_reported:,} of {plan.num_coordinates:,} in a '
    'round, drawn anew each time. The server knows which ones, so that nothing is gained '
    'beyond their number: a round costs what their bits cost. A given coordinate is '
    f'reported in {plan.reported_share:.3g} of a user’s rounds on average; the table '
    'counts the worst case, all of them.'
  )
