"""Attentive aggregation as a process: its step, its noise, its broken clients."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from noise_check import is_gaussian
from sample_plan import NO_MECHANISM

from tff_textpriv import randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import fed_att, fed_avg
from tff_textpriv.privacy import errors, local_gaussian, smoothed_sums
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.runtime.execution import execution

_FEATURES = 4000
_RATE = {'client_learning_rate': 0.05}


def _model(features=3) -> tff.learning.models.FunctionalModel:
  """Linear regression: a kernel and a bias."""

  @tf.function
  def predict(weights, x, training):
    del training
    kernel, bias = weights[0]
    return tf.matmul(x, kernel) + bias

  @tf.function
  def loss(output, label, sample_weight=None):
    del sample_weight
    return tf.reduce_mean(tf.square(output - label))

  kernel = np.ones([features, 1], np.float32)
  return tff.learning.models.FunctionalModel(
    initial_weights=((kernel, np.zeros(1, np.float32)), ()),
    predict_on_batch_fn=predict,
    loss_fn=loss,
    input_spec=(
      tf.TensorSpec([None, features], tf.float32),
      tf.TensorSpec([None, 1], tf.float32),
    ),
  )


def _batches(num_clients, features=3, seed=0):
  rng = np.random.default_rng(seed)
  return [
    [
      (
        rng.normal(size=[4, features]).astype(np.float32),
        rng.normal(size=[4, 1]).astype(np.float32),
      )
      for _ in range(2)
    ]
    for _ in range(num_clients)
  ]


def _with_seeds(batches, round_number=1, seed=0):
  return [
    (
      each,
      [randomness.Stream.of_seed(seed).words('client', round_number, f'user {number}')],
    )
    for number, each in enumerate(batches)
  ]


def _plan(**flags):
  deployment = Deployment('fixed', population=5, cohort=5, rounds=3)
  return local_gaussian.LocalGaussianSettings(**flags).mechanism(deployment)


_NO_NOISE = _plan()


@functools.cache
def _build(plan=_NO_NOISE, features=3, **settings):
  return fed_att.build_fed_att(
    _model(features), fed_att.FedAttSettings(**_RATE | settings), plan
  )


def _weights(process, state) -> np.ndarray:
  weights = process.get_model_weights(state).trainable
  return np.concatenate([np.ravel(weight) for weight in weights]).astype(np.float64)


def _one_round(process, clients):
  """Returns the weights before and after a round, and its metrics."""
  state = process.initialize()
  output = process.next(state, clients)
  return _weights(process, state), _weights(process, output.state), output.metrics


@functools.cache
def _fed_avg():
  settings = fed_avg.FedAvgSettings(
    **_RATE, server_optimizer='sgd', server_learning_rate=1.0
  )
  return fed_avg.build_fed_avg(_model(), settings, NO_MECHANISM)


def _client_models(batches) -> np.ndarray:
  """Trains each client alone: what it would send."""
  process = _fed_avg()
  return np.stack([_one_round(process, [each])[1] for each in batches])


def _gradient_of_the_loss(theta, clients) -> np.ndarray:
  """Differentiates sum log a_k + log d_k with respect to the server's model."""
  theta, clients = tf.constant(theta), tf.constant(clients, tf.float64)
  with tf.GradientTape() as tape:
    tape.watch(theta)
    scores = tf.linalg.matvec(clients, theta) / np.sqrt(len(theta))
    distances = tf.reduce_sum(tf.square(theta - clients), axis=1)
    loss = tf.reduce_sum(tf.nn.log_softmax(scores) + tf.math.log(distances))
  return tape.gradient(loss, theta).numpy()


def test_uniform_attention_is_federated_averaging(tff_runtime):
  batches = _batches(4)
  expected = _client_models(batches).mean(axis=0)
  _, after, metrics = _one_round(_build(attention='uniform'), _with_seeds(batches))
  np.testing.assert_allclose(after, expected, rtol=1e-5)
  assert metrics['client_work']['train'] is not None
  assert metrics['aggregator']['attended_clients'] == 4


def test_the_server_steps_down_the_gradient_of_the_attentive_loss(tff_runtime):
  batches = _batches(5)
  process = _build(attention_step='gradient', server_learning_rate=0.01)
  before, after, _ = _one_round(process, _with_seeds(batches))
  gradient = _gradient_of_the_loss(before, _client_models(batches))
  np.testing.assert_allclose(after, before - 0.01 * gradient, rtol=1e-4, atol=1e-5)
  assert np.abs(gradient).max() > 0.1


