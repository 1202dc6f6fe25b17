"""Models that can be worked out by hand, or are traced quickly."""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.models import initializers, sequence_classifiers


def linear(start: float, num_features: int = 3) -> tff.learning.models.FunctionalModel:
  """Returns linear regression, all weights of which are `start` at first."""

  @tf.function
  def predict(weights, x, training):
    del training
    return tf.matmul(x, weights[0][0])

  @tf.function
  def loss(output, label, sample_weight=None):
    del sample_weight
    return tf.reduce_mean(tf.square(output - label))

  return tff.learning.models.FunctionalModel(
    initial_weights=((np.full([num_features, 1], start, np.float32),), ()),
    predict_on_batch_fn=predict,
    loss_fn=loss,
    input_spec=(
      tf.TensorSpec([None, num_features], tf.float32),
      tf.TensorSpec([None, 1], tf.float32),
    ),
  )


@dataclasses.dataclass(frozen=True)
class MeanOfWords(sequence_classifiers.SequenceClassifier):
  """A layer of `units` on the mean of a text's vectors; has no dropout."""

  units: int

  def initial_shared_weights(self, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng([seed, 2])
    return [
      *initializers.dense(rng, self.embedding_size, self.units),
      *initializers.dense(rng, self.units, self.num_outputs),
    ]

  def logits_from_embeddings(self, shared_weights, embedded, mask, dropout_seed=None):
    del dropout_seed
    kernel, bias, output_kernel, output_bias = shared_weights
    counted = tf.cast(mask, tf.float32)[:, :, tf.newaxis]
    mean = tf.math.divide_no_nan(
      tf.reduce_sum(embedded * counted, axis=1), tf.reduce_sum(counted, axis=1)
    )
    hidden = tf.tanh(tf.matmul(mean, kernel) + bias)
    return tf.matmul(hidden, output_kernel) + output_bias

  def _keras_logits(self, embedded: Any) -> Any:
    raise NotImplementedError('no test exports it')
