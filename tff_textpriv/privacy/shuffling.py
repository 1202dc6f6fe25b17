"""What a shuffler adds: the central epsilon of local reports that come without names.

Each of n users sends one report, which is eps0-locally private as a whole: whatever else
the device draws, such as the coordinates that it reports on, is part of it. A shuffler
mixes the reports of a round. Neighbours differ in the data of one user, which stand in
place of others; who takes part is the same.

Both bounds compare the same two laws. C ~ Bin(n - 1, g) of the other reports hide that of
the user: each of them is 0 or 1 like a fair coin. The user's own is 0 with probability
p / (p + 1), p = e^eps0, or else with probability 1 / (p + 1). What is seen is how many of
the C + 1 are 0. The bounds differ in the probability g with which a report hides another.

**Any reports** (`epsilon_of_reports`), g = 1 / p: the clones of Feldman, McMillan and
Talwar, "Hiding Among the Clones" (2021). Let R0 and R1 be the two laws of the user's report,
and Q0 = (p R0 - R1) / (p - 1), Q1 = (p R1 - R0) / (p - 1), which are laws as neither of R0
and R1 exceeds p times the other; then R0 = (p Q0 + Q1) / (p + 1), R1 = (Q0 + p Q1) / (p + 1).
Any other report has a law of at least (R0 + R1) / 2p = (Q0 + Q1) / 2p, so that with
probability 1 / p a fair coin draws it from Q0 or Q1. Whoever is told how many reports are
drawn from Q0 and how many from Q1 can draw them and all others, and shuffle.

**One bit** (`epsilon_of_bits`), g = 2 / (p + 1): the blanket of Balle, Bell, Gascon and
Nissim, "The Privacy Blanket of the Shuffle Model" (2019). A report is one bit by randomized
response, of a coordinate that the device draws without regard to its data. With probability
g another's bit is a fair coin whatever the data are, and the user's report hides among the
C of this kind, of whatever coordinates. If the user's two data differ in all coordinates,
these are the two laws above; the worst case, since coordinates T in which they agree only
blur them: let l be the share of the C + 1 reports outside of T, f0 and f1 the densities of
their bits over fair coins if the user's is one of them, and h that of the bits in T if it is
there. Then delta(e) = E[l (f0 - e^e f1) - (1 - l) (e^e - 1) h]+, and where the data differ
in T, too, E[l (f0 - e^e f1) + (1 - l) ((e^e + 1) h - 2 e^e)]+. Given f, what is added has the
same mean in both; h is independent of f and symmetric about 1, so that the second is the
first stretched about its mean, which makes the expectation of a positive part larger.

More reports hide better (who has few can add some), so that a bound for n holds for more.
Feldman, McMillan and Talwar (2023) give g = 2 / (p + 1) for any reports; that is not used, as
Q0 and Q1 above do not prove it: where R0 = R1 = p R, the law R is (R0 + R1) / 2p and no more.
"""

import dataclasses
import functools
import math

import numpy as np
from dp_accounting.pld import pld_pmf
from scipy import stats

from tff_textpriv.privacy import randomized_response
from tff_textpriv.privacy.errors import PrivacyError

# If fewer reports than this hide another on average, shuffling is not worth computing.
_LEAST_HIDING = 1e-3
# The share of delta that goes to each tail that is left out, over all participations.
_TAIL_SHARE = 1e-5
# The share of delta that goes to rounds with fewer reports than are counted on.
_SHORTFALL_SHARE = 1e-3
_MOST_CROWDS = 128
_MOST_OUTCOMES = 2_000_000
_GRID_POINTS = 2**13
# How close a local epsilon comes to the largest one that keeps a central epsilon.
_TOLERANCE = 1e-3


