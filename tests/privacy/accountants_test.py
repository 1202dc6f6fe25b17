"""Accountants: published figures hold, and every bound errs on the safe side."""

import math

import dp_accounting
import pytest
from scipy import stats

from tff_textpriv.privacy import accountants
from tff_textpriv.privacy.costs import (
  ADD_OR_REMOVE_ONE,
  REPLACE_ONE,
  SampledGaussian,
)
from tff_textpriv.privacy.errors import PrivacyError


def gaussian_delta(epsilon: float, noise_multiplier: float) -> float:
  """The exact delta of one Gaussian mechanism (Balle and Wang 2018)."""
  half, scaled = 0.5 / noise_multiplier, epsilon * noise_multiplier
  return stats.norm.cdf(half - scaled) - math.exp(epsilon) * stats.norm.cdf(
    -half - scaled
  )


@pytest.mark.parametrize(
  ('population', 'cohort', 'noise', 'rounds', 'expected'),
  [(100, 4, 1.5, 2250, 7.3291), (60_000, 150, 1.3, 6000, 0.7242)],
)
def test_rdp_holds_the_golden_epsilons(population, cohort, noise, rounds, expected):
  mechanism = SampledGaussian('poisson', population, cohort, noise)
  epsilon = accountants.epsilon_of_rounds(mechanism, rounds, 1e-5, 'rdp')
  assert epsilon == pytest.approx(expected, abs=5e-5)


def test_rdp_is_never_below_the_exact_epsilon_of_one_gaussian():
  for noise in (0.5, 1.0, 4.0):
    bound = accountants.epsilon(
      dp_accounting.GaussianDpEvent(noise), 1e-5, ADD_OR_REMOVE_ONE, 'rdp'
    )
    assert gaussian_delta(bound, noise) <= 1e-5
    assert gaussian_delta(0.8 * bound, noise) > 1e-5


def test_pld_equals_the_exact_epsilon_of_one_gaussian():
  bound = accountants.epsilon(
    dp_accounting.GaussianDpEvent(1.0), 1e-5, ADD_OR_REMOVE_ONE, 'pld'
  )
  assert gaussian_delta(bound, 1.0) <= 1e-5
  assert gaussian_delta(bound - 1e-3, 1.0) > 1e-5


def test_vanishing_loss_and_many_rounds_do_not_break_the_rdp_sum():
  mechanism = SampledGaussian('poisson', 100, 1, 1e9)
  assert 0 <= accountants.epsilon_of_rounds(mechanism, 5000, 1e-6, 'rdp') < 0.1


def test_pld_answers_in_time_where_there_is_hardly_any_noise():
  mechanism = SampledGaussian('poisson', 100, 1, 0.01)
  by_pld = accountants.epsilon_of_rounds(mechanism, 100, 1e-6, 'pld')
  by_rdp = accountants.epsilon_of_rounds(mechanism, 100, 1e-6, 'rdp')
  assert 1000 < by_pld <= by_rdp


def test_fixed_size_cohort_of_everybody_is_the_gaussian_with_half_the_noise():
  everybody = SampledGaussian('fixed', 1000, 1000, 4.0)
  assert everybody.event() == dp_accounting.GaussianDpEvent(2.0)
  assert everybody.relation is REPLACE_ONE
  bound = accountants.epsilon_of_rounds(everybody, 1, 1e-5, 'rdp')
  assert gaussian_delta(bound, 2.0) <= 1e-5
  # The broken twin, which forgets that a replaced user moves the sum twice.
  twin = accountants.epsilon(
    dp_accounting.GaussianDpEvent(4.0), 1e-5, REPLACE_ONE, 'rdp'
  )
  assert gaussian_delta(twin, 2.0) > 1e-5


@pytest.mark.parametrize('cohort', [1, 3, 9])
def test_fixed_size_accounting_covers_an_attack_computed_exactly(cohort):
  # Ten users; nine of them always send 0, the tenth +1 or -1. With probability
  # q its value is in the sum: two mixtures of Gaussians, whose delta at the
  # accounted epsilon is integrated on a grid.
  q, noise, delta = cohort / 10, 2.0, 1e-3
  mechanism = SampledGaussian('fixed', 10, cohort, noise)
  epsilon = accountants.epsilon_of_rounds(mechanism, 1, delta, 'rdp')
  step = 1e-3
  grid = [step * i for i in range(-14_000, 14_000)]
  idle = (1 - q) * stats.norm.pdf(grid, 0, noise)
  plus = idle + q * stats.norm.pdf(grid, 1, noise)
  minus = idle + q * stats.norm.pdf(grid, -1, noise)
  attack = (plus - math.exp(epsilon) * minus).clip(min=0).sum() * step
  assert attack <= delta


def test_poisson_cohort_of_everybody_is_the_plain_gaussian():
  everybody = SampledGaussian('poisson', 50, 50, 4.0)
  assert everybody.event() == dp_accounting.GaussianDpEvent(4.0)
  assert everybody.relation is ADD_OR_REMOVE_ONE


def test_no_noise_is_not_private_by_either_accountant():
  silent = SampledGaussian('poisson', 100, 10, 0.0)
  assert silent.event() == dp_accounting.NonPrivateDpEvent()
  for accountant in accountants.ACCOUNTANTS:
    assert accountants.epsilon_of_rounds(silent, 1, 1e-6, accountant) == math.inf


def test_pld_refuses_cohorts_of_fixed_size():
  fixed = SampledGaussian('fixed', 100, 10, 1.0)
  with pytest.raises(PrivacyError, match='pld accountant cannot account'):
    accountants.epsilon_of_rounds(fixed, 1, 1e-6, 'pld')


@pytest.mark.parametrize(
  ('arguments', 'problem'),
  [
    (('shuffled', 10, 5, 1.0), 'shuffled'),
    (('poisson', 10, 11, 1.0), 'cohort of 11'),
    (('poisson', 10, 5, -1.0), 'noise multiplier of -1'),
    (('poisson', 10, 5, math.nan), 'noise multiplier of nan'),
  ],
)
def test_a_mechanism_that_cannot_be_is_refused(arguments, problem):
  with pytest.raises(PrivacyError, match=problem):
    SampledGaussian(*arguments)
