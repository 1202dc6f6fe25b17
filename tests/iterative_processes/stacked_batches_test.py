"""Stacked batches give what TFF's own data sets give."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from sample_plan import NO_MECHANISM

from tff_textpriv.iterative_processes import (
  learning_model,
  registry,
  seeded_client_work,
  stacked_batches,
)
from tff_textpriv.models import language_models


def _cohort(num_clients, dropout=False):
  rng = np.random.default_rng(0)
  cohort = []
  for client in range(num_clients):
    shape = (2 + client % 2, 5 + client)
    batches = [
      (
        rng.integers(1, 23, shape).astype(np.int32),
        rng.integers(1, 23, shape).astype(np.int32),
      )
      for _ in range(client)
    ]
    if dropout:
      seed = np.array([client, 1], np.int32)
      batches = [
        (collections.OrderedDict(dropout_seed=seed, tokens=inputs), targets)
        for inputs, targets in batches
      ]
    cohort.append(batches)
  return cohort


@pytest.mark.parametrize('dropout', [pytest.param(0.0, marks=pytest.mark.slow), 0.5])
def test_a_round_equals_that_on_data_sets_with_clients_of_any_shape(
  tff_runtime, dropout
):
  model = language_models.build('lstm_tiny', 23, tied=True, dropout=dropout)
  algorithm = registry.ALGORITHMS['fed_avg']
  process = algorithm.build(
    learning_model.from_language_model(model, model.initial_weights(0)),
    algorithm.settings(),
    NO_MECHANISM,
  )
  cohort = _cohort(4, dropout > 0)
  state = process.initialize()
  expected = process.next(state, cohort)
  ours = stacked_batches.NextRound(process)(state, cohort)
  assert ours.metrics == expected.metrics
  for weight, twin, before in zip(
    ours.state.global_model_weights.trainable,
    expected.state.global_model_weights.trainable,
    state.global_model_weights.trainable,
    strict=True,
  ):
    np.testing.assert_allclose(weight, twin, atol=1e-6)
    assert not np.array_equal(weight, before)


def test_an_empty_cohort_changes_nothing(tff_runtime):
  model = language_models.build('lstm_tiny', 23, tied=True)
  algorithm = registry.ALGORITHMS['fed_avg']
  process = algorithm.build(
    learning_model.from_language_model(model, model.initial_weights(0)),
    algorithm.settings(server_optimizer='sgd'),
    NO_MECHANISM,
  )
  state = process.initialize()
  output = stacked_batches.NextRound(process)(state, [])
  for weight, before in zip(
    output.state.global_model_weights.trainable,
    state.global_model_weights.trainable,
    strict=True,
  ):
    np.testing.assert_array_equal(weight, before)


def test_batches_and_a_seed_arrive_beside_each_other(tff_runtime):
  data_type = tff.FederatedType(
    (
      tff.SequenceType(tff.TensorType(np.int32, [None])),
      tff.SequenceType(seeded_client_work.SEED_TYPE),
    ),
    tff.CLIENTS,
  )

  @tff.tensorflow.computation(data_type.member)
  def add_up(data):
    batches, seeds = data
    total = batches.reduce(0, lambda total, batch: total + tf.reduce_sum(batch))
    hundreds = seeds.reduce(
      0, lambda total, seed: total + 100 * tf.cast(seed[1], tf.int32)
    )
    return total + hundreds

  @tff.tensorflow.computation(np.int32, np.int32)
  def add(a, b):
    return a + b

  @tff.federated_computation(tff.FederatedType(np.int32, tff.SERVER), data_type)
  def next_round(state, data):
    total = tff.federated_sum(tff.federated_map(add_up, data))
    return tff.federated_map(add, (state, total)), total

  class Process:
    """Just `next`, which is all that is looked at."""

    next = staticmethod(next_round)

  cohort = [
    ([np.array([1, 2], np.int32)], [np.array([9, 1], np.int32)]),
    ([], [np.array([9, 2], np.int32)]),
  ]
  total = 3 + 300
  output = stacked_batches.NextRound(Process())(1000, cohort)
  assert output == (1000 + total, total)
