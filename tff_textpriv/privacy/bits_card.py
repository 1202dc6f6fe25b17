"""The card of randomized bits: its numbers, sentences and tables."""

import dataclasses
from typing import TYPE_CHECKING, Any

from tff_textpriv.privacy import card_blocks, local_mechanism, shuffling
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
    'by_user': [
      {
        'rounds': name,
        'pure': plan.cost.pure_epsilon(count),
        'composed': plan.cost.epsilon(count, plan.delta),
      }
      for name, count in local_mechanism.user_rows(rounds).items()
    ],
    'shuffled': shuffled(plan, most),
    'noise_source': plan.noise_source,
  }


def shuffled(plan: 'RandomizedBits', rounds: int) -> dict[str, Any] | None:
  """Returns what a user's reports tell whoever sees them only behind a shuffler.

  Args:
    plan: The plan.
    rounds: The rounds in which the user took part.

  Returns:
    The central figure beside the local one, as JSON values; `None` where nothing is
    promised, or nothing was sent.
  """
  if plan.no_guarantee_reason is not None or not rounds:
    return None
  reports, delta = plan.crowd.counted_on(rounds, plan.delta)
  bound = (
    shuffling.epsilon_of_bits
    if plan.num_reported == 1
    else shuffling.epsilon_of_reports
  )
  report_epsilon = plan.cost.pure_epsilon(1)
  local = plan.cost.epsilon(rounds, plan.delta)
  epsilon = min(local, bound(report_epsilon, reports, rounds, delta))
  return {
    'epsilon': epsilon,
    'delta': plan.delta,
    'local_epsilon': local,
    'report_epsilon': report_epsilon,
    'reports_per_round': reports,
    'rounds': rounds,
    # Not by less than the figures show.
    'gains': card_blocks.figure(epsilon) != card_blocks.figure(local),
  }


def blocks(plan: 'RandomizedBits', ledger: 'Ledger') -> list[card_blocks.Block]:
  """Returns what the card's page says of it."""
  numbers = describe(plan, ledger)
  figures = ('epsilon (pure)', f'epsilon at delta {plan.delta:g} (exact)')
  shown = card_blocks.figure
  behind = numbers['shuffled']
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
    local_mechanism.users_table(
      figures,
      [
        (row['rounds'], shown(row['pure']), shown(row['composed']))
        for row in numbers['by_user']
      ],
      numbers['users_who_took_part'],
    ),
    *([] if behind is None else [_shuffled_block(plan, behind)]),
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


def _shuffled_block(
  plan: 'RandomizedBits', numbers: dict[str, Any]
) -> card_blocks.Block:
  """Returns what to say of a shuffler, which the headline does not count on."""
  epsilon, local, report = (
    card_blocks.figure(numbers[name])
    for name in ('epsilon', 'local_epsilon', 'report_epsilon')
  )
  rounds, reports = f'{numbers["rounds"]:,}', f'{numbers["reports_per_round"]:,}'
  if not numbers['gains']:
    text = (
      'A shuffler would add nothing that can be proved here: a report has local epsilon '
      f'{report} in a single round, and {reports} reports per round are too few to hide one '
      f'of them. Against whoever sees only shuffled reports the figure stays {local}.'
    )
  else:
    text = (
      'Against whoever sees only the shuffled reports of each round: epsilon '
      f'**{epsilon}** at delta {plan.delta:g}, for the {plan.unit} with most rounds '
      f'({rounds}); against whoever sees who sent what, {local}. Any data of one '
      f'{plan.unit} may stand in place of any other. A report has local epsilon {report} '
      f'and is mixed with others, {reports} per round in all. {_crowd_note(plan)}'
    )
  return card_blocks.paragraph(
    f'{text} The simulation shuffles nothing and sums the reports: a '
    'deployment needs a shuffler that it trusts, and reports that carry nothing else by '
    'which to tell users apart.',
    title='Behind a shuffler',
  )


def _crowd_note(plan: 'RandomizedBits') -> str:
  if plan.crowd.always_complete:
    return 'This holds for rounds in which all the planned reports arrive.'
  return (
    f'Rounds are planned with {plan.crowd.cohort:,}; that one of them has fewer than '
    'counted on is so unlikely that it is part of delta, as long as users come and drop '
    'out by chance as planned.'
  )
