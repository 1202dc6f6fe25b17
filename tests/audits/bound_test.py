"""The audit's bound holds as often as it says, and comes near where it can."""

import itertools
import math

import dp_accounting
import numpy as np
import pytest
from scipy import special, stats

from tff_textpriv.audits import bound as bound_lib


def _released_by_randomized_response(coins, epsilon, rng):
  kept = rng.random(coins.shape) < special.expit(epsilon)
  return np.where(coins == kept, 1.0, -1.0)


def _gaussian_epsilon(sigma: float, delta: float) -> float:
  accountant = dp_accounting.pld.PLDAccountant()
  accountant.compose(dp_accounting.GaussianDpEvent(sigma))
  return accountant.get_epsilon(delta)


def test_the_p_value_without_delta_is_the_binomial_tail_summed_term_by_term():
  for number, right, epsilon in ((7, 5, 0.4), (12, 12, 2.0), (30, 0, 1.0)):
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    tail = sum(
      math.comb(number, k) * p**k * (1 - p) ** (number - k)
      for k in range(right, number + 1)
    )
    assert bound_lib.p_value(50, number, right, epsilon, 0.0) == pytest.approx(tail)


def _worst_gain(number, right, p, mean_given):
  """P(W + F >= v), maximized over all laws of F on two points with the given mean."""
  values = []
  for low, high in itertools.combinations(range(right + 1), 2):
    share = min(1.0, max(0.0, (mean_given - low) / (high - low)))
    if low <= mean_given:
      values.append(
        (1 - share) * stats.binom.sf(right - 1 - low, number, p)
        + share * stats.binom.sf(right - 1 - high, number, p)
      )
  return max(values)


@pytest.mark.parametrize('right', [3, 8, 12])
def test_delta_adds_what_the_worst_number_of_coins_given_away_could(right):
  number, coins, epsilon, delta = 12, 20, 0.7, 0.002
  expected = _worst_gain(number, right, special.expit(epsilon), 2 * coins * delta)
  assert bound_lib.p_value(coins, number, right, epsilon, delta) == pytest.approx(
    expected
  )


def test_the_bound_is_where_the_p_value_is_the_allowed_error():
  for delta in (0.0, 1e-5):
    bound = bound_lib.lower_bound(1000, 400, 320, delta, 0.9)
    assert bound_lib.p_value(1000, 400, 320, bound, delta) == pytest.approx(
      0.1, abs=1e-6
    )
  assert bound_lib.lower_bound(1000, 400, 200, 0.0) == 0
  assert bound_lib.lower_bound(1000, 0, 0, 0.0) == 0


def test_published_figures_are_met():
  # Of the paper's text: 75 of 100 right guesses are no news at epsilon log 3.
  assert bound_lib.p_value(100, 100, 75, math.log(3), 0) == pytest.approx(
    0.553, abs=1e-3
  )


def test_more_than_all_right_guesses_cannot_be_counted():
  with pytest.raises(ValueError, match='11 right ones among 10 guesses'):
    bound_lib.p_value(20, 10, 11, 1.0, 0.0)
  with pytest.raises(ValueError, match='epsilon -1'):
    bound_lib.p_value(20, 10, 5, -1.0, 0.0)


def test_guesses_are_the_highest_and_the_lowest_scores():
  scores = np.array([5.0, -3.0, 0.0, 4.0, -2.0, 1.0])
  coins = np.array([True, False, True, False, True, False])
  assert bound_lib.count_right(scores, coins, 2) == 2
  assert bound_lib.count_right(scores, coins, 4) == 2
  assert bound_lib.count_right(scores, coins, 6) == 2


@pytest.mark.parametrize('epsilon', [0.5, 1.0, 4.0])
def test_randomized_response_is_bounded_in_95_percent_and_nearly_met(epsilon):
  rng = np.random.default_rng(round(10 * epsilon))
  bounds = []
  for _ in range(1000):
    coins = rng.random(2000) < 0.5
    released = _released_by_randomized_response(coins, epsilon, rng)
    right = np.sum((released > 0) == coins)
    bounds.append(bound_lib.made(2000, 2000, right, 0.0).epsilon)
  # Randomized response is the worst case: the error comes near the allowed 5%.
  exceeded = np.mean(np.array(bounds) > epsilon)
  assert 0.02 < exceeded < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 1000)
  assert np.median(bounds) > 0.8 * epsilon


def test_with_many_guesses_randomized_response_is_met_closely():
  rng = np.random.default_rng(0)
  coins = rng.random(1_000_000) < 0.5
  released = _released_by_randomized_response(coins, 1.0, rng)
  assert 0.985 < bound_lib.audit(released, coins, 0.0).epsilon < 1.0


@pytest.mark.parametrize('sigma', [4.0, 1.2, 0.6])
def test_the_gaussian_mechanism_is_bounded_and_a_broken_one_is_caught(sigma):
  delta, rng = 1e-5, np.random.default_rng(3)
  epsilon = _gaussian_epsilon(sigma, delta)
  shares = (0.05, 0.2, 0.5, 1.0)
  sound, no_clip = [], []
  for _ in range(100):
    coins = rng.random(1000) < 0.5
    noise = rng.normal(size=1000) * sigma
    sound.append(bound_lib.audit(coins + noise, coins, delta, 0.95, shares).epsilon)
    no_clip.append(
      bound_lib.audit(100 * coins + noise, coins, delta, 0.95, shares).epsilon
    )
  assert np.mean(np.array(sound) > epsilon) <= 0.05
  # What 1,000 canaries can show at most is an epsilon of about five.
  assert min(no_clip) > min(epsilon, 4.5)
  if epsilon > 3:
    assert np.median(sound) > 0.2 * epsilon


def test_coins_that_are_given_away_with_probability_delta_are_allowed_for():
  # With probability 2%, all coins are released as they are; else randomized response.
  rng, epsilon, delta, repetitions = np.random.default_rng(1), 1.0, 0.02, 2000
  exceeded = ignoring_delta = 0
  for _ in range(repetitions):
    coins = rng.random(40) < 0.5
    released = np.where(coins, 1.0, -1.0)
    if rng.random() >= delta:
      released = _released_by_randomized_response(coins, epsilon, rng)
    right = bound_lib.count_right(released, coins, 40)
    exceeded += bound_lib.lower_bound(40, 40, right, delta) > epsilon
    ignoring_delta += bound_lib.lower_bound(40, 40, right, 0.0) > epsilon
  assert exceeded <= 0.05 * repetitions
  assert ignoring_delta > exceeded


def test_several_numbers_of_guesses_share_the_error():
  # Scores that say nothing: the best of many numbers must not seem to say something.
  rng, bounds = np.random.default_rng(2), []
  for _ in range(500):
    coins = rng.random(200) < 0.5
    scores = rng.normal(size=200)
    shares = np.linspace(0.05, 1, 20)
    bounds.append(bound_lib.audit(scores, coins, 0.0, 0.95, shares).epsilon)
  assert np.mean(np.array(bounds) > 0) <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / 500)
