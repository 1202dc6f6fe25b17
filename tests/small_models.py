"""A model that can be worked out by hand."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff


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
