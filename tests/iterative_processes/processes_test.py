"""The algorithms as TFF processes: types, equalities between them, bad clients."""

import functools

import algorithm_rounds
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
import tree
from sample_plan import NO_MECHANISM, of_everybody

from tff_textpriv.datasets import batching
from tff_textpriv.iterative_processes import (
  clients,
  learning_model,
  proximal,
  registry,
)
from tff_textpriv.models import language_models
from tff_textpriv.privacy import central

_MODEL = language_models.LstmLanguageModel(30, 8, 8, 1, tied=True)
_INITIAL = _MODEL.initial_weights(0)
_LANGUAGE_MODEL_ALGORITHMS = [
  name
  for name, algorithm in registry.ALGORITHMS.items()
  if 'language_model' in algorithm.kinds
]


def _clients(sizes=(3, 8, 5, 17, 1)):
  rng = np.random.default_rng(0)
  return [
    batching.training_batches(
      [rng.integers(4, 30, rng.integers(3, 9)).astype(np.int32) for _ in range(size)],
      batch_size=4,
      num_epochs=2,
      rng=rng,
    )
    for size in sizes
  ]


@functools.cache
def _functional():
  return learning_model.from_language_model(_MODEL, _INITIAL)


def _build(name, plan=NO_MECHANISM, **settings):
  algorithm = registry.ALGORITHMS[name]
  chosen = algorithm.settings(**settings)
  process, _ = algorithm_rounds.built(algorithm.build, _functional(), chosen, plan)
  return process


def _train(process, clients, rounds=2):
  state = process.initialize()
  for _ in range(rounds):
    output = process.next(state, clients)
    state = output.state
  weights = process.get_model_weights(state).trainable
  return [np.asarray(weight) for weight in weights], output.metrics


def _rounds(name, folder):
  algorithm = registry.ALGORITHMS[name]
  mechanism = algorithm_rounds.mechanism(algorithm, _functional())
  return algorithm_rounds.Rounds(
    algorithm, _functional(), algorithm.settings(), mechanism, folder
  ), mechanism


def _distance(one, other) -> float:
  return max(np.abs(a - b).max() for a, b in zip(one, other, strict=True))


def test_a_row_of_one_word_that_full_batches_leave_over_throws_no_client_far():
  rng = np.random.default_rng(0)
  rows = [rng.integers(4, 30, 9).astype(np.int32) for _ in range(16)]
  with_one_word = [*rows, np.array([2, 29], np.int32)]
  settings = registry.ALGORITHMS['fed_avg'].settings(client_learning_rate=2.0)
  client = clients.training(_functional(), settings)

  def length(batches):
    update, _ = client.answer(_INITIAL, batches)
    return float(tf.linalg.global_norm(update))

  def dealt(examples, batch_size):
    return batching.training_batches(
      examples, batch_size=batch_size, num_epochs=1, rng=rng
    )

  two_steps = length(dealt(rows, 8))
  left_over = [batching.pad(rows), batching.pad(with_one_word[16:], 16, 8)]
  assert length(left_over) > 1.5 * two_steps
  # As one of nine rows or fewer it hardly counts.
  assert len(dealt(with_one_word, 16)) == 2
  assert length(dealt(with_one_word, 16)) < 1.1 * two_steps


def test_without_noise_and_clip_dp_fed_avg_equals_unweighted_fed_avg(tff_runtime):
  shared = {
    'server_optimizer': 'sgd',
    'server_learning_rate': 1.0,
    'client_learning_rate': 0.5,
  }
  private, _ = _train(_build('dp_fed_avg', of_everybody(5), **shared), _clients())
  plain, _ = _train(_build('fed_avg', client_weighting='uniform', **shared), _clients())
  weighted, _ = _train(_build('fed_avg', **shared), _clients())
  assert _distance(private, plain) < 1e-6
  assert _distance(private, weighted) > 1e-4


