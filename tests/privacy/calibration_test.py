"""Calibration: what is found just fits the budget, and golden figures hold."""

import dataclasses

import pytest

from tff_textpriv.privacy import accountants, calibration
from tff_textpriv.privacy.costs import SampledGaussian
from tff_textpriv.privacy.errors import PrivacyError

PAPER = SampledGaussian('poisson', 10_000_000, 20_000, 0.8)


@pytest.mark.parametrize(('accountant', 'expected'), [('rdp', 0.817), ('pld', 0.7335)])
def test_noise_of_the_paper_setting_is_golden_and_tight(accountant, expected):
  budget = calibration.Budget(2.0, 1e-6, accountant)
  noise = calibration.noise_for_budget(PAPER, 5000, budget)
  assert noise == pytest.approx(expected, abs=5e-4)
  solved = dataclasses.replace(PAPER, noise_multiplier=noise)
  assert not budget.exceeded_by(solved, 5000)
  less = dataclasses.replace(PAPER, noise_multiplier=noise - 1e-5)
  assert budget.exceeded_by(less, 5000)


@pytest.mark.parametrize('target', [0.01, 0.5, 8.0, 500.0])
def test_noise_is_found_for_small_and_large_epsilons(target):
  mechanism = SampledGaussian('poisson', 300, 20, 1.0)
  budget = calibration.Budget(target, 1e-5, 'rdp')
  noise = calibration.noise_for_budget(mechanism, 50, budget)
  spent = accountants.epsilon_of_rounds(
    dataclasses.replace(mechanism, noise_multiplier=noise), 50, 1e-5, 'rdp'
  )
  assert spent <= target
  assert spent == pytest.approx(target, rel=0.01)


def test_an_epsilon_that_promises_nothing_is_refused():
  with pytest.raises(PrivacyError, match='promises nothing'):
    calibration.noise_for_budget(PAPER, 1, calibration.Budget(1e20, 1e-6, 'rdp'))


@pytest.mark.parametrize('sampling', ['poisson', 'fixed'])
def test_solved_rounds_are_the_last_that_fit(sampling):
  mechanism = SampledGaussian(sampling, 10_000, 100, 2.0)
  budget = calibration.Budget(2.0, 1e-6, 'rdp')
  rounds = calibration.rounds_for_budget(mechanism, budget)
  assert rounds > 1
  assert not budget.exceeded_by(mechanism, rounds)
  assert budget.exceeded_by(mechanism, rounds + 1)


@pytest.mark.parametrize(
  'accountant', ['rdp', pytest.param('pld', marks=pytest.mark.slow)]
)
def test_solved_cohort_is_the_largest_that_fits(accountant):
  budget = calibration.Budget(2.0, 1e-6, accountant)
  mechanism = SampledGaussian('poisson', 1_000, 1, 1.0)
  cohort = calibration.cohort_for_budget(mechanism, 10, budget)
  assert cohort > 1
  assert not budget.exceeded_by(dataclasses.replace(mechanism, cohort=cohort), 10)
  assert budget.exceeded_by(dataclasses.replace(mechanism, cohort=cohort + 1), 10)


def test_the_whole_population_is_the_largest_cohort():
  mechanism = SampledGaussian('poisson', 50, 1, 100.0)
  budget = calibration.Budget(2.0, 1e-6, 'rdp')
  assert calibration.cohort_for_budget(mechanism, 10, budget) == 50


def test_unsolvable_questions_say_what_to_change():
  budget = calibration.Budget(0.5, 1e-6, 'rdp')
  with pytest.raises(PrivacyError, match='more noise or a smaller cohort'):
    calibration.rounds_for_budget(SampledGaussian('poisson', 10, 5, 0.5), budget)
  with pytest.raises(PrivacyError, match='more noise or fewer rounds'):
    calibration.cohort_for_budget(SampledGaussian('poisson', 10, 5, 0.5), 9, budget)
  with pytest.raises(PrivacyError, match='less noise will do'):
    calibration.rounds_for_budget(SampledGaussian('poisson', 10**7, 1, 1e3), budget)
