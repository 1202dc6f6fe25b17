"""Planning a deployment: of epsilon, noise, cohort and rounds, three give the fourth."""

import dataclasses

from tff_textpriv.privacy import accountants, calibration
from tff_textpriv.privacy.costs import GaussianCost, SampledGaussian
from tff_textpriv.settings import IncompatibleSettingsError

UNKNOWNS = ('epsilon', 'noise_multiplier', 'cohort', 'rounds')


@dataclasses.dataclass(frozen=True)
class Question:
  """What is known of a deployment; one of `UNKNOWNS` is `None`, and asked for.

  Attributes:
    epsilon: Epsilon of the whole run.
    noise_multiplier: Noise on the sum of updates, over the clip norm.
    cohort: (Expected) users per round.
    rounds: Number of rounds.
    population: Users that may be sampled.
    delta: Delta of the guarantee.
    sampling: How cohorts are drawn: 'poisson' or 'fixed'.
  """

  epsilon: float | None
  noise_multiplier: float | None
  cohort: int | None
  rounds: int | None
  population: int
  delta: float
  sampling: str

  @property
  def unknown(self) -> str:
    """The name of the one quantity that is left out.

    Raises:
      IncompatibleSettingsError: None or several are left out, or the cohort is
        larger than the population.
    """
    missing = [name for name in UNKNOWNS if getattr(self, name) is None]
    if len(missing) != 1:
      every = ', '.join(f'--{name}' for name in UNKNOWNS)
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


@dataclasses.dataclass(frozen=True)
class Solution:
  """All quantities of a deployment, by one accountant.

  Attributes:
    accountant: 'rdp' or 'pld'.
    epsilon: What is really spent.
    rounds: Number of rounds.
    cohort: (Expected) users per round.
    cost: What one round costs.
  """

  accountant: str
  epsilon: float
  rounds: int
  cohort: int
  cost: GaussianCost

  @property
  def noise_multiplier(self) -> float:
    """Noise on the sum of updates, over the clip norm."""
    return self.cost.noise_multiplier


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
  epsilon = accountants.epsilon_of_rounds(cost, rounds, question.delta, accountant)
  return Solution(accountant, epsilon, rounds, cost.cohort, cost)