def test_without_proximal_term_fed_prox_equals_fed_avg(tff_runtime):
  # A server that adds the mean update as it is shows how far clients went.
  shared = {'server_optimizer': 'sgd', 'server_learning_rate': 1.0}
  plain, _ = _train(_build('fed_avg', **shared), _clients())
  without, _ = _train(_build('fed_prox', proximal_strength=0.0, **shared), _clients())
  strong, _ = _train(_build('fed_prox', proximal_strength=1.0, **shared), _clients())
  assert _distance(plain, without) < 1e-6
  assert _distance(strong, _INITIAL) < 0.9 * _distance(plain, _INITIAL)


def test_where_all_make_as_many_steps_fed_nova_equals_fed_avg(tff_runtime):
  shared = {'server_optimizer': 'sgd', 'server_learning_rate': 1.0}
  alike = _clients(sizes=(8, 7, 5))
  plain, _ = _train(_build('fed_avg', **shared), alike)
  normalized, _ = _train(_build('fed_nova', **shared), alike)
  assert {len(batches) for batches in alike} == {4}
  assert _distance(plain, normalized) < 1e-6


@pytest.mark.parametrize('momentum', [pytest.param(0.0, marks=pytest.mark.slow), 0.5])
def test_fed_nova_averages_updates_per_step(tff_runtime, momentum):
  shared = {
    'server_optimizer': 'sgd',
    'server_learning_rate': 1.0,
    'client_momentum': momentum,
  }
  unlike = _clients(sizes=(3, 17))
  process = _build('fed_avg', **shared)
  alone = [_train(process, [batches], rounds=1)[0] for batches in unlike]
  # How often each gradient counts: 1 + momentum + ... up to the last step.
  steps = [
    sum(momentum**lag for step in range(len(batches)) for lag in range(step + 1))
    for batches in unlike
  ]
  shares = np.array([3, 17]) / 20
  expected = []
  for initial, *models in zip(_INITIAL, *alone, strict=True):
    per_step = [(initial - m) / n for m, n in zip(models, steps, strict=True)]
    mean = sum(share * update for share, update in zip(shares, per_step, strict=True))
    expected.append(initial - shares @ steps * mean)
  found, _ = _train(_build('fed_nova', **shared), unlike, rounds=1)
  plain, _ = _train(process, unlike, rounds=1)
  assert _distance(found, expected) < 1e-5
  assert _distance(plain, expected) > 1e-3


def test_the_proximal_step_is_the_gradient_of_the_proximal_loss():
  sgd = tff.learning.optimizers.build_sgdm(0.1)
  optimizer = proximal.ProximalOptimizer(sgd, strength=2.0)
  weights, gradients = (tf.constant([1.0, -1.0]),), (tf.constant([0.5, 0.5]),)
  state = optimizer.initialize((tf.TensorSpec([2], tf.float32),))
  state, weights = optimizer.next(state, weights, gradients)
  # At the start the pull is zero: w1 = w0 - 0.1 * 0.5.
  np.testing.assert_allclose(weights[0], [0.95, -1.05])
  state, weights = optimizer.next(state, weights, gradients)
  # Then w2 = w1 - 0.1 * (0.5 + 2 * (w1 - w0)) and w1 - w0 = -0.05.
  np.testing.assert_allclose(weights[0], [0.95 - 0.04, -1.05 - 0.04], rtol=1e-6)


def test_fed_sgd_equals_one_step_on_the_mean_gradient(tff_runtime):
  client = _clients(sizes=(4,))[0][:1]
  sgd, _ = _train(
    _build('fed_sgd', server_optimizer='sgd', server_learning_rate=0.5),
    [client],
    rounds=1,
  )
  # One client with one batch: FedAvg with the same step takes the same step.
  average, _ = _train(
    _build(
      'fed_avg',
      client_learning_rate=0.5,
      server_optimizer='sgd',
      server_learning_rate=1.0,
    ),
    [client],
    rounds=1,
  )
  assert _distance(sgd, average) < 1e-6


