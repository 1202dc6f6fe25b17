"""Calibration: how much noise, how large a cohort, how many rounds fit an epsilon."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import dp_accounting
from dp_accounting import mechanism_calibration

from tff_textpriv.privacy import accountants
from tff_textpriv.privacy.costs import GaussianCost, SampledGaussian
from tff_textpriv.privacy.errors import PrivacyError

_NOISE_TOLERANCE = 1e-6
_NOISE_LIMITS = (1e-6, 1e6)
_ROUNDS_LIMIT = 10**9


@dataclasses.dataclass(frozen=True)
class Budget:
  """A guarantee to keep: at most `epsilon` at `delta`, by `accountant`."""

  epsilon: float
  delta: float
  accountant: str

  def exceeded_by(self, mechanism: GaussianCost, rounds: int) -> bool:
    """Tells whether `rounds` rounds of `mechanism` cost more than the budget."""
    spent = accountants.epsilon_of_rounds(
      mechanism, rounds, self.delta, self.accountant
    )
    return spent > self.epsilon

  def left_by(self, mechanism: GaussianCost, rounds: int) -> 'Budget':
    """Returns what rounds leave for an accountant, who knows nothing of their draws.

    Raises:
      PrivacyError: They leave nothing.
    """
    left = dataclasses.replace(
      self,
      # A trifle less, since sums are rounded.
      epsilon=(self.epsilon - rounds * mechanism.own_epsilon) * (1 - 1e-12),
      delta=self.delta - rounds * mechanism.own_delta,
    )
    if left.epsilon <= 0 or left.delta <= 0:
      raise PrivacyError(
        f'{rounds:,} rounds of {mechanism.num_draws:,} numbers of noise each cannot be '
        f'drawn precisely enough for {self}'
      )
    return left

  def by_rdp(self) -> 'Budget':
    """Returns the same budget, accounted quickly: where to start a PLD search."""
    return dataclasses.replace(self, accountant='rdp')

  def __str__(self) -> str:
    return f'epsilon {self.epsilon:g} at delta {self.delta:g} ({self.accountant})'


@functools.lru_cache(maxsize=64)
def noise_for_budget(mechanism: GaussianCost, rounds: int, budget: Budget) -> float:
  """Returns the smallest noise multiplier with which `rounds` rounds fit.

  Args:
    mechanism: What a round is; its own noise multiplier is not read.
    rounds: Number of rounds to plan for.
    budget: What all rounds together may cost.

  Returns:
    A noise multiplier within 1e-6 of the smallest one, and never below it.

  Raises:
    PrivacyError: The smallest noise multiplier is not in [1e-6, 1e6].
  """

  if mechanism.num_draws:
    budget = budget.left_by(mechanism, rounds)

  if budget.accountant == 'pld':  # Its answer is a little below that of RDP.
    low = high = noise_for_budget(mechanism, rounds, budget.by_rdp())
    step = 1.15
  else:
    low = high = 1.0
    step = 2.0
  while budget.exceeded_by(mechanism.with_noise(high), rounds):
    low, high = high, high * step
    if high > _NOISE_LIMITS[1]:
      raise PrivacyError(
        f'no noise multiplier up to {_NOISE_LIMITS[1]:g} gives {budget}'
      )
  while not budget.exceeded_by(mechanism.with_noise(low), rounds):
    low, high = low / step, low
    if low < _NOISE_LIMITS[0]:
      raise PrivacyError(
        f'{budget} promises nothing: a noise multiplier of {_NOISE_LIMITS[0]:g} '
        'is enough for it'
      )
  return _calibrate(
    lambda noise: (mechanism.with_noise(noise), rounds), budget, low, high, False
  )


def cohort_for_budget(mechanism: SampledGaussian, rounds: int, budget: Budget) -> int:
  """Returns the largest cohort with which `rounds` rounds fit into `budget`.

  Args:
    mechanism: Sampling, population and noise; its own cohort is not read.
    rounds: Number of rounds to plan for.
    budget: What all rounds together may cost.

  Raises:
    PrivacyError: Not even a cohort of 1 fits.
  """

  def with_cohort(cohort: int) -> SampledGaussian:
    return dataclasses.replace(mechanism, cohort=cohort)

  if budget.exceeded_by(with_cohort(1), rounds):
    raise PrivacyError(
      f'{rounds} rounds with noise multiplier {mechanism.noise_multiplier:g} exceed '
      f'{budget} even with cohorts of one user: use more noise or fewer rounds'
    )
  start = 1
  if budget.accountant == 'pld' and not budget.by_rdp().exceeded_by(
    with_cohort(1), rounds
  ):
    start = cohort_for_budget(mechanism, rounds, budget.by_rdp())
  return _largest(
    lambda cohort: (with_cohort(cohort), rounds), budget, start, mechanism.population
  )


def rounds_for_budget(mechanism: SampledGaussian, budget: Budget) -> int:
  """Returns the largest number of rounds of `mechanism` that fit into `budget`.

  Raises:
    PrivacyError: Not even one round fits, or a billion rounds do.
  """
  if budget.exceeded_by(mechanism, 1):
    raise PrivacyError(
      f'a single round with noise multiplier {mechanism.noise_multiplier:g} and '
      f'cohort {mechanism.cohort} exceeds {budget}: use more noise or a smaller cohort'
    )
  start = 1
  if budget.accountant == 'pld' and not budget.by_rdp().exceeded_by(mechanism, 1):
    start = rounds_for_budget(mechanism, budget.by_rdp())
  rounds = _largest(lambda rounds: (mechanism, rounds), budget, start, _ROUNDS_LIMIT)
  if rounds == _ROUNDS_LIMIT:
    raise PrivacyError(
      f'{_ROUNDS_LIMIT:,} rounds fit into {budget}: less noise will do'
    )
  return rounds


def _largest(
  at: Callable[[int], tuple[SampledGaussian, int]],
  budget: Budget,
  start: int,
  limit: int,
) -> int:
  """Returns the largest integer in [start, limit] that fits; `start` does."""
  low, high = start, start
  while not budget.exceeded_by(*at(high)):
    if high == limit:
      return limit
    low, high = high, min(limit, math.ceil(1.25 * high))
  largest = int(_calibrate(at, budget, low, high, True))
  while largest + 1 < high and not budget.exceeded_by(*at(largest + 1)):
    largest += 1
  return largest


class _EpsilonAccountant:
  """What `calibrate_dp_mechanism` asks of an accountant, answered by ours.

  It makes a calibrated figure and the ledger's figure the same to the last bit.
  """

  ledger = dp_accounting.NoOpDpEvent()

  def __init__(self, relation: dp_accounting.NeighboringRelation, accountant: str):
    self._relation = relation
    self._accountant = accountant
    self._event: dp_accounting.DpEvent = dp_accounting.NoOpDpEvent()

  def compose(self, event: dp_accounting.DpEvent) -> '_EpsilonAccountant':
    """Takes the one event of a trial."""
    self._event = event
    return self

  def get_epsilon(self, target_delta: float) -> float:
    """Returns the epsilon of the trial."""
    return accountants.epsilon(
      self._event, target_delta, self._relation, self._accountant
    )


def _calibrate(
  at: Callable[[Any], tuple[GaussianCost, int]],
  budget: Budget,
  low: float,
  high: float,
  discrete: bool,
) -> float:
  """Finds where the mechanism and rounds of `at` just keep within `budget`."""

  def event(parameter: Any) -> dp_accounting.DpEvent:
    mechanism, rounds = at(parameter)
    return mechanism.composed(rounds)

  relation = at(round(low) if discrete else low)[0].relation
  try:
    return mechanism_calibration.calibrate_dp_mechanism(
      lambda: _EpsilonAccountant(relation, budget.accountant),
      event,
      budget.epsilon,
      budget.delta,
      mechanism_calibration.ExplicitBracketInterval(low, high),
      discrete=discrete,
      tol=_NOISE_TOLERANCE,
    )
  except mechanism_calibration.NoOptimumFoundError as error:
    raise PrivacyError(f'no setting found that gives {budget}: {error}') from error
