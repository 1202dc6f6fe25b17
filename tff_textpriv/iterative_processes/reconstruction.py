"""A functional model as TFF's federated reconstruction wants it."""

from typing import NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.models import classifiers


class _BatchOutput(NamedTuple):
  """What TFF reads of a batch; its own class for this is not public."""

  predictions: tf.Tensor
  labels: tf.Tensor
  num_examples: tf.Tensor


class Reconstruction(tff.learning.models.ReconstructionModel):
  """A functional model as TFF wants to reconstruct it."""

  def __init__(self, model: tff.learning.models.FunctionalModel):
    self._model = model
    local, *shared = model.initial_weights[0]
    self._local = [tf.Variable(local)]
    self._shared = [tf.Variable(weight) for weight in shared]

  @property
  def global_trainable_variables(self):
    """See the base class."""
    return self._shared

  @property
  def global_non_trainable_variables(self):
    """See the base class."""
    return []

  @property
  def local_trainable_variables(self):
    """See the base class."""
    return self._local

  @property
  def local_non_trainable_variables(self):
    """See the base class."""
    return []

  @property
  def input_spec(self):
    """See the base class."""
    return self._model.input_spec

  def forward_pass(self, batch_input, training=True):
    """See the base class; padding rows are left out."""
    inputs, labels = batch_input
    weights = tuple(tf.convert_to_tensor(w) for w in (*self._local, *self._shared))
    logits = self._model.predict_on_batch((weights, ()), inputs, training=training)
    number = tf.shape(logits)[0]
    return _BatchOutput(logits, labels[:number], number)


class Loss(tf.keras.losses.Loss):
  """The cross-entropy of logits, of two classes or more."""

  def call(self, y_true, y_pred):
    """Returns the loss of each example."""
    # A Keras metric has turned the labels into floats, and one logit into none.
    if y_pred.shape.rank == 1:
      y_pred = y_pred[:, tf.newaxis]
    return classifiers.losses(y_pred, tf.cast(y_true, tf.int32))


class Accuracy(tf.keras.metrics.Mean):
  """The share of examples whose class is the most likely one."""

  def update_state(self, y_true, y_pred, sample_weight=None):
    """Counts the examples whose class is the most likely one."""
    is_right = tf.equal(classifiers.predictions(y_pred), y_true)
    return super().update_state(tf.cast(is_right, tf.float32), sample_weight)


class NumExamples(tf.keras.metrics.Sum):
  """The number of examples."""

  def update_state(self, y_true, y_pred, sample_weight=None):
    """Counts the examples."""
    del y_pred  # Their number is that of the labels.
    return super().update_state(tf.ones_like(y_true, tf.float32), sample_weight)
