"""Planning a deployment: of epsilon, noise, cohort and rounds, three give the fourth."""

import bisect
import dataclasses
from collections.abc import Callable

import dp_accounting

from tff_textpriv.privacy import accountants, calibration
from tff_textpriv.privacy.costs import GaussianCost, SampledGaussian
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.settings import IncompatibleSettingsError

# What says how much a message hides: noise on sums, or the local epsilon of a report.
NOISE, REPORT = 'noise_multiplier', 'report_epsilon'


@dataclasses.dataclass(frozen=True)
class Question:
  """What is known of a deployment; one of `quantities` is `None`, and asked for.

  Attributes:
    epsilon: Epsilon of the whole run.
    noise_multiplier: Noise on the sum of updates, over the clip norm.
    cohort: (Expected) users per round.
    rounds: Number of rounds.
    population: Users that may be sampled.
    delta: Delta of the guarantee.
    sampling: How cohorts are drawn: 'poisson' or 'fixed'.
    report_epsilon: Local epsilon of a report, for mechanisms without a noise multiplier.
    num_coordinates: The size of an update, where it matters.
    strength: What a mechanism is planned by, `NOISE` or `REPORT`.
  """

  epsilon: float | None
  noise_multiplier: float | None
  cohort: int | None
  rounds: int | None
  population: int
  delta: float
  sampling: str
  report_epsilon: float | None = None
  num_coordinates: int = 1_000_000
  strength: str = NOISE

  @property
  def quantities(self) -> tuple[str, ...]:
    """The names of the four, of which three are known."""
    return ('epsilon', self.strength, 'cohort', 'rounds')

  @property
  def unknown(self) -> str:
    """The name of the one quantity that is left out.

    Raises:
      IncompatibleSettingsError: None or several are left out, one is given that the
        mechanism does not have, or the cohort is larger than the population.
    """
    (foreign,) = {NOISE, REPORT} - {self.strength}
    if getattr(self, foreign) is not None:
      raise IncompatibleSettingsError(
        f'--{foreign} is not for this mechanism, which is planned by --{self.strength}'
      )
    missing = [name for name in self.quantities if getattr(self, name) is None]
    if len(missing) != 1:
      every = ', '.join(f'--{name}' for name in self.quantities)
      left_out = ', '.join(f'--{name}' for name in missing) or 'none'
      raise IncompatibleSettingsError(
        f'give three of {every} and leave out the one to solve for; left out: '
        f'{left_out}'
      )
    if self.cohort is not None and self.cohort > self.population:
      raise IncompatibleSettingsError(
        f'--cohort={self.cohort} is larger than --population={self.population}'
      )
    return missing[0]

  def answered(self, solution: 'Solution') -> 'Question':
    """Returns the question that asks for the epsilon of a solution."""
    numbers = {name: getattr(solution, name) for name in self.quantities}
    return dataclasses.replace(self, **numbers | {'epsilon': None})


@dataclasses.dataclass(frozen=True)
class Solution:
  """All quantities of a deployment, by one accountant.

  Attributes:
    accountant: 'rdp', 'pld' or 'shuffling'.
    epsilon: What is really spent.
    cohort: (Expected) users per round.
    rounds: Number of rounds.
    sampling: How users come.
    relation: What neighbours are.
    noise_multiplier: Noise on the sum of updates, over the clip norm, if there is any.
    report_epsilon: The local epsilon of a report, if there are reports.
    local_epsilon: What all reports of a user cost without whoever makes them safer.
  """

  accountant: str
  epsilon: float
  cohort: int
  rounds: int
  sampling: str
  relation: dp_accounting.NeighboringRelation
  noise_multiplier: float | None = None
  report_epsilon: float | None = None
  local_epsilon: float | None = None


def of_gaussian(
  cost: GaussianCost, cohort: int, rounds: int, delta: float, accountant: str
) -> Solution:
  """Returns the solution that rounds of a Gaussian mechanism amount to."""
  return Solution(
    accountant,
    accountants.epsilon_of_rounds(cost, rounds, delta, accountant),
    cohort,
    rounds,
    cost.sampling,
    cost.relation,
    noise_multiplier=cost.noise_multiplier,
  )


def solve_sampled_gaussian(question: Question) -> list[Solution]:
  """Solves for what is left out, by each accountant that can account the sampling."""
  able = accountants.ACCOUNTANTS if question.sampling == 'poisson' else ('rdp',)
  return [_solve(question, accountant) for accountant in able]


def _solve(question: Question, accountant: str) -> Solution:
  unknown = question.unknown
  cost = SampledGaussian(
    question.sampling,
    question.population,
    question.cohort or 1,
    question.noise_multiplier or 1.0,
  )
  rounds = question.rounds or 1
  if question.epsilon is not None:
    budget = calibration.Budget(question.epsilon, question.delta, accountant)
    if unknown == 'noise_multiplier':
      noise = calibration.noise_for_budget(cost, rounds, budget)
      cost = dataclasses.replace(cost, noise_multiplier=noise)
    elif unknown == 'cohort':
      cohort = calibration.cohort_for_budget(cost, rounds, budget)
      cost = dataclasses.replace(cost, cohort=cohort)
    else:
      rounds = calibration.rounds_for_budget(cost, budget)
  return of_gaussian(cost, cost.cohort, rounds, question.delta, accountant)


def largest(fits: Callable[[int], bool], limit: int) -> int:
  """Returns the largest number up to a limit that fits, as all smaller ones do."""
  number = bisect.bisect_left(range(1, limit + 1), True, key=lambda n: not fits(n))
  if number == 0:
    raise PrivacyError('not even one fits: use more noise, or a larger epsilon')
  return number
