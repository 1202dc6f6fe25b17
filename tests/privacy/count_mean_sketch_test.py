"""The count-mean sketch: its privacy is exact, its counts and their variance too."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest

from tff_textpriv import randomness
from tff_textpriv.privacy import count_mean_sketch
from tff_textpriv.privacy.count_mean_sketch import (
  HeavyHittersSettings,
  SketchParameters,
)
from tff_textpriv.settings import SettingsError


def _parameters(**changes) -> SketchParameters:
  values = {'num_hashes': 8, 'width': 64, 'epsilon_per_word': 8 / 3}
  return SketchParameters(**{**values, 'words_per_user': 3, **changes})


def _worst_log_ratio(flip: float, width: int) -> float:
  """The largest log ratio of a report's probabilities, over all pairs of inputs.

  Inputs are the marked cell, or no word; outputs are all 2^width vectors of bits.
  """
  outputs = np.array(list(itertools.product([0, 1], repeat=width)))
  marked = np.eye(width, dtype=int)
  unchanged = (outputs[np.newaxis] == marked[:, np.newaxis]).sum(-1)
  words = (1 - flip) ** unchanged * flip ** (width - unchanged)
  np.testing.assert_allclose(words.sum(1), 1)
  inputs = np.concatenate([words, words.mean(0, keepdims=True)])
  return float(np.log(inputs.max(0) / inputs.min(0)).max())


@pytest.mark.parametrize('epsilon', [0.1, 1.0, 8 / 3, 8.0])
def test_no_report_is_likelier_by_more_than_e_to_the_epsilon(epsilon):
  flip = _parameters(epsilon_per_word=epsilon).flip_probability
  worst = _worst_log_ratio(flip, width=8)
  assert worst <= epsilon
  assert worst == pytest.approx(epsilon, abs=1e-5)
  # The broken twin: all of epsilon for each cell, though two cells tell words apart.
  assert _worst_log_ratio(1 / (1 + math.exp(epsilon)), width=8) > epsilon


@pytest.mark.parametrize('epsilon', [0.01, 1.0, 8 / 3, 30.0])
def test_the_flip_probability_is_rounded_up_to_a_multiple_of_2_to_the_minus_32(epsilon):
  exact = 1 / (1 + math.exp(epsilon / 2))
  flip = _parameters(epsilon_per_word=epsilon).flip_probability
  assert exact <= flip < exact + 2**-32
  assert flip * 2**32 == int(flip * 2**32)


@pytest.mark.parametrize(
  'changes',
  [
    {'epsilon_per_word': 0.0},
    {'epsilon_per_word': -1.0},
    {'epsilon_per_word': math.inf},
    {'epsilon_per_word': math.nan},
    {'epsilon_per_word': 1e-10},
    {'width': 12},
    {'width': 0},
    {'num_hashes': 0},
    {'words_per_user': 0},
  ],
)
def test_parameters_without_a_meaning_are_refused(changes):
  with pytest.raises(ValueError):
    _parameters(**changes)


def test_hashes_are_polynomials_over_the_field_and_functions_of_the_seed():
  parameters = _parameters(num_hashes=5, stream=randomness.Stream.of_seed(3))
  hashes = parameters.hashes(1000)
  assert hashes.shape == (5, 1000)
  for row, coefficients in enumerate(parameters.hash_coefficients.tolist()):
    a, b, c = coefficients
    expected = [(a * x * x + b * x + c) % (2**31 - 1) % 64 for x in range(1000)]
    assert hashes[row].tolist() == expected
  np.testing.assert_array_equal(
    hashes, _parameters(num_hashes=5, stream=randomness.Stream.of_seed(3)).hashes(1000)
  )
  assert not np.array_equal(
    hashes, _parameters(num_hashes=5, stream=randomness.Stream.of_seed(4)).hashes(1000)
  )


def _collisions_are_independent(hashes: np.ndarray, width: int) -> bool:
  """Rates of pairs and triples of words in one cell, within 5 standard errors."""
  rows = hashes.shape[0]
  pair = (hashes[:, 0] == hashes[:, 1]).mean()
  triple = ((hashes[:, 0] == hashes[:, 1]) & (hashes[:, 1] == hashes[:, 2])).mean()
  return all(
    abs(rate - expected) < 5 * math.sqrt(expected / rows)
    for rate, expected in [(pair, 1 / width), (triple, 1 / width**2)]
  )


def _first_hashes(coefficients: np.ndarray, width: int) -> np.ndarray:
  """The hashes of the words 0, 1, 2 with each polynomial, [rows, 3]."""
  words = np.arange(3, dtype=np.int64)
  return count_mean_sketch.hash_words(coefficients[:, np.newaxis], words, width)


def test_words_collide_independently_and_a_linear_hash_is_caught():
  coefficients = _parameters(num_hashes=200_000).hash_coefficients.copy()
  assert _collisions_are_independent(_first_hashes(coefficients, 16), 16)
  # The broken twin: with a straight line, words in arithmetic progression collide
  # together.
  coefficients[:, 0] = 0
  assert not _collisions_are_independent(_first_hashes(coefficients, 16), 16)


# Reports of 20 words with Zipf's frequencies, and of no word.
_COUNTS = np.round(150 / np.arange(1, 21)).astype(int)
_WORDS = np.concatenate([np.repeat(np.arange(20), _COUNTS), np.full(60, -1)])


def _sketch(parameters: SketchParameters, rng, flip: float):
  """Reports all of `_WORDS`: the mechanism once more, in NumPy."""
  k, m = parameters.num_hashes, parameters.width
  rows = rng.integers(k, size=_WORDS.size)
  cells = parameters.hashes(20)[rows, _WORDS]
  cells = np.where(_WORDS < 0, rng.integers(m, size=_WORDS.size), cells)
  bits = (np.arange(m) == cells[:, np.newaxis]) ^ (rng.random([_WORDS.size, m]) < flip)
  in_row = (np.arange(k)[:, np.newaxis] == rows).astype(np.float32)
  bit_sums = in_row @ bits.astype(np.float32)
  return bit_sums.astype(np.int64), np.bincount(rows, minlength=k)


def _errors(trials: int, flip: float | None = None, **changes) -> np.ndarray:
  """Estimated minus true counts, [trials, 20], each with its own hash functions."""
  errors = []
  for trial in range(trials):
    parameters = _parameters(**changes, stream=randomness.Stream.of_seed(trial))
    rng = np.random.default_rng([trial, 7])
    sketch = _sketch(parameters, rng, flip or parameters.flip_probability)
    errors.append(parameters.estimate(*sketch, parameters.hashes(20)) - _COUNTS)
  return np.array(errors)


def _is_unbiased(errors: np.ndarray) -> bool:
  """Whether the mean error of each word is within 5 standard errors of zero."""
  bound = 5 * errors.std(0) / math.sqrt(len(errors))
  return bool(np.all(np.abs(errors.mean(0)) < bound))


def _has_variance(errors: np.ndarray, variances: np.ndarray) -> bool:
  """Whether the mean squared error of each word is what it should be."""
  squares = errors**2
  bound = 5 * squares.std(0) / math.sqrt(len(errors))
  return bool(np.all(np.abs(squares.mean(0) - variances) < bound))


def _variances(parameters: SketchParameters) -> np.ndarray:
  total_squares = (_COUNTS**2).sum() + 60
  return np.array(
    [
      parameters.variance(_WORDS.size, count, total_squares - count**2)
      for count in _COUNTS
    ]
  )


def test_counts_are_unbiased_and_wrong_estimators_are_caught():
  errors = _errors(500)
  assert _is_unbiased(errors)
  # The broken twins: collisions not subtracted; cells flipped more often than told.
  assert not _is_unbiased(errors + _WORDS.size / 64)
  assert not _is_unbiased(_errors(500, flip=1 / (1 + math.exp(1.0))))


def test_the_variance_is_that_of_flips_and_collisions():
  errors, variances = _errors(500), _variances(_parameters())
  assert _has_variance(errors, variances)
  assert not _has_variance(errors, variances / 1.5)

  # Few flips, few cells, few rows: nearly all is collisions.
  changes = {'epsilon_per_word': 16.0, 'width': 16, 'num_hashes': 4}
  errors, parameters = _errors(1500, **changes), _parameters(**changes)
  assert _is_unbiased(errors)
  assert _has_variance(errors, _variances(parameters))
  # The broken twin takes the reports of a word for as many different words.
  independent = [
    parameters.variance(_WORDS.size, count, _WORDS.size - count) for count in _COUNTS
  ]
  assert not _has_variance(errors, np.array(independent))


def test_the_words_of_a_user_share_the_budget():
  parameters = HeavyHittersSettings().sketch(randomness.Stream.of_seed(5))
  assert parameters.epsilon_per_user == pytest.approx(8)
  assert parameters.epsilon_per_word == pytest.approx(8 / 3)
  assert (parameters.num_hashes, parameters.width, parameters.stream) == (
    128,
    1024,
    randomness.Stream.of_seed(5),
  )
  # Every budget that the flags allow has a mechanism.
  for epsilon, words in [(0.01, 1000), (1000.0, 1)]:
    HeavyHittersSettings(
      heavy_hitters_epsilon=epsilon, heavy_hitters_words_per_user=words
    ).sketch(0)


def test_a_width_that_does_not_fill_bytes_is_refused_by_its_flag():
  with pytest.raises(SettingsError, match='--heavy_hitters_width=100: .*multiple of 8'):
    HeavyHittersSettings(heavy_hitters_width=100)


def test_the_settings_are_read_without_importing_tensorflow():
  script = (
    'import sys; from tff_textpriv.privacy import count_mean_sketch;'
    'count_mean_sketch.HeavyHittersSettings();'
    'sys.exit("tensorflow" in sys.modules)'
  )
  subprocess.run([sys.executable, '-c', script], check=True)
