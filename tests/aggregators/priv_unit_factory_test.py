"""The mean of private vectors: unbiased, of the stated variance, private, in two bytes."""

import collections
import dataclasses
import math

import numpy as np
import pytest
import small_models
import tensorflow as tf
import tensorflow_federated as tff
from scipy import special, stats

from tff_textpriv.aggregators import messages
from tff_textpriv.aggregators import priv_unit as reports
from tff_textpriv.privacy import errors, priv_unit, spherical_cap

_D = 40
_UPDATE_TYPE = tff.to_type(
  collections.OrderedDict(a=(np.float32, [_D - 6]), b=(np.float32, [2, 3]))
)
_VALUE_TYPE = tff.to_type(
  collections.OrderedDict(delta=_UPDATE_TYPE, seed=(np.int64, [2]))
)


def _plan(epsilon=4.0, num_coordinates=_D, **changes):
  plan = priv_unit.PrivUnit(epsilon, num_coordinates, clip_norm=2.0)
  return dataclasses.replace(plan, **changes)


def _steps(plan, update, number, seed=0):
  """Returns the reports of so many clients with one update, int16 [number, d]."""
  vector = tf.constant(update, tf.float32)

  @tf.function
  def all_reports(seeds):
    return tf.map_fn(
      lambda own: reports.randomize(plan, vector, own),
      seeds,
      fn_output_signature=tf.int16,
    )

  first = tf.constant([seed, 7], tf.int64)
  return all_reports(tf.random.experimental.stateless_split(first, number)).numpy()


def _update(norm, seed=0):
  direction = np.random.default_rng(seed).normal(size=_D)
  return norm * direction / np.linalg.norm(direction)


def _error(plan, estimates, update):
  """Returns scaled errors of means of estimates, and of their sums of squares.

  Each is near to a standard normal number if the estimate has the stated mean and
  variance.
  """
  clipped = update / max(1, np.linalg.norm(update) / plan.clip_norm)
  law = plan.response
  variances = plan.clip_norm**2 * law.variance(clipped / plan.clip_norm)
  n = len(estimates)
  along = (estimates.mean(axis=0) - clipped) / np.sqrt(variances / n)
  squares = ((estimates - clipped) ** 2 / variances).ravel()
  return (
    float(along @ clipped / np.linalg.norm(clipped)),
    float(along.sum() / math.sqrt(along.size)),
    float((squares.mean() - 1) / (squares.std() / math.sqrt(squares.size))),
  )


@pytest.mark.parametrize('epsilon', [1.0, 8.0])
@pytest.mark.parametrize('norm', [0.5, 2.0, 50.0])
def test_the_mean_is_unbiased_with_the_stated_variance_for_updates_of_any_norm(
  epsilon, norm
):
  plan, update = _plan(epsilon), _update(norm)
  steps = _steps(plan, update, 6000)
  estimates = plan.step_value * steps.astype(np.float64)
  assert max(map(abs, _error(plan, estimates, update))) < 4
  # The broken twins: the mean of the tail alone for the mean of all, and a direction
  # that forgets how short the update was.
  law = plan.response
  density = stats.norm.pdf(law.edge) / law.tail_share
  assert max(map(abs, _error(plan, estimates * law.gain / density, update))) > 4
  if norm < plan.clip_norm:
    longer = update * plan.clip_norm / norm
    assert max(map(abs, _error(plan, estimates, longer))) > 4


def test_an_update_of_nothing_is_answered_by_noise_alone():
  plan = _plan(8.0)
  steps = _steps(plan, np.zeros(_D), 3000).astype(np.float64) / spherical_cap.STEPS
  assert abs(steps.mean()) < 4 / math.sqrt(steps.size)
  assert abs((steps**2).mean() - 1) < 4 * math.sqrt(2 / steps.size)


def _bounds(counts, n):
  """Surest bounds of probabilities of which so many of n were counted."""
  lower = stats.beta.ppf(1e-5, counts, n - counts + 1)
  upper = stats.beta.ppf(1 - 1e-5, counts + 1, n - counts)
  return np.nan_to_num(lower, nan=1e-9), np.nan_to_num(upper, nan=1.0)


def _log_ratio(plan):
  """Returns an epsilon that the reports of three updates surely have, at least."""
  n = 3000
  edge = plan.response.edge
  cells = np.array([-np.inf, -edge, -edge / 2, edge / 2, edge, np.inf])
  lower, upper = zip(
    *(
      _bounds(np.histogram(_steps(plan, update, n, seed), cells * 2**11)[0], n)
      for seed, update in enumerate(([2.0], [-2.0], [0.0]))
    ),
    strict=True,
  )
  return max(np.log(one / other).max() for one in lower for other in upper)


def test_reports_of_any_two_updates_are_within_e_to_the_epsilon(monkeypatch):
  plan = _plan(1.0, num_coordinates=1)
  # It is used up, but for what so few reports leave open, and not exceeded.
  assert 0.6 < _log_ratio(plan) <= 1.0
  # The broken twin: the whole of epsilon for the coin, and the tail besides.
  law = plan.response
  broken = spherical_cap.CapResponse(law.coin_epsilon + 1.0, law.tail_epsilon)
  monkeypatch.setattr(priv_unit.PrivUnit, 'response', broken)
  assert _log_ratio(plan) > 1.0


