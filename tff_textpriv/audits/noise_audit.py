"""Audits the noise itself: how much there is, whether rounds share it, and its tails.

Canaries say little of noise that is half as large as it should be, and nothing of noise
that two rounds share or that never is large. But the rounds can be made again without any
client, and what they release then is their noise: all random numbers of a run follow from
its stream and the round. It is compared with what the ledger was charged for.

Under the hypothesis that the code does what the accounting says, each statistic has a
known law, and a check fails with the probability that it is given at most.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

SOUND, FAILED = 'sound', 'FAILED'
# The share of audits of sound noise that fail. There are draws enough for one that is
# much smaller than that of the bounds: what is wrong with noise mostly is so by far.
ERROR = 1e-4
# Statistics that are tried, each with its part of the error.
_NUM_CHECKS = 3


@dataclasses.dataclass(frozen=True)
class NoiseCheck:
  """One property of the noise.

  Attributes:
    name: `amount`, `shared` or `tails`.
    what: What was looked at.
    seen: What was found.
    p_value: How likely this or worse is for the noise that is accounted for.
    error: The probability below which that is a failure.
    could_see: The least that such a check would have found.
  """

  name: str
  what: str
  seen: str
  p_value: float
  error: float
  could_see: str

  @property
  def verdict(self) -> str:
    """Whether the noise is as it should be, as far as one can tell."""
    return FAILED if self.p_value < self.error else SOUND


def checks(noise: Sequence[np.ndarray]) -> list[NoiseCheck]:
  """Checks the noise of rounds.

  Args:
    noise: That of each round, float [coordinates], in units of the standard deviation
      that is accounted for.

  Returns:
    The checks. Sound noise fails one of them with probability `ERROR` at most.
  """
  error = ERROR / _NUM_CHECKS
  found = [_amount(noise, error), _tails(noise, error)]
  if len(noise) > 1:
    found.insert(1, _shared(noise, error))
  return found


def _amount(noise: Sequence[np.ndarray], error: float) -> NoiseCheck:
  """Compares the sum of squares, which has a chi-squared law; more noise is no fault."""
  number = sum(each.size for each in noise)
  squares = sum(float(np.sum(np.square(each, dtype=np.float64))) for each in noise)
  least = math.sqrt(stats.chi2.ppf(error, number) / number)
  return NoiseCheck(
    'amount',
    f'standard deviation of {number:,} draws',
    f'{math.sqrt(squares / number):.3f} of what is accounted for',
    float(stats.chi2.cdf(squares, number)),
    error,
    f'less than {least:.3f}',
  )


def _shared(noise: Sequence[np.ndarray], error: float) -> NoiseCheck:
  """Correlates each two rounds; the square of a correlation has a beta law.

  With few coordinates by chance alone some are large: each pair has its part of the
  error.
  """
  worst, seen = 1.0, 0.0
  pairs = list(itertools.combinations(range(len(noise)), 2))
  for i, j in pairs:
    size = min(noise[i].size, noise[j].size)
    one, other = (noise[k][:size].astype(np.float64) for k in (i, j))
    correlation = float(one @ other) / math.sqrt((one @ one) * (other @ other))
    p_value = float(stats.beta.sf(correlation**2, 0.5, (size - 1) / 2))
    if p_value < worst:
      worst, seen = p_value, correlation
  size = min(each.size for each in noise)
  least = math.sqrt(stats.beta.isf(error / len(pairs), 0.5, (size - 1) / 2))
  return NoiseCheck(
    'shared',
    f'correlation of each two of {len(noise)} rounds',
    f'{seen:+.3f} at most',
    min(1.0, worst * len(pairs)),
    error,
    f'more than {least:.3f}',
  )


def _tails(noise: Sequence[np.ndarray], error: float) -> NoiseCheck:
  """Counts draws so far out that some, but only a few, should be there.

  Where none of n draws is beyond t standard deviations, the probability is
  (1 - 2 Q(t))^n; t is the largest for which that would be a failure. Deviations are those
  of the noise itself, so that its amount does not matter here.
  """
  number = sum(each.size for each in noise)
  squares = sum(float(np.sum(np.square(each, dtype=np.float64))) for each in noise)
  deviation = math.sqrt(squares / number)
  # A bit more than log(1 / error) are expected beyond it.
  share = min(1.0, -math.expm1(math.log(error) / number) * 1.01)
  threshold = float(stats.norm.isf(share / 2))
  beyond = sum(int(np.sum(np.abs(each) > threshold * deviation)) for each in noise)
  largest = max(float(np.max(np.abs(each))) for each in noise) / deviation
  return NoiseCheck(
    'tails',
    f'draws beyond {threshold:.2f} standard deviations',
    f'{beyond}, and {share * number:.1f} expected; the largest is {largest:.2f}',
    float(stats.binom.cdf(beyond, number, share)),
    error,
    f'cut off below {threshold:.2f}',
  )
