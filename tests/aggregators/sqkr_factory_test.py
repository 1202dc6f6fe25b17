"""The mean of a few private bits: unbiased, of the stated variance, private, short."""

import collections
import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from scipy import stats

from tff_textpriv import randomness
from tff_textpriv.aggregators import rotation
from tff_textpriv.aggregators import sqkr as reports
from tff_textpriv.privacy import errors, randomized_symbol, sqkr

_D = 40
_UPDATE_TYPE = tff.to_type(
  collections.OrderedDict(a=(np.float32, [_D - 6]), b=(np.float32, [2, 3]))
)
_VALUE_TYPE = tff.to_type(
  collections.OrderedDict(delta=_UPDATE_TYPE, seed=(np.int64, [2]))
)


def _plan(epsilon=4.0, num_coordinates=_D, **changes):
  plan = sqkr.Sqkr(
    epsilon, num_coordinates, clip_norm=2.0, stream=randomness.Stream.of_seed(0)
  )
  return dataclasses.replace(plan, **changes)


def _sums(plan, update, number, seed=0):
  """Returns the signs that reports of one update add up to, float [number, D]."""
  vector = tf.constant(update, tf.float32)
  law = reports._law(plan)

  @tf.function
  def all_reports(seeds):
    return tf.map_fn(
      lambda own: law.add(
        tf.zeros([law.sum_size], tf.int64), law.randomize(vector, own)
      ),
      seeds,
      fn_output_signature=tf.int64,
    )

  first = tf.constant([seed, 7], tf.int64)
  seeds = tf.random.experimental.stateless_split(first, number)
  return all_reports(seeds).numpy().astype(np.float64)


def _update(norm, seed=0):
  direction = np.random.default_rng(seed).normal(size=_D)
  return norm * direction / np.linalg.norm(direction)


def _rotated(plan, update):
  clipped = update / max(1, np.linalg.norm(update) / plan.clip_norm)
  padded = np.zeros(plan.dimension, np.float32)
  padded[:_D] = clipped
  return rotation.rotate(tf.constant(padded), tf.constant(plan.rotation_seed)).numpy()


def _error(plan, sums, expected):
  """Returns errors of the mean, near to standard normal if it has the stated law."""
  n = len(sums)
  variances = plan.sign_value**2 * plan.num_bits / plan.dimension - expected**2
  scaled = (plan.sign_value * sums.mean(axis=0) - expected) / np.sqrt(variances / n)
  along = scaled @ expected / np.linalg.norm(expected)
  squares = (scaled @ scaled - scaled.size) / math.sqrt(2 * scaled.size)
  return float(along), float(squares)


@pytest.mark.parametrize('epsilon', [1.0, 4.0])
@pytest.mark.parametrize('norm', [0.5, 2.0, 50.0])
def test_the_mean_is_unbiased_with_the_stated_variance_for_updates_of_any_norm(
  epsilon, norm
):
  plan, update = _plan(epsilon), _update(norm)
  expected = _rotated(plan, update)
  assert np.abs(expected).max() < plan.bound  # Nothing of it is cut off.
  sums = _sums(plan, update, 8000)
  assert (np.abs(sums).sum(axis=1) == plan.num_bits).all()
  assert max(map(abs, _error(plan, sums, expected))) < 4.5
  if norm >= plan.clip_norm:
    # The broken twins: signs that are taken for true ones, and an update not clipped.
    assert max(map(abs, _error(plan, sums * plan.response.contrast, expected))) > 4.5
    if norm > plan.clip_norm:
      longer = expected * norm / plan.clip_norm
      far = plan.sign_value * sums.mean(axis=0) - longer
      assert np.linalg.norm(far) > 10 * plan.noise * math.sqrt(plan.dimension / 8000)


def _log_ratio(plan):
  """Returns an epsilon that the reports of opposite updates surely have, at least."""
  n = 6000
  bounds = []
  for seed, update in enumerate(([2.0, 0.0], [-2.0, 0.0], [0.0, 2.0], [0.0, -2.0])):
    sums = _sums(plan, np.array(update), n, seed)
    counts = np.bincount((sums > 0) @ [1, 2], minlength=4)
    lower = stats.beta.ppf(1e-5, counts, n - counts + 1)
    upper = stats.beta.ppf(1 - 1e-5, counts + 1, n - counts)
    bounds.append((np.nan_to_num(lower, nan=1e-9), upper))
  return max(np.log(one[0] / other[1]).max() for one in bounds for other in bounds)


def test_reports_of_any_two_updates_are_within_e_to_the_epsilon(monkeypatch):
  # With this range each of these updates has but one pair of true signs.
  monkeypatch.setattr(sqkr, '_RANGE', 1.0)
  plan = _plan(2.0, num_coordinates=2, bits_per_report=2)
  assert 1.6 < _log_ratio(plan) <= 2.0
  # The broken twin: each bit is given the whole of epsilon.
  broken = randomized_symbol.SymbolResponse(4.0, 2)
  monkeypatch.setattr(sqkr.Sqkr, 'response', broken)
  assert _log_ratio(plan) > 2.0


def _values(vectors, seed=0):
  seeds = np.random.default_rng(seed).integers(-(2**62), 2**62, (len(vectors), 2))
  return [
    collections.OrderedDict(
      delta=collections.OrderedDict(
        a=np.float32(vector[:-6]), b=np.float32(vector[-6:].reshape(2, 3))
      ),
      seed=own,
    )
    for vector, own in zip(vectors, seeds, strict=True)
  ]


def _flat(update):
  return np.concatenate([np.ravel(update['a']), np.ravel(update['b'])])


def test_the_server_s_mean_is_that_of_what_is_read_in_each_report(tff_runtime):
  plan, vectors = _plan(), [_update(1.0), _update(3.0, seed=1)]
  values = _values(vectors)
  process = reports.SqkrMeanFactory(plan).create(_VALUE_TYPE)
  output = process.next(process.initialize(), values)
  read = [
    _flat(reports.seen(plan, value['delta'], tf.constant(value['seed']), 'server'))
    for value in values
  ]
  np.testing.assert_allclose(
    _flat(output.result), np.mean(read, axis=0), rtol=1e-4, atol=1e-5
  )
  # Four bits in a byte, and the seed of their coordinates.
  assert output.measurements == {'bytes_per_client': 1 + 16}
  nothing = process.next(process.initialize(), [])
  np.testing.assert_array_equal(_flat(nothing.result), 0)


@pytest.mark.parametrize('bad', [np.nan, np.inf, 3e38])
def test_a_bad_update_reports_like_any_other(bad):
  broken, good = _update(1.0), np.zeros(_D)
  broken[3] = bad
  if np.isfinite(bad):  # As long as a number can be: it is clipped.
    good[3] = 2.0
  np.testing.assert_array_equal(_sums(_plan(), broken, 50), _sums(_plan(), good, 50))


def test_what_does_not_fit_the_plan_is_refused():
  with pytest.raises(ValueError, match='40 coordinates.*has 10'):
    reports.SqkrMeanFactory(_plan(noise_source='system')).create(
      tff.TensorType(np.float32, [10])
    )
  with pytest.raises(errors.PrivacyError, match='--client_weighting=uniform'):
    reports.mean(_plan(), by_examples=True)
