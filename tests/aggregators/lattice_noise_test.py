"""Noise on whole numbers: its law, its tails, and what a careless generator gets wrong."""

import math

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
from noise_check import is_gaussian

from tff_textpriv.aggregators import lattice_noise
from tff_textpriv.privacy import rounded_gaussian
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.rounded_gaussian import RoundedGaussian

_LAW = RoundedGaussian(stddev=2.0**20, shift=2.0)
_SEED = tf.constant([5, 7], tf.int64)
_LARGEST_WORD = 2**64 - 1


def test_the_noise_is_gaussian_and_another_scale_is_caught():
  noise = lattice_noise.draw(_LAW, _SEED, 400_000).numpy()
  assert noise.dtype == np.int64 and noise.shape == (400_000,)
  assert is_gaussian(noise, 2.0**20)
  assert not is_gaussian(noise, 1.03 * 2.0**20)


@pytest.mark.parametrize('number', [1, 2, 1000, 2**15, 2**15 + 1])
def test_any_number_of_draws_can_be_had(number):
  assert lattice_noise.draw(_LAW, _SEED, number).shape == [number]


@pytest.mark.parametrize('stddev', [1.0, 3.0, 20.0])
def test_coarse_noise_has_its_variance_where_nothing_is_claimed(stddev):
  law = RoundedGaussian(stddev, shift=0.0)
  noise = lattice_noise.draw(law, _SEED, 200_000).numpy()
  # Five standard errors of a variance.
  assert abs(noise.var() / law.variance - 1) < 5 * math.sqrt(2 / 200_000)
  assert abs(noise.mean()) < 5 * math.sqrt(law.variance / 200_000)


def test_chunks_and_seeds_do_not_repeat_each_other():
  noise = lattice_noise.draw(_LAW, _SEED, 3 * 2**15).numpy().reshape(3, -1)
  other = lattice_noise.draw(_LAW, tf.constant([5, 8], tf.int64), 2**15).numpy()
  correlations = np.corrcoef([*noise, other])[~np.eye(4, dtype=bool)]
  assert np.abs(correlations).max() < 5 / math.sqrt(2**15)
  again = lattice_noise.draw(_LAW, _SEED, 3 * 2**15).numpy().reshape(3, -1)
  np.testing.assert_array_equal(noise, again)


def _kept(words):
  """Returns the numbers and the largest second word with which each is kept."""
  firsts = tf.constant(words, tf.uint64)
  low = np.zeros(len(words), object)
  high = np.full(len(words), _LARGEST_WORD, object)
  for _ in range(64):
    middle = (low + high + 1) // 2
    second = tf.constant([int(word) for word in middle], tf.uint64)
    numbers, kept = lattice_noise.of_words(_LAW, tf.stack([firsts, second]))
    low = np.where(kept, middle, low)
    high = np.where(kept, high, middle - 1)
  return numbers.numpy(), low.astype(np.float64) + 1


def test_probabilities_are_right_to_ten_digits_from_the_middle_to_the_tails():
  """Inverts the generator: how many of all words give a number?"""
  rng = np.random.default_rng(0)
  words = [int(word) for word in rng.integers(0, 2**64, 2000, np.uint64)]
  numbers, seconds = _kept(words)
  slots = np.array([word >> 48 for word in words])
  starts = _LAW.tables().starts
  slots_of_strip = np.array([np.sum(starts == starts[slot]) for slot in slots])
  # Slots of the strip, times words that keep the number, in proportion to its law.
  found = np.log(slots_of_strip * seconds)
  expected = -(numbers.astype(np.float64) ** 2) / (2 * _LAW.variance)
  differences = found - expected
  differences -= np.median(differences)
  inner = np.abs(numbers) < 5 * _LAW.stddev
  assert inner.sum() > 1900
  assert np.abs(differences[inner]).max() < 1e-10
  assert np.abs(differences).max() < 1e-6 or (np.abs(numbers) > 5 * _LAW.stddev).any()


def test_the_law_is_that_of_a_rounded_gaussian():
  """The exponent's variance, s^2 + 1/12, is what rounding makes of s^2."""
  stddev = 40.0  # Coarse, so that rounding shows.
  numbers = np.arange(-120, 121)
  exact = np.diff(scipy.stats.norm.cdf(np.append(numbers, 121) - 0.5, scale=stddev))
  law = np.exp(-(numbers**2) / (2 * (stddev**2 + 1 / 12)))
  plain = np.exp(-(numbers**2) / (2 * stddev**2))

  def error(probabilities):
    return np.abs(probabilities / probabilities.sum() * exact.sum() / exact - 1).max()

  assert error(law) < 1e-5 < error(plain)


def _largest(draw):
  """Returns how far a generator goes, in standard deviations, given its extreme bits."""
  return max(abs(draw(word)) for word in (0, 1, _LARGEST_WORD))


def test_extreme_bits_give_extreme_noise():
  def ours(word):
    # The second word of 0 keeps whatever the first one chooses.
    numbers, kept = lattice_noise.of_words(_LAW, tf.constant([[word], [0]], tf.uint64))
    assert kept.numpy().all()
    return numbers.numpy()[0] / _LAW.stddev

  def box_muller(word):
    """TensorFlow's: uniform numbers below 1e-7 are taken for 1e-7."""
    uniform = max(word / 2**64, 1e-7)
    return math.sqrt(-2 * math.log(uniform))

  assert _largest(box_muller) < 5.7
  assert _largest(ours) > 12 + _LAW.shift - 0.1


def test_the_tails_are_as_heavy_as_they_should_be():
  """Beyond four standard deviations there are as many as a Gaussian has."""
  number = 4_000_000
  noise = lattice_noise.draw(_LAW, _SEED, number).numpy() / _LAW.stddev
  for limit in (3.0, 4.0, 4.5):
    expected = number * 2 * scipy.stats.norm.sf(limit)
    found = np.sum(np.abs(noise) > limit)
    assert abs(found - expected) < 5 * math.sqrt(expected)
  cut = np.clip(noise, -4.2, 4.2)
  expected = number * 2 * scipy.stats.norm.sf(4.5)
  assert abs(np.sum(np.abs(cut) > 4.5) - expected) > 4 * math.sqrt(expected)


def test_what_is_added_to_the_figure_is_small_and_grows_with_the_draws():
  assert rounded_gaussian.added_epsilon(10**6) < 1e-7
  assert rounded_gaussian.added_delta(10**6) < 1e-15
  assert rounded_gaussian.added_epsilon(2 * 10**6) == pytest.approx(
    2 * rounded_gaussian.added_epsilon(10**6)
  )


@pytest.mark.parametrize(
  ('stddev', 'shift'), [(100.0, 2.0), (0.5, 0.0), (2.0**50, 0.0), (2.0**20, 1000.0)]
)
def test_laws_that_cannot_be_drawn_are_refused(stddev, shift):
  with pytest.raises(PrivacyError):
    RoundedGaussian(stddev, shift)
