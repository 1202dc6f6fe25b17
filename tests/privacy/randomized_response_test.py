"""One randomized bit: its probabilities, its estimate, and bits taken together."""

import math
import time

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from tff_textpriv.privacy import errors, randomized_response
from tff_textpriv.privacy.randomized_response import NUM_DRAWS, BitResponse

_EPSILONS = (0.1, 1.0, 10.0)


@pytest.mark.parametrize('epsilon', [1e-6, 0.1, 1.0, 10.0, 22.0, 50.0, 800.0])
def test_the_odds_of_a_bit_never_exceed_e_to_the_epsilon(epsilon):
  response = BitResponse(epsilon)
  ends = response.thresholds(np.array([-0.5, 0.5]), 0.5)
  values = response.thresholds(np.linspace(-0.5, 0.5, 1001), 0.5)
  # Whole numbers of draws: nothing is lost in rounding.
  assert ends.tolist() == [response.flip_draws, NUM_DRAWS - response.flip_draws]
  assert values.min() == ends[0] and values.max() == ends[1]
  assert (np.diff(values) > 0).all() or epsilon < 1e-5
  log_odds = math.log(ends[1]) - math.log(ends[0])
  assert log_odds <= epsilon
  # And the mechanism uses what it is allowed, as far as the grid goes.
  assert log_odds > min(epsilon * (1 - 1e-3), 21)


def test_probabilities_are_those_of_the_equations():
  response = BitResponse(1.0)
  assert response.keep_probability == pytest.approx(math.e / (1 + math.e), abs=1e-9)
  assert response.flip_probability == pytest.approx(1 / (1 + math.e), abs=1e-9)
  assert response.contrast == pytest.approx((math.e - 1) / (math.e + 1), abs=1e-9)
  # Eq. 3 then Eq. 4, for v = 0.3 and q = 0.5: the bit is 1 with probability 0.8.
  kept, flipped = math.e / (1 + math.e), 1 / (1 + math.e)
  expected = 0.8 * kept + 0.2 * flipped
  share = response.thresholds(np.array(0.3), 0.5) / NUM_DRAWS
  assert share == pytest.approx(expected, abs=1e-9)


def _printed_equation_5(mean_bit, epsilon, bound):
  flipped = 1 / (1 + math.exp(epsilon))
  contrast = (math.exp(epsilon) - 1) / (math.exp(epsilon) + 1)
  return (mean_bit - flipped) * contrast * 2 * bound - bound


def test_the_worked_example_is_recovered_and_the_printed_correction_is_not():
  response = BitResponse(1.0)
  mean_bit = response.thresholds(np.array(0.3), 0.5) / NUM_DRAWS
  assert response.estimate(mean_bit, 0.5) == pytest.approx(0.3, abs=1e-8)
  # The broken twin.
  assert _printed_equation_5(mean_bit, 1.0, 0.5) == pytest.approx(-0.329, abs=5e-4)


def test_an_estimate_is_a_sign_over_the_contrast():
  response = BitResponse(1.0)
  estimates = response.estimate(np.array([0.0, 1.0]), 0.5)
  np.testing.assert_allclose(estimates, np.array([-0.5, 0.5]) / response.contrast)


@pytest.mark.parametrize('epsilon', _EPSILONS)
@pytest.mark.parametrize('value', [-0.5, 0.0, 0.3])
def test_the_variance_is_that_of_a_bit_on_two_points(epsilon, value):
  response = BitResponse(epsilon)
  one = response.thresholds(np.array(value), 0.5) / NUM_DRAWS
  low, high = response.estimate(np.array([0.0, 1.0]), 0.5)
  expected = one * (high - value) ** 2 + (1 - one) * (low - value) ** 2
  assert response.variance(value, 0.5) == pytest.approx(expected, rel=1e-6)
  # With probability 0.9 there is no report, and the estimate is 0.
  share = 0.1
  sampled = (
    share * (one * (high / share - value) ** 2 + (1 - one) * (low / share - value) ** 2)
    + (1 - share) * value**2
  )
  assert response.variance(value, 0.5, share) == pytest.approx(sampled, rel=1e-6)


@pytest.mark.parametrize('epsilon', [0.0, 1e-7, -1.0, math.inf, math.nan])
def test_a_bit_without_an_epsilon_is_refused(epsilon):
  with pytest.raises(errors.PrivacyError, match='epsilon'):
    BitResponse(epsilon)


@pytest.mark.parametrize(
  ('epsilon', 'num_bits', 'delta'),
  [
    (1.0, 1, 1e-6),
    (1.0, 25, 1e-6),
    (0.5, 300, 1e-5),
    (1.0, 500, 1e-6),
    (10.0, 30, 1e-6),
    (0.1, 100, 1e-3),
  ],
)
def test_composition_agrees_with_a_general_accountant(epsilon, num_bits, delta):
  interval = 1e-4
  general = privacy_loss_distribution.from_randomized_response(
    2 / (1 + math.exp(epsilon)), 2, value_discretization_interval=interval
  ).self_compose(num_bits)
  ours = randomized_response.composed_epsilon(epsilon, num_bits, delta)
  theirs = general.get_epsilon_for_delta(delta)
  # Theirs rounds the loss of each bit up to the next interval.
  assert ours <= theirs + 1e-9
  assert ours >= theirs - 1.01 * interval * num_bits
  # Exactly so: delta at our epsilon, summed over the number of flips.
  flip = 1 / (1 + math.exp(epsilon))
  total = math.fsum(
    math.exp(
      math.lgamma(num_bits + 1)
      - math.lgamma(j + 1)
      - math.lgamma(num_bits - j + 1)
      + j * math.log(flip)
      + (num_bits - j) * math.log1p(-flip)
    )
    * -math.expm1(min(0.0, ours - epsilon * (num_bits - 2 * j)))
    for j in range(num_bits + 1)
  )
  assert total == pytest.approx(delta, rel=1e-5)


def test_composition_is_at_most_the_sum_and_grows_with_the_number_of_bits():
  figures = [
    randomized_response.composed_epsilon(1.0, n, 1e-6) for n in (1, 2, 10, 100, 10_000)
  ]
  assert figures == sorted(figures)
  assert all(
    figure <= n for figure, n in zip(figures, (1, 2, 10, 100, 10_000), strict=True)
  )
  assert randomized_response.composed_epsilon(1.0, 100, 0.0) == 100
  assert randomized_response.composed_epsilon(1.0, 0, 1e-6) == 0
  # So little is said that delta covers it all.
  assert randomized_response.composed_epsilon(1e-6, 3, 1e-3) == 0


@pytest.mark.parametrize('epsilon', [0.01, 1.0, 5.0])
def test_bits_by_the_billion_are_composed_at_once_and_as_the_normal_law_says(epsilon):
  num_bits = 14_000_000 * 5_000
  start = time.monotonic()
  figure = randomized_response.composed_epsilon(epsilon, num_bits, 1e-6)
  assert time.monotonic() - start < 10
  flip = 1 / (1 + math.exp(epsilon))
  mean = epsilon * num_bits * (1 - 2 * flip)
  stddev = 2 * epsilon * math.sqrt(num_bits * flip * (1 - flip))
  # The 1 - 1e-6 quantile of the loss is 4.75 standard deviations above its mean.
  assert mean + 4.6 * stddev <= figure <= mean + 4.8 * stddev
