"""What gradient inversion attacks: a model as a function of embeddings, not of ids."""

import dataclasses
from typing import TypeGuard

import tensorflow as tf

from tff_textpriv.models import (
  classifiers,
  encoders,
  sequence_classifiers,
)

# Classifiers whose first weight is an embedding table.
Target = sequence_classifiers.SequenceClassifier | classifiers.LayeredClassifier


def logits_from_embeddings(
  model: Target,
  shared_weights: classifiers.Weights,
  embedded: tf.Tensor,
  mask: tf.Tensor,
) -> tf.Tensor:
  """Scores the classes of sequences of vectors, as in training without dropout.

  Args:
    model: The classifier.
    shared_weights: All its weights but the table.
    embedded: Float tensor [batch, time, width].
    mask: Which of them are tokens, booleans [batch, time]; padding is at the end.

  Returns:
    Logits [batch, outputs].
  """
  if isinstance(model, sequence_classifiers.SequenceClassifier):
    return model.logits_from_embeddings(shared_weights, embedded, mask)
  # The vectors are the table of a model that reads the ids 0, 1, 2, ...
  batch_size, time, width = embedded.shape
  num_ids = batch_size * time
  ids = tf.where(mask, tf.reshape(tf.range(num_ids), [batch_size, time]), num_ids)
  return dataclasses.replace(model, num_ids=num_ids).logits(
    [tf.reshape(embedded, [num_ids, width]), *shared_weights],
    classifiers.Inputs(ids, tf.zeros([batch_size, 0])),
  )


def first_kernels(model: Target) -> tuple[int, ...]:
  """Returns which of the shared weights are the kernels that read embeddings.

  A layered classifier without LSTM reads the mean of the embeddings, and spans that.
  """
  if isinstance(model, sequence_classifiers.BiLstmClassifier):
    return 0, 3
  # After the positions, and scale and shift of the normalisation: queries, keys, values.
  return (3,) if isinstance(model, encoders.Encoder) else (0,)


def reads_places(model: Target) -> TypeGuard[encoders.Encoder]:
  """Tells whether what the first kernels read depends on where a token stands."""
  return isinstance(model, encoders.Encoder)
