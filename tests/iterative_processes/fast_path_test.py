"""A round on the fast path equals one as TFF's tutorials write it."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from sample_plan import NO_MECHANISM

from tff_textpriv.datasets import batching
from tff_textpriv.iterative_processes import (
  learning_model,
  registry,
  stacked_batches,
)
from tff_textpriv.models import language_models

_PADDED_LENGTH = 32


def _clients():
  """Posts of very different lengths, so that padding has to be cut off."""
  rng = np.random.default_rng(0)
  return [
    [rng.integers(4, 23, length).astype(np.int32) for length in lengths]
    for lengths in ((3, 12, 5, 4, 9), (2, 2, 3), (12,))
  ]


class _MaskedLoss(tf.keras.losses.Loss):
  """Cross-entropy per token that is not padding."""

  def call(self, targets, logits):
    mask = tf.cast(tf.not_equal(targets, 0), tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits) * mask
    return tf.reduce_sum(losses) / tf.reduce_sum(mask)


@pytest.mark.parametrize(
  'preset', ['lstm_tiny', pytest.param('gru_tiny', marks=pytest.mark.slow)]
)
def test_a_round_equals_that_of_a_keras_model_on_fully_padded_data(tff_runtime, preset):
  model = language_models.build(preset, 23, tied=False)
  weights = model.initial_weights(seed=1)
  algorithm = registry.ALGORITHMS['fed_avg']
  settings = algorithm.settings(
    server_optimizer='sgd', server_learning_rate=1.0, client_learning_rate=0.5
  )
  process = algorithm.build(
    learning_model.from_language_model(model, weights), settings, NO_MECHANISM
  )
  cohort = [
    batching.training_batches(
      posts,
      batch_size=2,
      num_epochs=1,
      rng=np.random.default_rng(client),
    )
    for client, posts in enumerate(_clients())
  ]
  ours = stacked_batches.NextRound(process)(process.initialize(), cohort)

  def keras_model():
    return tff.learning.models.from_keras_model(
      model.to_keras(),
      loss=_MaskedLoss(),
      input_spec=(tf.TensorSpec([None, _PADDED_LENGTH], tf.int32),) * 2,
    )

  slow = tff.learning.algorithms.build_weighted_fed_avg(
    keras_model,
    client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.5),
    server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0),
    client_weighting=tff.learning.ClientWeighting.NUM_EXAMPLES,
  )
  state = slow.set_model_weights(
    slow.initialize(),
    tff.learning.models.ModelWeights(trainable=weights, non_trainable=[]),
  )
  theirs = slow.next(state, [_padded_dataset(batches) for batches in cohort])
  for weight, reference in zip(
    ours.state.global_model_weights.trainable,
    theirs.state.global_model_weights.trainable,
    strict=True,
  ):
    np.testing.assert_allclose(weight, reference, atol=1e-5)


def _padded_dataset(batches):
  """The rows of batches of two, padded in time, as tutorials feed them."""
  parts = []
  for part in zip(*batches, strict=True):
    rows = np.concatenate(part)
    padding = [(0, 0), (0, _PADDED_LENGTH - rows.shape[1])]
    parts.append(np.pad(rows, padding))
  # Rows of padding alone would count as examples here.
  is_text = np.any(parts[1] != 0, axis=1)
  rows = tuple(part[is_text] for part in parts)
  return tf.data.Dataset.from_tensor_slices(rows).batch(2)
