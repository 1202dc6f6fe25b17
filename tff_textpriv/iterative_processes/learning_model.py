"""Our language models as TFF functional models."""

import collections
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.models import language_models


def from_language_model(
  model: language_models.LanguageModel, initial_weights: Sequence[np.ndarray]
) -> tff.learning.models.FunctionalModel:
  """Makes the TFF model of next-token prediction.

  Batches are pairs of inputs and targets, each int32 [batch, time], padded at the
  end; the model sees them without padding that all rows share. Training
  metrics: `loss` (mean over all tokens), `num_tokens`, `num_examples` and
  `contributing_clients`, the clients that had data and whose update was finite
  (TFF drops the metrics of the others).

  Args:
    model: The language model.
    initial_weights: Where training starts; trainable, in the model's order.

  Returns:
    The functional model.
  """

  @tf.function
  def predict_on_batch(weights, tokens, training):
    del training  # There is no dropout.
    trainable, _ = weights
    return model.logits(trainable, language_models.trim(tokens))

  def loss(output, label, sample_weight=None):
    del sample_weight  # Padding is what has no weight.
    return language_models.next_token_loss(output, language_models.trim(label))

  tokens_spec = tf.TensorSpec([None, None], tf.int32)
  return tff.learning.models.FunctionalModel(
    initial_weights=(tuple(initial_weights), ()),
    predict_on_batch_fn=predict_on_batch,
    loss_fn=loss,
    metrics_fns=(_initial_metrics, _update_metrics, _finalize_metrics),
    input_spec=(tokens_spec, tokens_spec),
  )


@tf.function
def _initial_metrics():
  return collections.OrderedDict(
    loss=(tf.constant(0.0), tf.constant(0.0)),
    num_tokens=tf.constant(0.0),
    num_examples=tf.constant(0.0),
    contributing_clients=tf.constant(0.0),
  )


@tf.function
def _update_metrics(state, labels, batch_output, sample_weight=None):
  del sample_weight  # Padding is what has no weight.
  num_tokens = tf.reduce_sum(language_models.token_mask(labels))
  loss_sum, loss_tokens = state['loss']
  return collections.OrderedDict(
    loss=(loss_sum + batch_output.loss * num_tokens, loss_tokens + num_tokens),
    num_tokens=state['num_tokens'] + num_tokens,
    num_examples=state['num_examples'] + tf.cast(batch_output.num_examples, tf.float32),
    contributing_clients=tf.constant(1.0),
  )


@tf.function
def _finalize_metrics(state):
  return collections.OrderedDict(
    loss=tf.math.divide_no_nan(*state['loss']),
    num_tokens=state['num_tokens'],
    num_examples=state['num_examples'],
    contributing_clients=state['contributing_clients'],
  )