def test_components_along_and_across_have_the_densities_of_the_law():
  plan, update = _plan(4.0), _update(2.0)
  steps = _steps(plan, update, 8000).astype(np.float64) / spherical_cap.STEPS
  along = steps @ (update / 2.0)
  law = plan.response
  cells = law.edge + np.array([-np.inf, -2.5, -2, -1.5, -1, -0.5, 0, 0.2, 0.4, np.inf])
  below = np.diff(special.ndtr(cells))
  middles = np.where(np.isinf(cells[:-1]), -9, cells[:-1]) + 1e-6
  expected = below * np.exp(law.log_weight(middles)) * len(along)
  # An update as long as the clip norm has nothing in the coordinate that is added, so
  # that its own numbers are all there is along it.
  found = np.histogram(along, cells)[0]
  assert stats.chisquare(found, expected).pvalue > 1e-4
  plain = below * len(along)  # The broken twin: no lean at all.
  assert stats.chisquare(found, plain).pvalue < 1e-9
  across = np.random.default_rng(1).normal(size=_D)
  across -= across @ update * update / 4
  component = steps @ (across / np.linalg.norm(across))
  assert stats.kstest(component, 'norm').pvalue > 1e-4


def test_gaussian_numbers_have_the_tails_that_tensorflow_s_lack():
  uniform, signs = (
    part.numpy() for part in reports._uniform(10**6, tf.constant([1, 2], tf.int64))
  )
  assert stats.kstest(uniform, 'uniform').pvalue > 1e-4
  assert abs(signs.sum()) < 4 * 1000
  # The smallest uniform number is a Gaussian one of 13 standard deviations.
  smallest = 0.5 * 2.0**-126
  assert -special.ndtri(smallest / 2) > 13
  numbers = np.logspace(-37, 0, 2000)
  ours = tf.math.ndtri(tf.constant(numbers / 2, tf.float64)).numpy()
  np.testing.assert_allclose(ours, special.ndtri(numbers / 2), rtol=2**-46, atol=2**-46)


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


def _mean(plan, values):
  process = reports.PrivUnitMeanFactory(plan).create(_VALUE_TYPE)
  return process.next(process.initialize(), values)


def test_the_server_s_mean_is_that_of_what_clients_report(tff_runtime):
  plan, vectors = _plan(), [_update(1.0), _update(3.0, seed=1)]
  values = _values(vectors)
  output = _mean(plan, values)
  sent = [
    reports.randomize(plan, value['delta'], tf.constant(value['seed']))
    for value in values
  ]
  expected = plan.step_value * np.mean(np.float64(sent), axis=0)
  np.testing.assert_allclose(_flat(output.result), expected, rtol=1e-6)
  assert output.measurements == {'bytes_per_client': 2 * _D}
  np.testing.assert_array_equal(_flat(_mean(plan, []).result), 0)
  result_type = reports.PrivUnitMeanFactory(plan).create(_VALUE_TYPE).next
  assert result_type.type_signature.result.result.member == _UPDATE_TYPE


@pytest.mark.parametrize('bad', [np.nan, np.inf, 3e38])
def test_a_bad_update_reports_like_any_other(tff_runtime, bad):
  broken, zeroed = _update(1.0), np.zeros(_D)
  broken[3] = bad
  if np.isfinite(bad):  # As long as a number can be: it is clipped.
    zeroed[3] = 2.0
  plan = _plan()
  one, other = (_flat(_mean(plan, _values([each])).result) for each in (broken, zeroed))
  np.testing.assert_allclose(one, other, atol=2 * plan.step_value)
  assert (
    np.isfinite(one).all() and 'left_out_clients' not in _mean(plan, []).measurements
  )


def test_clients_draw_different_vectors_and_a_shared_seed_is_caught():
  plan = _plan()
  own = _steps(plan, _update(2.0), 2).astype(np.float64)
  assert abs(np.corrcoef(own)[0, 1]) < 0.9
  same = [
    reports.randomize(plan, tf.constant(_update(2.0)), tf.constant([1, 2], tf.int64))
    for _ in range(2)
  ]
  np.testing.assert_array_equal(*same)


def test_it_works_in_tff_s_own_builders(tff_runtime):
  plan = _plan(10.0, num_coordinates=3, clip_norm=0.3, noise_source='system')
  process = tff.learning.algorithms.build_unweighted_fed_avg(
    small_models.linear(0),
    client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.3),
    server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0),
    model_aggregator=reports.PrivUnitMeanFactory(plan),
  )
  rng = np.random.default_rng(0)
  slope = np.array([[1.0], [-1.0], [0.5]], np.float32)
  inputs = [rng.normal(size=[8, 3]).astype(np.float32) for _ in range(12)]
  state = process.initialize()
  for _ in range(10):
    state = process.next(state, [[(x, x @ slope)] for x in inputs]).state
  (found,) = process.get_model_weights(state).trainable
  # Each round adds noise of 0.3 / 3.5 / sqrt(12), and goes up to 0.3 of the way.
  np.testing.assert_allclose(found, slope, atol=0.25)


def test_what_does_not_fit_the_plan_is_refused():
  with pytest.raises(ValueError, match='40 coordinates.*has 10'):
    reports.PrivUnitMeanFactory(_plan(noise_source='system')).create(
      tff.TensorType(np.float32, [10])
    )
  with pytest.raises(errors.PrivacyError, match='--client_weighting=uniform'):
    reports.mean(_plan(), by_examples=True)


def test_what_is_seen_is_the_unbiased_estimate_of_one_report():
  plan, seed = _plan(), tf.constant([3, 4], tf.int64)
  update = tf.constant(_update(2.0), tf.float32)
  view = reports.seen(plan, [update], seed, 'server')
  steps = reports.randomize(plan, [update], seed)
  np.testing.assert_allclose(view[0], plan.step_value * np.float32(steps), rtol=1e-6)
  assert messages.num_bytes(tff.TensorType(np.int16, [_D])) == 2 * _D
