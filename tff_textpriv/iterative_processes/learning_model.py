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
  end; the model sees them without padding that all rows share. The inputs of a model
  with dropout are those of `batching.with_dropout_seeds`. Training
  metrics: `loss` (mean over all tokens), `num_tokens`, `num_examples` and
  `contributing_clients`, the clients that had data and whose update was finite
  (TFF drops the metrics of the others).

  Args:
    model: The language model.
    initial_weights: Where training starts; trainable, in the model's order.
  """

  # Converting our own functions by autograph takes longer than tracing them.
  @tf.function(autograph=False)
  def predict_on_batch(weights, inputs, training):
    trainable, _ = weights
    tokens, seed = inputs, None
    if model.dropout > 0:
      tokens, seed = inputs['tokens'], inputs['dropout_seed'] if training else None
    hidden = model.hidden(trainable, language_models.trim(tokens), seed)
    # Not the logits: the loss computes them together with its gradient.
    return (hidden, *model.output_layer(trainable))

  @tf.function(autograph=False)
  def loss(output, label, sample_weight=None):
    del sample_weight  # Padding is what has no weight.
    hidden, kernel, bias = output
    return language_models.next_token_loss(
      hidden, kernel, bias, language_models.trim(label), tied=model.tied
    )

  tokens_spec = tf.TensorSpec([None, None], tf.int32)
  inputs_spec = tokens_spec
  if model.dropout > 0:
    inputs_spec = collections.OrderedDict(
      dropout_seed=tf.TensorSpec([2], tf.int32), tokens=tokens_spec
    )
  return tff.learning.models.FunctionalModel(
    initial_weights=(tuple(initial_weights), ()),
    predict_on_batch_fn=predict_on_batch,
    loss_fn=loss,
    metrics_fns=(_initial_metrics, _update_metrics, _finalize_metrics),
    input_spec=(inputs_spec, tokens_spec),
  )


@tf.function(autograph=False)
def _initial_metrics():
  return collections.OrderedDict(
    loss=(tf.constant(0.0), tf.constant(0.0)),
    num_tokens=tf.constant(0.0),
    num_examples=tf.constant(0.0),
    contributing_clients=tf.constant(0.0),
  )


@tf.function(autograph=False)
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


@tf.function(autograph=False)
def _finalize_metrics(state):
  return collections.OrderedDict(
    loss=tf.math.divide_no_nan(*state['loss']),
    num_tokens=state['num_tokens'],
    num_examples=state['num_examples'],
    contributing_clients=state['contributing_clients'],
  )
