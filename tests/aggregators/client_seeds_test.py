"""Seeds of clients that are given none: no two alike, and nothing without the secret."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv import randomness
from tff_textpriv.aggregators import bit_reports, client_seeds
from tff_textpriv.privacy import randomized_bits

_LABEL = tf.constant('381c6a64-486b-41de-bfb5-0de104c87ea1')
_OTHER = tf.constant('381c6a64-486b-41de-bfb5-0de104c87ea2')


def _streams(number):
  return [randomness.Stream.of_seed(seed) for seed in range(number)]


def test_no_two_clients_of_any_round_have_the_same_seed(tff_runtime):
  stream = randomness.Stream.of_system()

  @tff.tensorflow.computation(np.float32)
  def seed(value):
    del value  # All clients have the same.
    return client_seeds.of_label(stream, client_seeds.draw_label())

  @tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
  def seeds(values):
    return tff.federated_map(seed, values)

  words = [word for _ in range(2) for each in seeds([0.0] * 300) for word in each]
  # Not even a half of one is that of another.
  assert len(set(words)) == 2 * 2 * 300


def test_a_seed_follows_from_the_secret_and_the_label():
  (first, second), label = _streams(2), _LABEL
  seed = client_seeds.of_label(first, label).numpy()
  np.testing.assert_array_equal(client_seeds.of_label(first, label), seed)
  assert (client_seeds.of_label(second, label).numpy() != seed).all()
  assert (client_seeds.of_label(first, _OTHER).numpy() != seed).all()


def _reports(seeds):
  """Returns what a client reports with each of the seeds, and the mean of each sign."""
  plan = randomized_bits.RandomizedBits(1.0, 500)
  update = tf.fill([plan.num_coordinates], plan.bound)
  messages = [bit_reports.randomize(plan, update, seed) for seed in seeds]
  signs = np.stack([bit_reports.signs(plan, message) for message in messages])
  return signs, plan.response.contrast


def _largest_deviation(signs, mean):
  """Returns how far the mean of any bit over all reports is off, in standard errors."""
  errors = (signs.mean(axis=0) - mean) / np.sqrt((1 - mean**2) / len(signs))
  return np.abs(errors).max()


def test_who_knows_the_label_and_not_the_secret_cannot_tell_how_bits_are_flipped():
  # One client and one label: over secrets, each bit is flipped as often as epsilon says.
  seeds = [client_seeds.of_label(stream, _LABEL) for stream in _streams(400)]
  signs, mean = _reports(seeds)
  assert _largest_deviation(signs, mean) < 5
  # The bits under one secret are no help with those under another.
  centered = (signs - mean) / np.sqrt(1 - mean**2)
  correlations = centered @ centered.T / np.sqrt(signs.shape[1])
  assert np.abs(correlations[~np.eye(len(seeds), dtype=bool)]).max() < 6
  # The broken twin: a seed that is the label's alone.
  signs, mean = _reports([seeds[0]] * 400)
  assert _largest_deviation(signs, mean) > 5
