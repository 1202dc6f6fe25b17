"""Figures over seeds: means, spreads, and paired differences with their intervals."""

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

from scipy import special

_CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class Spread:
  """Mean and standard deviation of a figure over `n` seeds; no deviation of one."""

  mean: float
  deviation: float | None
  n: int


@dataclasses.dataclass(frozen=True)
class Difference:
  """The mean difference of two arms over the seeds that both have.

  Attributes:
    mean: The mean.
    low: Where its 95% interval begins; `None` for one seed, which tells of no spread.
    high: Where it ends.
    n: The number of seeds.
  """

  mean: float
  low: float | None
  high: float | None
  n: int


def spread(values: Sequence[float | None]) -> Spread | None:
  """Returns the spread of a figure; `None` unless it is a number in all of the runs."""
  known = [value for value in values if value is not None]
  if not known or len(known) < len(values):
    return None
  deviation = statistics.stdev(known) if len(known) > 1 else None
  return Spread(statistics.fmean(known), deviation, len(known))


def difference(
  values: Mapping[int, float | None],
  reference: Mapping[int, float | None],
  of_logs: bool = False,
) -> Difference | None:
  """Compares an arm with another one, seed by seed.

  Runs of one seed have their users, rounds and batches in common, so that their
  difference varies less than either figure. With n differences of mean d and standard
  deviation s, the two-sided interval is d ± t s / sqrt(n), where t is the 97.5% quantile
  of Student's distribution with n - 1 degrees of freedom.

  Args:
    values: An arm's figure by seed.
    reference: The other arm's.
    of_logs: Whether to take differences of logarithms, as for perplexities.

  Returns:
    The difference, arm minus reference; `None` if no seed has both figures.
  """
  differences = []
  for seed, value in values.items():
    other = reference.get(seed)
    if value is not None and other is not None:
      differences.append(
        math.log(value) - math.log(other) if of_logs else value - other
      )
  found = spread(differences)
  if found is None:
    return None
  if found.deviation is None:
    return Difference(found.mean, None, None, found.n)
  quantile = special.stdtrit(found.n - 1, (1 + _CONFIDENCE) / 2)
  margin = float(quantile) * found.deviation / math.sqrt(found.n)
  return Difference(found.mean, found.mean - margin, found.mean + margin, found.n)