@dataclasses.dataclass(frozen=True)
class Crowd:
  """How many reports come together in a round.

  Attributes:
    sampling: How cohorts are drawn: 'poisson', 'fixed' or 'separated'.
    population: Users who may be drawn.
    cohort: (Expected) users per round.
    device_failure_rate: The probability that a user who was drawn does not report.
  """

  sampling: str = 'fixed'
  population: int = 1
  cohort: int = 1
  device_failure_rate: float = 0.0

  @property
  def always_complete(self) -> bool:
    """Whether every round has as many reports as planned."""
    return self.sampling == 'fixed' and self.device_failure_rate == 0

  def reports(self, shortfall: float) -> int:
    """Returns how many reports a round has, given that a certain user's is among them.

    Others come by chance unless the cohort is fixed; those of separated cohorts by the
    random turns that they have got.

    Args:
      shortfall: The probability with which there may be fewer.
    """
    others, share = self.cohort - 1, 1.0
    if self.sampling != 'fixed':
      others, share = self.population - 1, self.cohort / self.population
    likelihood = share * (1 - self.device_failure_rate)
    return 1 + int(stats.binom.ppf(shortfall, others, likelihood))

  def counted_on(self, participations: int, delta: float) -> tuple[int, float]:
    """Returns how many reports all of a user's rounds have, and what is left of delta."""
    if self.always_complete:
      return self.cohort, delta
    shortfall = _SHORTFALL_SHARE * delta
    return self.reports(shortfall / max(1, participations)), delta - shortfall


def epsilon_of_reports(
  local_epsilon: float, reports: int, participations: int, delta: float
) -> float:
  """Returns the central epsilon of any locally private reports behind a shuffler.

  Args:
    local_epsilon: Pure local epsilon of one report, of all that it says.
    reports: How many are shuffled together in a round, at least; the user's is one.
    participations: The user's rounds, each of which is shuffled by itself.
    delta: The delta of the guarantee.

  Returns:
    An upper bound; never more than the epsilon of the reports without a shuffler.
  """
  _check(local_epsilon, reports)
  return _epsilon(
    local_epsilon, reports, participations, delta, math.exp(-local_epsilon)
  )


def epsilon_of_bits(
  local_epsilon: float, reports: int, participations: int, delta: float
) -> float:
  """Returns the same where each report is one bit, of one coordinate.

  Args:
    local_epsilon: Local epsilon of the bit, by randomized response.
    reports: See `epsilon_of_reports`, which holds as well but is larger.
    participations: See there.
    delta: See there.
  """
  _check(local_epsilon, reports)
  odds = math.exp(-local_epsilon)
  return _epsilon(local_epsilon, reports, participations, delta, 2 * odds / (1 + odds))


def local_epsilon_for(
  central_epsilon: float, reports: int, participations: int, delta: float
) -> float:
  """Returns the largest local epsilon of a report that gives a central one.

  Args:
    central_epsilon: What `epsilon_of_reports` may be at most.
    reports: See there.
    participations: See there.
    delta: See there.

  Returns:
    A local epsilon within a thousandth of the largest one, and never above it.
  """
  if not 0 < central_epsilon < math.inf or participations < 1:
    raise PrivacyError(
      f'{participations} participations at epsilon {central_epsilon} cannot be planned'
    )

  def fits(local_epsilon: float) -> bool:
    found = epsilon_of_reports(local_epsilon, reports, participations, delta)
    return found <= central_epsilon

  low = central_epsilon / participations
  if not fits(low):  # By the rounding of floating-point numbers only.
    low *= 1 - _TOLERANCE
  high = 2 * low
  while fits(high):
    low, high = high, 2 * high
  while high > low * (1 + _TOLERANCE):
    middle = math.sqrt(low * high)
    low, high = (middle, high) if fits(middle) else (low, middle)
  return low


def _check(local_epsilon: float, reports: int) -> None:
  if not 0 <= local_epsilon < math.inf:
    raise PrivacyError(f'{local_epsilon} is not a local epsilon')
  if reports < 1:
    raise PrivacyError(f'{reports} reports cannot be shuffled')