def test_as_printed_the_step_also_pulls_the_model_to_the_origin(tff_runtime):
  batches = _batches(1)
  (client,) = _client_models(batches)
  before, after, _ = _one_round(_build(attention='paper'), _with_seeds(batches))
  # One client, in units of its pull 2 / d: v + theta_k d / (2 sqrt(n)), and n = 4.
  v = before - client
  expected = before - (v + client * np.sum(v**2) / 2 / 2)
  np.testing.assert_allclose(after, expected, rtol=1e-5, atol=1e-6)
  # One client's model is what all other rules arrive at.
  for attention in ('exact', 'layerwise', 'uniform'):
    _, other, _ = _one_round(_build(attention=attention), _with_seeds(batches))
    np.testing.assert_allclose(other, client, rtol=1e-5, atol=1e-6)


def _noisy_updates(plan, cohorts) -> list[np.ndarray]:
  """What the mean of updates becomes when no client learns anything."""
  process = _build(plan, _FEATURES, attention='uniform', client_learning_rate=1e-30)
  return [
    after - before
    for before, after, _ in (_one_round(process, clients) for clients in cohorts)
  ]


@pytest.mark.parametrize('source', ['seeded', 'system'])
def test_clients_add_the_noise_of_equation_11(tff_runtime, source):
  plan = _plan(noise_magnitude=0.01, noise_stddev=0.5, noise_source=source)
  clients = _with_seeds(_batches(1, _FEATURES))
  (noise,) = _noisy_updates(plan, [clients])
  assert is_gaussian(noise, 0.01 * 0.5)
  # The broken twins: sigma forgotten, beta forgotten, noise 10% too small.
  assert not is_gaussian(noise, 0.01)
  assert not is_gaussian(noise, 0.5)
  assert not is_gaussian(noise * 0.9, 0.01 * 0.5)


def test_noise_differs_by_client_and_round_and_repeats_with_the_seed(tff_runtime):
  plan = _plan(noise_magnitude=0.1)
  batches = _batches(2, _FEATURES)
  first = _with_seeds(batches)
  one, other, later, again, both = _noisy_updates(
    plan, [first[:1], first[1:], _with_seeds(batches, 2)[:1], first[:1], first]
  )
  np.testing.assert_array_equal(one, again)
  correlation = np.corrcoef([one, other, later])[~np.eye(3, dtype=bool)]
  assert np.abs(correlation).max() < 5 / np.sqrt(_FEATURES)
  # Independent noise averages out; were it the same for all, it would not.
  np.testing.assert_allclose(both, (one + other) / 2, atol=1e-6)
  assert is_gaussian(both, 0.1 / np.sqrt(2))


def test_the_clip_norm_bounds_what_a_client_sends(tff_runtime):
  batches = _batches(1)
  before, free, _ = _one_round(_build(), _with_seeds(batches))
  length = np.linalg.norm(free - before)
  assert length > 0.1
  _, clipped, _ = _one_round(_build(_plan(clip_norm=0.05)), _with_seeds(batches))
  np.testing.assert_allclose(
    clipped - before, (free - before) * 0.05 / length, rtol=1e-4, atol=1e-7
  )
  _, loose, _ = _one_round(_build(_plan(clip_norm=100.0)), _with_seeds(batches))
  np.testing.assert_allclose(loose, free, rtol=1e-6)


def test_attention_sees_only_what_is_sent(tff_runtime):
  # A product of the model with a client's true update would get round its noise.
  plan = _plan(clip_norm=2.0, noise_magnitude=0.5)
  clients = _with_seeds(_batches(3))
  mean = _build(plan, attention='uniform')
  sent = np.stack([_one_round(mean, [client])[1] for client in clients])
  process = _build(plan, attention_step='gradient', server_learning_rate=0.01)
  before, after, _ = _one_round(process, clients)
  gradient = _gradient_of_the_loss(before, sent)
  np.testing.assert_allclose(after, before - 0.01 * gradient, rtol=1e-4, atol=1e-5)


def test_broken_clients_never_reach_the_model_and_are_counted(tff_runtime):
  batches = _batches(3)
  batches[1][0][0][0, 0] = np.nan
  kept = [batches[0], batches[2]]
  for attention in ('exact', 'paper', 'layerwise'):
    process = _build(attention=attention)
    _, expected, _ = _one_round(process, _with_seeds(batches[:1] + batches[2:]))
    _, after, metrics = _one_round(process, _with_seeds(batches))
    np.testing.assert_allclose(after, expected, rtol=1e-5)
    assert metrics['aggregator']['left_out_clients'] == 1
    assert metrics['aggregator']['attended_clients'] == len(kept)


def test_under_a_mechanism_a_broken_client_answers_like_the_others(tff_runtime):
  # That its training blew up is the client's secret too: it sends noise around zero.
  plan = _plan(clip_norm=1.0, noise_magnitude=0.25)
  batches = _batches(1, _FEATURES)
  batches[0][0][0][0, 0] = np.nan
  process = _build(plan, _FEATURES, attention='uniform')
  before, after, metrics = _one_round(process, _with_seeds(batches))
  assert metrics['aggregator']['attended_clients'] == 1
  assert is_gaussian(after - before, 0.25)


