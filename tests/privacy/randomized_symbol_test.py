"""Randomized response of several bits: private, unbiased, and how many bits are best."""

import math

import numpy as np
import pytest

from tff_textpriv.privacy import errors, randomized_symbol
from tff_textpriv.privacy.randomized_response import NUM_DRAWS, BitResponse


def _probabilities(law):
  """Returns the probabilities of the true symbol, and of each other one."""
  other = law.replaced_draws / NUM_DRAWS / law.num_symbols
  return 1 - law.replaced_draws / NUM_DRAWS + other, other


@pytest.mark.parametrize('epsilon', [1e-3, 0.5, 1.0, 4.0, 11.0, 30.0])
@pytest.mark.parametrize('bits', [1, 2, 5, 16])
def test_symbols_are_within_e_to_the_epsilon_exactly(epsilon, bits):
  if epsilon == 1e-3 and bits == 16:
    bits = 8  # In more bits it says nothing.
  law = randomized_symbol.SymbolResponse(epsilon, bits)
  true, other = _probabilities(law)
  assert true + (law.num_symbols - 1) * other == pytest.approx(1, rel=1e-12)
  assert true / other <= math.exp(epsilon) * (1 + 1e-15)
  # It is used up, as far as the grid of draws allows.
  slack = 2 * law.num_symbols * math.exp(min(epsilon, 20)) / NUM_DRAWS
  assert epsilon > 20 or true / other > math.exp(epsilon) * (1 - slack)


def test_one_bit_is_randomized_response():
  for epsilon in (0.1, 1.0, 4.0):
    symbol = randomized_symbol.SymbolResponse(epsilon, 1)
    bit = BitResponse(epsilon)
    assert symbol.contrast == pytest.approx(bit.contrast, abs=4 / NUM_DRAWS)


def test_the_mean_of_a_reported_sign_is_the_contrast_times_the_true_one():
  law = randomized_symbol.SymbolResponse(2.0, 3)
  true, other = _probabilities(law)
  symbols = np.arange(law.num_symbols)
  signs = 2 * (symbols[:, None] >> np.arange(3) & 1) - 1
  for truth in symbols:
    shares = np.where(symbols == truth, true, other)
    np.testing.assert_allclose(shares @ signs, law.contrast * signs[truth], atol=1e-12)


def test_the_bits_of_least_noise_grow_with_epsilon():
  best = randomized_symbol.bits_of_least_noise
  assert [best(epsilon, 1000) for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0)] == [
    1,
    1,
    2,
    4,
    8,
  ]
  assert best(8.0, 3) == 3
  for epsilon in (1.0, 4.0, 8.0):
    gains = {
      k: k * randomized_symbol.SymbolResponse(epsilon, k).contrast ** 2
      for k in range(1, 17)
    }
    assert gains[best(epsilon, 1000)] == max(gains.values())


@pytest.mark.parametrize(
  ('epsilon', 'bits', 'message'),
  [(0.0, 1, 'epsilon 0.0'), (math.inf, 1, 'epsilon inf'), (1.0, 17, '17 bits')],
)
def test_what_is_no_law_is_refused(epsilon, bits, message):
  with pytest.raises(errors.PrivacyError, match=message):
    randomized_symbol.SymbolResponse(epsilon, bits)


def test_an_epsilon_that_the_grid_of_draws_cannot_show_is_refused():
  with pytest.raises(errors.PrivacyError, match='says nothing in 16 bits'):
    randomized_symbol.SymbolResponse(1e-6, 16)