@functools.lru_cache(maxsize=1024)
def _epsilon(
  local_epsilon: float, reports: int, participations: int, delta: float, hiding: float
) -> float:
  """Returns the bound, given the probability with which a report hides another."""
  without = randomized_response.composed_epsilon(local_epsilon, participations, delta)
  if without == 0 or delta == 0 or hiding * (reports - 1) < _LEAST_HIDING:
    return without
  losses = _losses(local_epsilon, reports, hiding, _TAIL_SHARE * delta / participations)
  if participations > 1:
    losses = losses.self_compose(participations)
  return min(without, losses.get_epsilon_for_delta(delta))


def _losses(
  local_epsilon: float, reports: int, hiding: float, tail: float
) -> pld_pmf.DensePLDPmf:
  """Returns the privacy loss distribution of one round; that of both directions.

  Of m = C + 1 reports a are 0. If the user's data make that the likelier one, this has
  the probability 2 Bin(a; m, 1/2) (p a + m - a) / (p + 1) m, and otherwise the same with
  p (m - a) + a. The ratio depends on a / m alone.

  Args:
    local_epsilon: Pure local epsilon of a report.
    reports: How many there are, n.
    hiding: The probability with which one hides another.
    tail: The probability that may be left out at each end; it counts as a loss without
      bound.
  """
  p = math.exp(local_epsilon)
  crowds, weights = _crowds(reports, hiding, tail)
  losses, masses = [], []
  for crowd, weight in zip(crowds, weights, strict=True):
    m = int(crowd) + 1
    low = int(stats.binom.ppf(tail, m, 0.5))
    zeros = np.arange(low, m - low + 1)
    one_way, other_way = p * zeros + (m - zeros), zeros + p * (m - zeros)
    losses.append(np.log(one_way) - np.log(other_way))
    share = weight * 2 / ((p + 1) * m)
    masses.append(stats.binom.pmf(zeros, m, 0.5) * one_way * share)
  # The least of the crowds, and both ends of each of them, at most twice `tail`.
  return _on_grid(np.concatenate(losses), np.concatenate(masses), infinite=5 * tail)


def _crowds(reports: int, hiding: float, tail: float) -> tuple[np.ndarray, np.ndarray]:
  """Returns how many reports hide that of a user, int64 [crowds], and how likely.

  There are few of them: numbers in between are rounded down, which is the worse case.
  """
  law = stats.binom(reports - 1, hiding)
  least, most = int(law.ppf(tail)), int(law.isf(tail))
  spread = 16 * math.sqrt(most + 1)  # About as many outcomes as a crowd has.
  number = min(_MOST_CROWDS, max(1, int(_MOST_OUTCOMES / spread)))
  crowds = np.unique(np.linspace(least, most, number).astype(np.int64))
  # P(C >= crowd) for each, and what is below the next one.
  reached = law.sf(crowds - 1)
  return crowds, reached - np.append(reached[1:], 0.0)


def _on_grid(
  losses: np.ndarray, masses: np.ndarray, infinite: float
) -> pld_pmf.DensePLDPmf:
  """Returns a distribution of losses, float [outcomes], on a grid.

  The mass between two points of the grid is divided among them so that both laws keep
  theirs. That only stretches the ratio of the two, and is pessimistic ("Connect the Dots",
  Doroshenko et al. 2022).
  """
  interval = 2 * float(np.max(np.abs(losses))) / _GRID_POINTS
  places = np.floor(losses / interval).astype(np.int64)
  upwards = np.expm1((places + 1) * interval - losses) / math.expm1(interval)
  lower = np.clip(upwards, 0.0, 1.0)
  lowest = int(places.min())
  size = int(places.max()) - lowest + 2
  places -= lowest
  probabilities = np.bincount(places, lower * masses, size)
  probabilities += np.bincount(places + 1, (1 - lower) * masses, size)
  return pld_pmf.DensePLDPmf(interval, lowest, probabilities, infinite, True)