def test_nobody_there_leaves_the_model_as_it_is(tff_runtime):
  for attention in ('exact', 'paper', 'layerwise'):
    before, after, _ = _one_round(_build(attention=attention), [])
    np.testing.assert_array_equal(after, before)


def _central(features=3, **flags):
  deployment = Deployment(
    'fixed', population=4, cohort=4, rounds=3, num_coordinates=features + 1
  )
  return smoothed_sums.SmoothedSumsSettings(**flags).mechanism(deployment)


def test_under_central_privacy_smoothed_is_a_quotient_of_two_sums(tff_runtime):
  batches = _batches(4)
  plan = _central(noise_multiplier=0.0, clip=0.2)
  process = _build(plan, attention='smoothed')
  before, after, _ = _one_round(process, batches)
  updates = before - _client_models(batches)
  # lambda = 2 C^2.
  weights = 0.08 / (0.08 + np.sum(updates**2, axis=1))
  assert weights.max() > 1.1 * weights.min()
  np.testing.assert_allclose(
    before - after, weights @ updates / weights.sum(), rtol=1e-4, atol=1e-6
  )


def test_under_central_privacy_both_sums_are_noised_as_planned(tff_runtime):
  plan = _central(_FEATURES, noise_multiplier=0.01, clip=0.5)
  process = _build(plan, _FEATURES, attention='smoothed', client_learning_rate=1e-30)
  before, after, _ = _one_round(process, _batches(4, _FEATURES))
  # Nobody learns anything, and all weights are 1, up to noise of 0.01 / 4 on their mean.
  noise = after - before
  assert is_gaussian(noise, 0.01 * 0.5 / 4)
  assert not is_gaussian(noise * 0.9, 0.01 * 0.5 / 4)


def test_rules_that_one_user_can_turn_are_refused_under_central_privacy():
  plan = _central(noise_multiplier=1.0)
  for wrong in (
    {'attention': 'exact'},
    {'attention': 'smoothed', 'attention_granularity': 'layer'},
    {'attention': 'smoothed', 'attention_smoothing': 0.5},
    {'attention': 'smoothed', 'attention_distance': 'from_centre'},
  ):
    with pytest.raises(settings_lib.SettingsError, match='mechanism=central'):
      fed_att.build_fed_att(_model(), fed_att.FedAttSettings(**wrong), plan)
  with pytest.raises(settings_lib.SettingsError, match='adaptive_clipping'):
    _central(noise_multiplier=1.0, adaptive_clipping=True)


@pytest.mark.parametrize('clip_norm', [None, 0.05])
def test_noise_of_devices_goes_with_plain_averaging_too(tff_runtime, clip_norm):
  settings = fed_avg.FedAvgSettings(
    **_RATE,
    server_optimizer='sgd',
    server_learning_rate=1.0,
    client_weighting='uniform',
  )
  clients = _with_seeds(_batches(4))
  plan = _plan(noise_magnitude=0.01, clip_norm=clip_norm)
  process = fed_avg.build_fed_avg(_model(), settings, plan)
  _, after, _ = _one_round(process, clients)
  # The same noise as attention that is the same for all.
  _, uniform, _ = _one_round(_build(plan, attention='uniform'), clients)
  np.testing.assert_allclose(after, uniform, rtol=1e-5)
  by_examples = dataclasses.replace(settings, client_weighting='examples')
  if clip_norm is None:
    fed_avg.build_fed_avg(_model(), by_examples, plan)
  else:
    with pytest.raises(errors.PrivacyError, match='how many each client has'):
      fed_avg.build_fed_avg(_model(), by_examples, plan)
  scheduled = dataclasses.replace(settings, client_decay_rounds=3)
  with pytest.raises(settings_lib.IncompatibleSettingsError, match='constant'):
    fed_avg.build_fed_avg(_model(), scheduled, plan)


def test_two_workers_train_the_same_model_as_one(tmp_path):
  process = _build(_plan(noise_magnitude=0.01, clip_norm=2.0), attention='exact')

  def train():
    state = process.initialize()
    for number, size in enumerate([5, 1, 4], start=1):
      clients = _with_seeds(_batches(size, seed=number), number)
      state = process.next(state, clients).state
    return _weights(process, state)

  with execution(log_dir=tmp_path):
    one = train()
  with execution(num_workers=2, log_dir=tmp_path):
    np.testing.assert_allclose(train(), one, atol=1e-5)
  assert np.abs(one - 1).max() > 0.1


def test_layers_are_attended_to_by_default_only_where_the_rule_is_layerwise():
  assert fed_att.FedAttSettings(attention='layerwise').granularity == 'layer'
  assert fed_att.FedAttSettings(attention='exact').granularity == 'model'
  chosen = fed_att.FedAttSettings(attention='exact', attention_granularity='layer')
  assert chosen.granularity == 'layer'
