"""What the Keras twins are trained for, in Keras's own terms: losses and metrics."""

from typing import Any

import tensorflow as tf

from tff_textpriv.text import tokenizers


class TokenAccuracy(tf.keras.metrics.SparseCategoricalAccuracy):
  """The share of tokens, without padding, that are the model's first choice."""

  def update_state(
    self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: Any = None
  ) -> Any:
    """Counts a batch; only padding has a weight."""
    del sample_weight  # Padding is what has no weight.
    is_token = tf.cast(tf.not_equal(y_true, tokenizers.PAD_ID), tf.float32)
    return super().update_state(y_true, y_pred, is_token)


def loss(num_outputs: int | None) -> tf.keras.losses.Loss:
  """Makes the loss of a classifier with so many logits, or of a language model."""
  if num_outputs == 1:
    return tf.keras.losses.BinaryCrossentropy(from_logits=True)
  return tf.keras.losses.SparseCategoricalCrossentropy(
    from_logits=True, ignore_class=tokenizers.PAD_ID if num_outputs is None else None
  )


def metrics(num_outputs: int | None) -> list[tf.keras.metrics.Metric]:
  """Makes the metrics of a classifier with so many logits, or of a language model."""
  if num_outputs is None:
    return [TokenAccuracy('accuracy')]
  if num_outputs == 1:
    return [
      tf.keras.metrics.BinaryAccuracy('accuracy', threshold=0.0),
      tf.keras.metrics.AUC(from_logits=True, name='auc'),
    ]
  return [tf.keras.metrics.SparseCategoricalAccuracy('accuracy')]