@pytest.mark.parametrize(
  'name', algorithm_rounds.with_variants_on_request(_LANGUAGE_MODEL_ALGORITHMS)
)
def test_a_process_keeps_its_state_type_and_reports_its_metrics(
  tff_runtime, name, tmp_path
):
  rounds, _ = _rounds(name, tmp_path)
  process = rounds.process
  assert isinstance(process, tff.learning.templates.LearningProcess)
  state_type = process.initialize.type_signature.result
  assert process.next.type_signature.parameter[0] == state_type
  clients = _clients()
  users = {f'user {number}': batches for number, batches in enumerate(clients)}
  train = rounds.round(process.initialize(), users).metrics['client_work']['train']
  if name == 'rr_ldp':  # Under a local promise clients tell nothing.
    assert train == {}
    return
  assert train['contributing_clients'] == 5
  assert train['num_examples'] == sum(
    (x[:, 0] != 0).sum() for client in clients for x, _ in client
  )
  assert train['num_tokens'] == sum(
    (y != 0).sum() for client in clients for _, y in client
  )
  assert train['loss'] == pytest.approx(np.log(30), rel=0.1)


@pytest.mark.parametrize('name', _LANGUAGE_MODEL_ALGORITHMS)
def test_an_empty_cohort_leaves_the_model_finite(tff_runtime, name, tmp_path):
  rounds, mechanism = _rounds(name, tmp_path)
  first = rounds.process.initialize()
  weights = rounds.weights(rounds.round(rounds.round(first, {}).state, {}).state)
  assert all(np.isfinite(weight).all() for weight in weights)
  # Central noise is added whoever came.
  moves = isinstance(mechanism, central.CentralGaussian)
  for after, before in zip(weights, rounds.weights(first), strict=True):
    assert (np.abs(after - before).max() > 0) == moves


def test_the_step_of_the_server_falls_to_zero_in_its_rounds(tff_runtime):
  shared = {'server_optimizer': 'sgd', 'server_learning_rate': 0.8}
  constant = _build('fed_avg', **shared)
  falling = _build('fed_avg', server_decay_rounds=2, **shared)
  first = constant.initialize()
  state = falling.initialize()
  steps = []
  for _ in range(3):
    before = state.global_model_weights.trainable
    # The same clients on the same weights send the same update.
    update = constant.next(
      first._replace(global_model_weights=state.global_model_weights), _clients()
    ).state.global_model_weights.trainable
    state = falling.next(state, _clients()).state
    after = state.global_model_weights.trainable
    moved = np.linalg.norm(after[0] - before[0])
    steps.append(moved / np.linalg.norm(update[0] - before[0]))
  np.testing.assert_allclose(steps, [1, 0.5, 0], atol=1e-4)


def test_a_client_whose_training_blows_up_is_left_out_and_counted(tff_runtime):
  rate = {'client_learning_rate': 0.5, 'client_weighting': 'uniform'}
  process = _build('fed_avg', **rate)
  state = process.initialize()
  # Weights at the edge of float32 make every gradient overflow.
  huge = tree.map_structure(lambda w: np.full_like(w, 1e38), state.global_model_weights)
  broken = process.set_model_weights(state, huge)
  output = process.next(broken, _clients())
  assert output.metrics['client_work']['train']['contributing_clients'] == 0
  kept = process.get_model_weights(output.state).trainable
  assert all(np.isfinite(np.asarray(weight)).all() for weight in kept)


def test_training_on_one_text_again_and_again_learns_it(tff_runtime):
  weights, first = _train(_build('fed_avg', client_learning_rate=2.0), _clients(), 1)
  weights, last = _train(_build('fed_avg', client_learning_rate=2.0), _clients(), 30)
  first_loss = first['client_work']['train']['loss']
  assert last['client_work']['train']['loss'] < 0.9 * first_loss
