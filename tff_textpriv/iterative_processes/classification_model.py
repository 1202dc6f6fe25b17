"""Our classifiers as TFF functional models."""

import collections
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.models import classifiers


class ClassifierModel(tff.learning.models.FunctionalModel):
  """A TFF functional model that tells where its vectors of ids end.

  Attributes:
    num_embedding_weights: How many of its first weights make a vector of an id.
  """

  num_embedding_weights = 1


def from_classifier(
  model: classifiers.Classifier, initial_weights: Sequence[np.ndarray]
) -> ClassifierModel:
  """Makes the TFF model of a classifier.

  Batches are those of `labelled_batching`: inputs `dense`, `dropout_seed`, `ids`,
  `num_examples` and perhaps `vectors`, and labels int32 [batch]; rows after
  `num_examples` are padding, which the model does not see. Training metrics: `loss` and
  `accuracy` (means over all examples, with dropout), `num_examples` and
  `contributing_clients`, the clients that had data and whose update was finite (TFF
  drops the metrics of the others).

  Args:
    model: The classifier.
    initial_weights: Where training starts; trainable, in the model's order.
  """

  @tf.function(autograph=False)
  def predict_on_batch(weights, inputs, training):
    trainable, _ = weights
    num_examples = inputs['num_examples']
    return model.logits(
      trainable,
      classifiers.Inputs(
        inputs['ids'][:num_examples],
        inputs['dense'][:num_examples],
        inputs.get('vectors'),
      ),
      inputs['dropout_seed'] if training else None,
    )

  functional = _functional(
    initial_weights,
    predict_on_batch,
    dense=tf.TensorSpec([None, model.width], tf.float32),
    dropout_seed=tf.TensorSpec([2], tf.int32),
    ids=tf.TensorSpec([None, None], tf.int32),
    num_examples=tf.TensorSpec([], tf.int32),
    **model.extra_specs,
  )
  functional.num_embedding_weights = model.num_embedding_weights
  return functional


def for_elements(
  model: classifiers.Classifier, initial_weights: Sequence[np.ndarray]
) -> ClassifierModel:
  """Makes the TFF model of a classifier that reads what its Keras twin does.

  The same as `from_classifier`, for batches of those of `dense` and `ids` that have any
  width, without rows of padding and without dropout.
  """
  specs = {}
  if model.width:
    specs['dense'] = tf.TensorSpec([None, model.width], tf.float32)
  if model.num_ids:
    specs['ids'] = tf.TensorSpec([None, None], tf.int32)

  @tf.function(autograph=False)
  def predict_on_batch(weights, inputs, training):
    del training  # There is no dropout.
    trainable, _ = weights
    return model.logits(
      trainable, classifiers.Inputs(inputs.get('ids'), inputs.get('dense'))
    )

  return _functional(initial_weights, predict_on_batch, **specs)


def _functional(
  initial_weights: Sequence[np.ndarray],
  predict_on_batch: Callable[..., tf.Tensor],
  **input_specs: tf.TensorSpec,
) -> ClassifierModel:
  """Makes the TFF model of what gives logits."""

  @tf.function(autograph=False)
  def loss(output, label, sample_weight=None):
    del sample_weight  # Padding is what has no weight.
    return tf.reduce_mean(classifiers.losses(output, label[: tf.shape(output)[0]]))

  return ClassifierModel(
    initial_weights=(tuple(initial_weights), ()),
    predict_on_batch_fn=predict_on_batch,
    loss_fn=loss,
    metrics_fns=(_initial_metrics, _update_metrics, _finalize_metrics),
    input_spec=(
      collections.OrderedDict(input_specs),
      tf.TensorSpec([None], tf.int32),
    ),
  )


@tf.function(autograph=False)
def _initial_metrics():
  return collections.OrderedDict(
    loss=(tf.constant(0.0), tf.constant(0.0)),
    accuracy=(tf.constant(0.0), tf.constant(0.0)),
    num_examples=tf.constant(0.0),
    contributing_clients=tf.constant(0.0),
  )


@tf.function(autograph=False)
def _update_metrics(state, labels, batch_output, sample_weight=None):
  del sample_weight  # Padding is what has no weight.
  logits = batch_output.predictions
  labels = labels[: tf.shape(logits)[0]]
  number = tf.cast(tf.shape(logits)[0], tf.float32)
  is_right = tf.equal(classifiers.predictions(logits), labels)
  num_right = tf.reduce_sum(tf.cast(is_right, tf.float32))
  loss_sum, loss_number = state['loss']
  right_sum, right_number = state['accuracy']
  return collections.OrderedDict(
    loss=(loss_sum + batch_output.loss * number, loss_number + number),
    accuracy=(right_sum + num_right, right_number + number),
    num_examples=state['num_examples'] + number,
    contributing_clients=tf.constant(1.0),
  )


@tf.function(autograph=False)
def _finalize_metrics(state):
  return collections.OrderedDict(
    loss=tf.math.divide_no_nan(*state['loss']),
    accuracy=tf.math.divide_no_nan(*state['accuracy']),
    num_examples=state['num_examples'],
    contributing_clients=state['contributing_clients'],
  )
