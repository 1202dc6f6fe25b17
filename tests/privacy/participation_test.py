"""What a user can move, against all the patterns in which a user can take part."""

import itertools

import numpy as np
import pytest

from tff_textpriv.privacy import participation
from tff_textpriv.privacy.banded_noise import BandedNoise
from tff_textpriv.privacy.buffered_noise import BufferedNoise
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.tree_noise import TreeNoise


def _patterns(rounds: int, separation: int, most: int):
  """All sets of rounds that are far enough apart."""
  for number in range(1, most + 1):
    for chosen in itertools.combinations(range(rounds), number):
      if all(b - a >= separation for a, b in itertools.pairwise(chosen)):
        yield list(chosen)


def _by_force(gram: np.ndarray, separation: int, most: int) -> float:
  return max(
    gram[np.ix_(chosen, chosen)].sum()
    for chosen in _patterns(len(gram), separation, most)
  )


@pytest.mark.parametrize('separation', [1, 2, 3, 5])
def test_the_heaviest_rounds_are_those_of_all_patterns(separation):
  weights = np.random.default_rng(separation).random([9, 2])
  most = participation.most_participations(9, separation)
  found = participation.heaviest(weights, separation, most)
  for number in range(1, most + 1):
    for column in range(2):
      expected = max(
        weights[chosen, column].sum() for chosen in _patterns(9, separation, number)
      )
      assert found[number - 1, column] == pytest.approx(expected)


@pytest.mark.parametrize(
  ('strategy', 'separation'),
  [
    (BandedNoise(11, 1), 1),
    (BandedNoise(11, 3), 3),
    (BandedNoise(11, 3), 4),
    (BandedNoise(11, 11), 11),
    (TreeNoise(11, 3), 3),
    (TreeNoise(11, 4), 4),
    (TreeNoise(11, 4), 6),
    (TreeNoise(11, 11), 11),
  ],
)
def test_columns_that_do_not_overlap_give_the_exact_sensitivity(strategy, separation):
  squares = strategy.squared_sensitivities(separation)
  assert len(squares) == participation.most_participations(11, separation)
  gram = strategy.gram()
  np.testing.assert_allclose(strategy.squared_norms(), gram.diagonal())
  for most, square in enumerate(squares, start=1):
    # Two rounds of one tree may be together, but not of one user.
    expected = _by_force(gram, separation, most)
    assert square == pytest.approx(expected)
    # One participation too few, as whoever forgets the last epoch has it, is caught.
    assert most == 1 or square > _by_force(gram, separation, most - 1) * 1.05


@pytest.mark.parametrize('strategy', [BandedNoise(10, 5), TreeNoise(10, 8)])
@pytest.mark.parametrize('separation', [1, 2, 3])
def test_columns_that_overlap_are_bounded_from_above(strategy, separation):
  gram = strategy.gram()
  squares = strategy.squared_sensitivities(separation)
  for most, square in enumerate(squares, start=1):
    assert square >= _by_force(gram, separation, most) * (1 - 1e-12)
  # The bound for columns that do not overlap would be wrong here.
  assert _by_force(gram, separation, 2) > 2 * gram.diagonal().max() * 1.05


@pytest.mark.parametrize('separation', [1, 2, 3, 5, 11])
@pytest.mark.parametrize('buffers', [1, 3])
def test_buffers_are_worst_for_users_who_come_as_early_and_often_as_they_may(
  separation, buffers
):
  strategy = BufferedNoise(11, buffers, separation)
  matrix = np.linalg.inv(strategy.noising())
  gram = matrix.T @ matrix
  for most, square in enumerate(strategy.squared_sensitivities(separation), start=1):
    expected = _by_force(gram, separation, most)
    assert expected < square < expected * 1.002
    assert most == 1 or square > _by_force(gram, separation, most - 1) * 1.02


def test_no_user_moves_further_in_any_direction():
  # Of all directions per participation, the same one is the worst: G >= 0.
  strategy = BandedNoise(10, 4)
  rng = np.random.default_rng(0)
  square = strategy.squared_sensitivities(2)[2]
  for chosen in _patterns(10, 2, 3):
    updates = np.zeros([10, 3])
    updates[chosen] = rng.normal(size=[len(chosen), 3])
    updates[chosen] /= np.linalg.norm(updates[chosen], axis=1, keepdims=True)
    assert np.sum((strategy.matrix() @ updates) ** 2) <= square


def test_negative_products_are_refused():
  with pytest.raises(PrivacyError, match='negative'):
    participation.squared_sensitivities(np.array([[1.0, -0.1], [-0.1, 1.0]]), 1)
