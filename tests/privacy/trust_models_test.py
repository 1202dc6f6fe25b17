"""The noise of trust models side by side: each figure is what its mechanism draws."""

import math

import numpy as np
import pytest

from tff_textpriv.privacy import comparison, spherical_cap

PLACE = comparison.Place(
  population=100_000, cohort=1_000, rounds=200, delta=1e-7, num_coordinates=500
)
LOCAL = ('local PrivUnitG', 'local SQKR', 'local bits', 'local Gaussian')
SHUFFLED = ('shuffled PrivUnitG', 'shuffled bits')
MODELS = {model.name: model for model in comparison.TRUST_MODELS}


def noise(name: str, epsilon: float, place: comparison.Place = PLACE) -> float:
  found = comparison.noise(MODELS[name], place, epsilon)
  assert found is not None
  return found


@pytest.mark.parametrize('name', LOCAL + SHUFFLED)
def test_more_epsilon_is_less_noise(name):
  assert noise(name, 8.0) < noise(name, 2.0)


@pytest.mark.parametrize('kind', ['PrivUnitG', 'bits'])
def test_a_shuffler_saves_noise(kind):
  assert noise(f'shuffled {kind}', 1.0) < noise(f'local {kind}', 1.0)


@pytest.mark.parametrize('name', LOCAL)
def test_whoever_trusts_nobody_pays_more_than_with_a_server(name):
  assert noise(name, 2.0) > noise('central, random cohorts', 2.0)


def test_the_noise_of_reported_vectors_is_what_drawn_ones_have():
  # Everybody takes part twice, with half of the epsilon each time.
  dimension, reports = PLACE.num_coordinates + 1, 4_000
  law = spherical_cap.least_noise(3.0, dimension)
  random = np.random.default_rng(0)
  direction = np.zeros(dimension)
  direction[0] = 1.0
  vectors = random.standard_normal((reports, dimension))
  above = random.random(reports) < law.coin.keep_probability
  along = vectors[:, 0]
  while (wrong := (along >= law.edge) != above).any():
    along[wrong] = random.standard_normal(wrong.sum())
  errors = vectors / law.gain - direction
  # Across the direction, where all but one of the numbers are.
  measured = errors[:, 1:].std() / math.sqrt(PLACE.cohort)
  # Of n numbers, the deviation's own standard error is 1 / sqrt(2n) of it.
  bound = 5 / math.sqrt(2 * reports * (dimension - 1))
  assert measured == pytest.approx(noise('local PrivUnitG', 6.0), rel=bound + 1e-6)


def test_a_promise_that_cannot_be_kept_has_no_noise():
  model = MODELS['central, random cohorts']
  # At a delta that one user in so many would satisfy, it is none.
  lax = comparison.Place(100_000, 1_000, 200, 1e-3, 500)
  assert comparison.noise(model, lax, 1.0) is None
