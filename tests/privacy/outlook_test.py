"""What is foreseen of noise, against what it is by hand."""

import dataclasses
import math

import pytest

from tff_textpriv.privacy import central_settings, outlook, randomized_bits
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.privacy.no_mechanism import NoMechanism

_DEPLOYMENT = Deployment('poisson', 400, 100, rounds=40, num_coordinates=20_000)


def _settings(**given):
  return central_settings.CentralPrivacySettings(accountant='rdp', **given)


def _foreseen(settings, deployment=_DEPLOYMENT):
  return outlook.foresee(settings.mechanism(deployment), deployment)


def test_noise_on_the_mean_is_that_of_all_coordinates_over_the_clip_norm():
  found = _foreseen(_settings(noise_multiplier=2.0, clip=0.3))
  assert found.noise == pytest.approx(2.0 * math.sqrt(20_000) / 100)
  assert found.strength == pytest.approx(math.sqrt(40) / found.noise)


def test_a_simulation_has_the_noise_of_the_deployment_it_stands_for():
  accounted = {'accounted_population': 10**6, 'accounted_cohort': 10_000}
  found = _foreseen(_settings(noise_multiplier=2.0, **accounted))
  assert found.noise == pytest.approx(2.0 * math.sqrt(20_000) / 10_000)


def test_bits_are_noisier_the_less_each_says():
  def noise(epsilon):
    settings = randomized_bits.LocalPrivacySettings(epsilon_per_coordinate=epsilon)
    return _foreseen(settings).noise

  # 1 / tanh(epsilon / 2) each, the mean of 100, beside a twentieth of the range.
  assert noise(1.0) == pytest.approx(20 / math.tanh(0.5) / 10)
  assert noise(0.1) > 5 * noise(1.0)


def test_without_noise_nothing_is_foreseen():
  assert outlook.foresee(NoMechanism('no noise'), _DEPLOYMENT) is None
  assert _foreseen(_settings(noise_multiplier=0.0)) is None


def test_remedies_would_do():
  settings = _settings(target_epsilon=1.0)
  assert not _foreseen(settings).is_enough
  users, epsilon = outlook.remedies(settings, _DEPLOYMENT)
  value = float(epsilon.removeprefix('--target_epsilon='))
  assert _foreseen(_settings(target_epsilon=value)).is_enough
  population, cohort = (
    int(word.replace(',', '')) for word in users.split() if word[0].isdigit()
  )
  larger = dataclasses.replace(_DEPLOYMENT, population=population, cohort=cohort)
  assert _foreseen(settings, larger).is_enough
  # And not much less would.
  fewer = dataclasses.replace(
    _DEPLOYMENT, population=population // 2, cohort=cohort // 2
  )
  assert not _foreseen(settings, fewer).is_enough
