"""Strategies: their noise is the inverse of what they encode, and as small as is known."""

import dp_accounting
import numpy as np
import pytest

from tff_textpriv.privacy import banded_noise
from tff_textpriv.privacy.banded_noise import BandedNoise
from tff_textpriv.privacy.buffered_noise import BufferedNoise
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.tree_noise import TreeNoise


def _optimal_error(rounds: int) -> float:
  """The least error of any factorization, for one participation.

  Denisov et al., Improved Differential Privacy for SGD via Optimal Private Linear
  Operators on Adaptive Streams (2022): with H = A^T A and v a fixed point of
  v = diag((V^1/2 H V^1/2)^1/2), the least mean square is the mean of v.
  """
  sums = np.tril(np.ones([rounds, rounds]))
  product, v = sums.T @ sums, np.ones(rounds)
  for _ in range(300):
    root = np.sqrt(v)
    values, vectors = np.linalg.eigh(root[:, None] * product * root)
    v = ((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T).diagonal().copy()
  return float(np.sqrt(v.mean()))


@pytest.mark.parametrize('rounds', [8, 64])
def test_all_bands_are_as_good_as_toeplitz_can_be(rounds):
  ratio = BandedNoise(rounds, rounds).prefix_error() / _optimal_error(rounds)
  assert 1 <= ratio < 1.02
  # Independent noise, or a truncated square root, is not.
  assert BandedNoise(rounds, 1).prefix_error() > 1.2 * _optimal_error(rounds)


def test_coefficients_are_where_the_error_is_least():
  best = banded_noise.optimal_coefficients(60, 6)

  def error(coefficients):
    matrix = sum(c * np.eye(60, k=-i) for i, c in enumerate(coefficients))
    sums = np.tril(np.ones([60, 60])) @ np.linalg.inv(matrix)
    return np.sum(sums**2) * np.sum(coefficients**2)

  least = error(best)
  for place in range(1, 6):
    for step in (-0.01, 0.01):
      assert error(best + step * np.eye(6)[place]) > least
  # The start of the search, the square root of the sum, is worse.
  start = np.concatenate([[1.0], np.cumprod(1 - 0.5 / np.arange(1, 6))])
  assert error(start) > 1.001 * least


def test_columns_have_norm_one_and_never_more():
  norms = np.sqrt(BandedNoise(50, 7).gram().diagonal())
  assert norms.max() <= 1
  assert norms.min() > 0.999
  # The last columns, too, which are cut off.
  assert norms[-1] == 1


def test_more_bands_are_better_where_they_cost_nothing():
  errors = [BandedNoise(64, bands).prefix_error() for bands in (1, 2, 4, 16, 64)]
  assert errors == sorted(errors, reverse=True)
  assert errors[0] == pytest.approx(np.sqrt(65 / 2))


@pytest.mark.parametrize('rounds', [32, 64])
def test_three_buffers_are_nearly_as_good_as_all_bands(rounds):
  strategy = BufferedNoise(rounds, 3, rounds)
  (square,) = strategy.squared_sensitivities(rounds)
  ratio = np.sqrt(square) * strategy.prefix_error() / _optimal_error(rounds)
  assert 1 <= ratio < 1.05
  # One of them is not.
  (one,) = BufferedNoise(rounds, 1, rounds).squared_sensitivities(rounds)
  error = BufferedNoise(rounds, 1, rounds).prefix_error() * np.sqrt(one)
  assert error > 1.005 * ratio * _optimal_error(rounds)


@pytest.mark.parametrize('separation', [1, 7, 40])
def test_columns_of_buffers_never_grow(separation):
  column = BufferedNoise(40, 3, separation).coefficients()
  assert column[0] == 1
  assert (np.diff(column) <= 0).all() and column[-1] >= 0
  matrix = np.linalg.inv(BufferedNoise(40, 3, separation).noising())
  np.testing.assert_allclose(matrix[:, 0], column, atol=1e-9)


def test_buffers_that_would_be_too_coarse_are_refused():
  strategy = BufferedNoise(5000, 3, 500)
  # Draws of 20 deviations of 2^43, with a noise multiplier of 8.
  strategy.check_arithmetic(20 * 2.0**43, 2.0**40, 10**8)
  with pytest.raises(PrivacyError, match='precisely enough'):
    strategy.check_arithmetic(20 * 2.0**20, 2.0**17, 10**8)


@pytest.mark.parametrize('strategy', [TreeNoise(13, 13), TreeNoise(13, 5)])
def test_noise_of_a_tree_is_on_sums_of_its_nodes(strategy):
  # What is made of the noisy nodes must be the rounds themselves: M C = identity.
  noising = strategy.noising()
  nodes = []
  for start in range(0, 13, strategy.restart):
    length = min(strategy.restart, 13 - start)
    for place in range(length):
      for level in range(strategy.levels):
        size = 2**level
        if (place + 1) % size == 0:
          row = np.zeros(13)
          row[start + place + 1 - size : start + place + 1] = 1
          nodes.append(row)
  nodes = np.array(nodes)
  np.testing.assert_allclose(noising[:, : len(nodes)] @ nodes, np.eye(13), atol=1e-12)
  assert not noising[:, len(nodes) :].any()
  np.testing.assert_array_equal(strategy.gram(), nodes.T @ nodes)


@pytest.mark.parametrize('rounds', [1, 5, 7, 8, 100])
def test_a_tree_has_the_depth_that_dp_accounting_charges(rounds):
  (square,) = TreeNoise(rounds, rounds).squared_sensitivities(rounds)
  event = dp_accounting.SingleEpochTreeAggregationDpEvent(3.0, rounds)
  relation = dp_accounting.NeighboringRelation.REPLACE_SPECIAL
  theirs = dp_accounting.rdp.RdpAccountant(neighboring_relation=relation)
  ours = dp_accounting.rdp.RdpAccountant(neighboring_relation=relation)
  theirs.compose(event)
  ours.compose(dp_accounting.GaussianDpEvent(3.0 / np.sqrt(square)))
  assert ours.get_epsilon(1e-6) == pytest.approx(theirs.get_epsilon(1e-6))


def test_sizes_that_do_not_fit_are_refused():
  for make in (BandedNoise, TreeNoise):
    for size in (0, 6):
      with pytest.raises(PrivacyError, match='5 rounds'):
        make(5, size)
  with pytest.raises(PrivacyError, match='no noise of rounds'):
    BufferedNoise(5, 0, 1)
