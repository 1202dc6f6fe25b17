"""Classifiers in TFF's processes and in central training."""

import numpy as np
import pytest
import tensorflow as tf
from sample_plan import NO_MECHANISM

from tff_textpriv.datasets import labelled, labelled_batching
from tff_textpriv.iterative_processes import (
  central,
  central_training,
  classification_model,
  common_settings,
  optimizers,
  registry,
)
from tff_textpriv.models import classifiers
from tff_textpriv.text import representations, rolling_hash

_WORDS = ['good', 'great', 'fine', 'bad', 'poor', 'dull']


@pytest.fixture(scope='module')
def data():
  """Reviews of one word of three, whose sentiment the word tells."""
  texts = [f'{_WORDS[i % 6]} film number' for i in range(24)]
  labels = [int(i % 6 < 3) for i in range(24)]
  examples = labelled.Examples.of_texts(texts, labels)
  bag = representations.HashedBag(rolling_hash.RollingHasher(31, 40))
  return labelled_batching.encode(examples, bag.encode(texts), bag)


def _model(name='logistic', dropout=0.0):
  classifier = classifiers.build(
    name, num_ids=40, width=0, num_classes=2, dropout=dropout
  )
  return classification_model.from_classifier(classifier, classifier.initial_weights(0))


def _batches(data, rows, batch_size, seed=0):
  return labelled_batching.training_batches(
    data,
    np.asarray(rows),
    batch_size=batch_size,
    num_epochs=1,
    rng=np.random.default_rng(seed),
  )


def test_padding_rows_count_neither_in_the_loss_nor_in_the_metrics(data):
  model = _model()
  inputs, labels = data.batch(np.arange(5))
  padded_inputs, padded_labels = data.batch(np.arange(5), shape=(9, 6))
  weights = tuple(
    tf.constant(np.full(weight.shape, 0.3, np.float32))
    for weight in model.initial_weights[0]
  )
  results = []
  for x, y in ((inputs, labels), (padded_inputs, padded_labels)):
    output = model.predict_on_batch((weights, ()), x, training=True)
    results.append((output.shape, float(model.loss(output, y))))
  assert results[0][0] == (5, 1)
  assert results[0] == pytest.approx(results[1])


@pytest.mark.parametrize('name', ['fed_avg', 'fed_prox', 'fed_sgd'])
def test_federated_algorithms_learn_a_classifier(tff_runtime, data, name):
  algorithm = registry.ALGORITHMS[name]
  settings = algorithm.settings(server_optimizer='sgd', server_learning_rate=1.0)
  process = algorithm.build(_model(), settings, NO_MECHANISM)
  state = process.initialize()
  losses = []
  for _ in range(5):
    cohort = [_batches(data, range(0, 24, 2), 5), _batches(data, range(1, 24, 2), 12)]
    output = process.next(state, cohort)
    state = output.state
    train = output.metrics['client_work']['train']
    losses.append(float(train['loss']))
    assert train['num_examples'] == 24 and train['contributing_clients'] == 2
  assert losses[-1] < losses[0]


def test_a_round_of_one_client_is_its_local_training_by_hand(tff_runtime, data):
  """One client, one batch, SGD 0.5 and a server step of 1: w - 0.5 * gradient."""
  algorithm = registry.ALGORITHMS['fed_avg']
  settings = algorithm.settings(
    client_learning_rate=0.5, server_optimizer='sgd', server_learning_rate=1.0
  )
  process = algorithm.build(_model(), settings, NO_MECHANISM)
  output = process.next(process.initialize(), [_batches(data, range(24), 24)])
  kernel, bias = process.get_model_weights(output.state).trainable
  vectors = rolling_hash.binary_vectors(data.ids, range(24), 40)
  residual = 0.5 - data.labels  # sigmoid(0) minus the label
  np.testing.assert_allclose(
    kernel[:, 0], -0.5 * vectors.T @ residual / 24, rtol=1e-4, atol=1e-6
  )
  np.testing.assert_allclose(bias, [-0.5 * residual.mean()], atol=1e-6)


def test_central_training_equals_a_single_client_of_federated_averaging(
  tff_runtime, data
):
  model = _model('network', dropout=0.3)
  settings = registry.ALGORITHMS['fed_avg'].settings(
    client_learning_rate=0.1, server_optimizer='sgd', server_learning_rate=1.0
  )
  federated = registry.ALGORITHMS['fed_avg'].build(model, settings, NO_MECHANISM)
  pooled = central_training.CentralProcess(model, optimizers.client_optimizer(settings))
  cohort = [_batches(data, range(24), 5)]
  outputs = [
    process.next(process.initialize(), cohort) for process in (federated, pooled)
  ]
  ours, theirs = (
    process.get_model_weights(output.state).trainable
    for process, output in zip((pooled, federated), outputs[::-1], strict=True)
  )
  for a, b in zip(ours, theirs, strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
  for name, value in outputs[0].metrics['client_work']['train'].items():
    np.testing.assert_allclose(
      outputs[1].metrics['client_work']['train'][name], value, rtol=1e-4
    )


def test_central_training_keeps_the_optimizer_s_state_between_passes(data):
  """Two passes over one batch are two steps of one Adam, not the first step twice."""
  process = registry.ALGORITHMS['central'].build(
    _model(), central.CentralSettings(client_learning_rate=0.1), NO_MECHANISM
  )
  batch = [_batches(data, range(24), 24)]
  first = process.next(process.initialize(), batch).state
  second = process.next(first, batch).state
  fresh = process.next(
    central_training.CentralState(first.weights, process.initialize()[1]), batch
  )
  moved = np.abs(second.weights[0] - fresh.state.weights[0]).max()
  assert moved > 1e-3
  assert tf.nest.flatten(second.optimizer)


@pytest.mark.parametrize('optimizer', common_settings.CLIENT_OPTIMIZERS)
def test_a_pass_does_not_change_the_form_of_the_state_that_checkpoints_keep(
  data, optimizer
):
  process = registry.ALGORITHMS['central'].build(
    _model(),
    central.CentralSettings(client_optimizer=optimizer),
    NO_MECHANISM,
  )
  before = process.initialize()
  after = process.next(before, [_batches(data, range(24), 24)]).state
  tf.nest.assert_same_structure(before, after)
  for old, new in zip(tf.nest.flatten(before), tf.nest.flatten(after), strict=True):
    assert np.asarray(old).dtype == np.asarray(new).dtype
    assert np.shape(old) == np.shape(new)
