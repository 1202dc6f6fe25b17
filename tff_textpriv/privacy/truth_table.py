"""What an epsilon is of: one bit, one coordinate, one round, or a whole run."""

import dataclasses
from typing import TYPE_CHECKING

from tff_textpriv.privacy.costs import Bits

if TYPE_CHECKING:
  from tff_textpriv.privacy.randomized_bits import RandomizedBits


@dataclasses.dataclass(frozen=True)
class TruthRow:
  """One line of the truth table.

  Attributes:
    what: What is looked at.
    num_bits: How many bits of the user tell about it.
    pure: Their epsilon at delta 0.
    composed: Their epsilon at the plan's delta.
  """

  what: str
  num_bits: int
  pure: float
  composed: float


def truth_table(plan: 'RandomizedBits', rounds: int) -> list[TruthRow]:
  """Returns what epsilon is of: a bit, a coordinate, a round, a run.

  Args:
    plan: The plan.
    rounds: The rounds in which the user took part.

  Returns:
    From the smallest figure, which is that of the mechanism's parameter, to the one
    that an adversary faces; with coordinate sampling also what there would be
    without it.
  """
  d, s = plan.num_coordinates, plan.num_reported
  of = f'{s:,} of {d:,}' if plan.samples_coordinates else f'all {d:,}'
  counts = {
    'one bit': 1,
    'one coordinate, one round': 1,
    f'one coordinate, {rounds:,} rounds': rounds,
    f'{of} coordinates, one round': s,
    f'{of} coordinates, {rounds:,} rounds: what an adversary faces': s * rounds,
  }
  if plan.samples_coordinates:
    counts[f'(without coordinate sampling: all {d:,}, {rounds:,} rounds)'] = d * rounds
  return [
    TruthRow(
      what,
      num_bits,
      plan.epsilon * num_bits,
      Bits(plan.epsilon, num_bits).epsilon(1, plan.delta),
    )
    for what, num_bits in counts.items()
  ]
