"""The part of a privacy card that is about randomized bits: the truth table."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tff_textpriv.privacy import local
from tff_textpriv.privacy.ledger import Ledger

THREAT_MODEL = (
  'Local differential privacy: users randomize every bit before they send it, so that '
  'the guarantee also holds against whoever collects the bits. It is about what a user '
  'sends; that the user takes part, and when, is not hidden.'
)
NOT_COVERED = (
  'The number of a client’s examples, where it weighs the mean '
  '(--client_weighting=examples), is sent as it is. So is whether a client’s training '
  'ended in numbers that are not finite.',
)
_NOISE_SOURCES = {
  'seeded': (
    'Seeded: bit flips follow from the seed of the run and can be reproduced. Whoever '
    'knows the seed can undo them, so this is for experiments only.'
  ),
  'system': (
    'System: the generator is seeded by the operating system and cannot be reproduced. '
    'Bits are decided by whole numbers, so that no rounding weakens the guarantee.'
  ),
}


def describe(plan: local.LdpPlan, ledger: Ledger) -> dict[str, Any]:
  """Returns the plan's numbers, the truth table, and the figures user by user."""
  rounds = sorted(ledger.rounds_by_user.values())
  most = rounds[-1] if rounds else 0
  return {
    'unit': plan.unit,
    'mechanism': _mechanism_note(plan),
    'epsilon_per_coordinate': plan.epsilon,
    'flip_probability': plan.response.flip_probability,
    'num_coordinates': plan.num_coordinates,
    'coordinates_per_client': plan.num_reported,
    'sampling_note': _sampling_note(plan),
    'truth_table': [dataclasses.asdict(row) for row in local.truth_table(plan, most)],
    'users_who_took_part': len(rounds),
    'by_user': _by_user(plan, rounds),
    'noise_source': plan.noise_source,
    'noise_source_note': _NOISE_SOURCES[plan.noise_source],
  }


def tables(
  description: Mapping[str, Any], delta: float
) -> list[tuple[str, tuple[str, ...], list[tuple[str | float, ...]]]]:
  """Returns the tables of what `describe` made: title, header, rows.

  Epsilons in the rows are numbers, everything else is text.
  """
  figures = ('epsilon (pure)', f'epsilon at delta {delta:g} (exact)')
  return [
    (
      'What epsilon is of',
      ('what is looked at', 'bits', *figures),
      [
        (row['what'], f'{row["num_bits"]:,}', row['pure'], row['composed'])
        for row in description['truth_table']
      ],
    ),
    (
      f'User by user ({description["users_who_took_part"]:,} took part)',
      ('rounds', *figures),
      [(row['rounds'], row['pure'], row['composed']) for row in description['by_user']],
    ),
  ]


def headline(plan: local.LdpPlan, epsilon: str) -> str:
  """Says what a user is promised: the figure of all bits, not that of one."""
  return (
    f'({epsilon}, {plan.delta:g})-local differential privacy for everything that a user '
    f'sends in the run; epsilon {plan.epsilon:g} is that of one coordinate in one round '
    'only'
  )


def _by_user(plan: local.LdpPlan, rounds: Sequence[int]) -> list[dict[str, Any]]:
  """Returns the figures of the users with fewest, middling and most rounds."""
  if not rounds:
    return []
  chosen = {'fewest': rounds[0], 'median': rounds[len(rounds) // 2], 'most': rounds[-1]}
  return [
    {
      'rounds': f'{name}: {count:,}',
      'pure': plan.reports.pure_epsilon(count),
      'composed': plan.reports.composed_epsilon(count, plan.delta),
    }
    for name, count in chosen.items()
  ]


def _mechanism_note(plan: local.LdpPlan) -> str:
  return (
    'Each coordinate of a user’s update is clipped to [-q, q], becomes one bit at random '
    'with a mean that follows its value, and the bit is flipped with probability '
    f'{plan.response.flip_probability:.4g} before it leaves the device. Two users, '
    'however different, give any one bit with probabilities at most a factor '
    f'e^{plan.epsilon:g} apart; their bits taken together tell them apart as the table '
    'says.'
  )


def _sampling_note(plan: local.LdpPlan) -> str:
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
