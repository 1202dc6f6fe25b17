"""Classifiers that read words in their order, from an embedding table of any length.

The table comes first among the weights, and the rest of the model does not know how
many rows it has, nor what they stand for: a device may have a table of its own.
`logits_from_embeddings` is that rest alone, as a function of vectors.
"""

import abc
import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tff_textpriv.models import classifiers, dropout, initializers, recurrent

# What stands for a vector of zeros: one of zeros alone is padding to the Keras twins.
_NOTHING = np.float32(1e-30)


@dataclasses.dataclass(frozen=True)
class SequenceClassifier(classifiers.Classifier):
  """A classifier of sequences of ids; its first weight is the embedding table.

  Attributes:
    embedding_size: The width of the table.
    dropout: The share of units that training drops.
    zero_unknown: Whether the table's last row, the unknown word, is read as zeros
      whatever stands in it, so that it is not trained either.
    reads_vectors: Whether ids after the table are rows of `Inputs.vectors`.
  """

  embedding_size: int
  dropout: float
  zero_unknown: bool = dataclasses.field(default=False, kw_only=True)
  reads_vectors: bool = dataclasses.field(default=False, kw_only=True)

  @property
  def extra_specs(self) -> dict[str, tf.TensorSpec]:
    """What the model reads beside ids and dense numbers; see the base class."""
    if not self.reads_vectors:
      return {}
    return {'vectors': tf.TensorSpec([None, self.embedding_size], tf.float32)}

  @abc.abstractmethod
  def initial_shared_weights(self, seed: int) -> list[np.ndarray]:
    """Draws all weights but the table; a function of the seed."""

  @abc.abstractmethod
  def logits_from_embeddings(
    self,
    shared_weights: classifiers.Weights,
    embedded: tf.Tensor,
    mask: tf.Tensor,
    dropout_seed: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Scores the classes of sequences of vectors.

    Args:
      shared_weights: All weights but the table, in order.
      embedded: Float tensor [batch, time, embedding_size].
      mask: Which of them are words, booleans [batch, time]; padding is at the end.
      dropout_seed: Decides which units are dropped, int32 [2]; none if `None`.

    Returns:
      Logits [batch, num_outputs].
    """

  @abc.abstractmethod
  def _keras_logits(self, embedded: Any) -> Any:
    """Builds the Keras layers from vectors, zeros where there is no word, to logits."""

  def _keras_weights(self, shared_weights: classifiers.Weights) -> list[np.ndarray]:
    """Returns all weights but the table as those layers have them."""
    return [np.asarray(weight) for weight in shared_weights]

  def initial_weights(self, seed: int) -> list[np.ndarray]:
    """Draws initial weights; those after the table do not depend on its length."""
    return [
      self.initial_table(seed, self.num_ids),
      *self.initial_shared_weights(seed),
    ]

  def initial_table(self, seed: int, num_rows: int) -> np.ndarray:
    """Draws an embedding table [num_rows, embedding_size]; a function of the seed."""
    rng = np.random.default_rng([seed, 1])
    return initializers.embedding(rng, num_rows, self.embedding_size)

  def logits(
    self,
    weights: classifiers.Weights,
    inputs: classifiers.Inputs,
    dropout_seed: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Scores the classes; see the base class. Padding is an id beyond all rows."""
    table, *shared_weights = weights
    num_rows = tf.shape(table)[0]
    vectors = inputs.vectors
    num_vectors = 0 if vectors is None else tf.shape(vectors)[0]
    mask = tf.less(inputs.ids, num_rows + num_vectors)
    # What all rows have as padding costs time and says nothing.
    longest = tf.reduce_max(tf.reduce_sum(tf.cast(mask, tf.int32), axis=1))
    ids, mask = inputs.ids[:, :longest], mask[:, :longest]
    embedded = tf.gather(table, tf.minimum(ids, num_rows - 1))
    if self.zero_unknown:
      is_unknown = tf.equal(ids, num_rows - 1)[:, :, tf.newaxis]
      embedded = tf.where(is_unknown, _NOTHING, embedded)
    if vectors is not None:
      places = tf.clip_by_value(ids - num_rows, 0, num_vectors - 1)
      is_beyond = tf.greater_equal(ids, num_rows)[:, :, tf.newaxis]
      embedded = tf.where(is_beyond, tf.gather(vectors, places), embedded)
    return self.logits_from_embeddings(shared_weights, embedded, mask, dropout_seed)

  def to_keras(self, weights: classifiers.Weights | None = None) -> tf.keras.Model:
    """Builds the Keras twin, which reads `ids`; see the base class."""
    ids = tf.keras.layers.Input([None], dtype=tf.int32, name='ids')
    # The row of padding is zero.
    table = tf.keras.layers.Embedding(self.num_ids + 1, self.embedding_size)
    model = tf.keras.Model({'ids': ids}, self._keras_logits(table(ids)))
    if weights is not None:
      rows = np.array(weights[0])
      if self.zero_unknown:
        rows[-1] = _NOTHING
      padded = np.concatenate([rows, np.zeros_like(rows[:1])])
      model.set_weights([padded, *self._keras_weights(weights[1:])])
    return model

  def shared_to_keras(
    self, shared_weights: classifiers.Weights | None = None
  ) -> tf.keras.Model:
    """Builds the Keras twin of the model without its table.

    Args:
      shared_weights: Weights to load.

    Returns:
      A model from vectors [batch, time, embedding_size], zeros where there is no word,
      to logits; it loads without this package.
    """
    embedded = tf.keras.layers.Input([None, self.embedding_size], name='embedded')
    model = tf.keras.Model(embedded, self._keras_logits(embedded))
    if shared_weights is not None:
      model.set_weights(self._keras_weights(shared_weights))
    return model


@dataclasses.dataclass(frozen=True)
class BiLstmClassifier(SequenceClassifier):
  """A bidirectional LSTM whose last states, one of each direction, are classified.

  Weights, in order: the table [num_ids, embedding_size]; kernel, recurrent kernel and
  bias of the LSTM that reads forwards, and of the one that reads backwards; kernel
  [2 * units, outputs] and bias of the output layer.

  Attributes:
    units: The width of each direction.
  """

  units: int

  def initial_shared_weights(self, seed: int) -> list[np.ndarray]:
    """Draws all weights but the table; a function of the seed."""
    rng = np.random.default_rng([seed, 2])
    return [
      *initializers.lstm(rng, self.embedding_size, self.units),
      *initializers.lstm(rng, self.embedding_size, self.units),
      *initializers.dense(rng, 2 * self.units, self.num_outputs),
    ]

  def logits_from_embeddings(
    self,
    shared_weights: classifiers.Weights,
    embedded: tf.Tensor,
    mask: tf.Tensor,
    dropout_seed: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Scores the classes of sequences of vectors; see the base class."""
    drop = dropout.Dropout(self.dropout, dropout_seed)
    *lstms, kernel, bias = shared_weights
    embedded, mask = tf.transpose(drop(embedded), [1, 0, 2]), tf.transpose(mask)
    ends = []
    for weights, inputs, its_mask in (
      (lstms[:3], embedded, mask),
      (lstms[3:], tf.reverse(embedded, [0]), tf.reverse(mask, [0])),
    ):
      lstm_kernel, recurrent_kernel, lstm_bias = weights
      _, (end, _) = recurrent.lstm(
        inputs, lstm_kernel, recurrent_kernel, lstm_bias, mask=its_mask
      )
      ends.append(end)
    return tf.matmul(drop(tf.concat(ends, axis=1)), kernel) + bias

  def _keras_logits(self, embedded: Any) -> Any:
    layers = tf.keras.layers
    hidden = layers.Dropout(self.dropout)(layers.Masking()(embedded))
    hidden = layers.Bidirectional(layers.LSTM(self.units))(hidden)
    hidden = layers.Dropout(self.dropout)(hidden)
    return layers.Dense(self.num_outputs, name='logits')(hidden)


@dataclasses.dataclass(frozen=True)
class SplitTableClassifier(classifiers.Classifier):
  """Another classifier, whose table is two weights: its first rows, and the others.

  Attributes:
    whole: The classifier.
    num_first: The number of rows in the first weight.
  """

  whole: SequenceClassifier
  num_first: int

  @classmethod
  def of(cls, whole: SequenceClassifier, num_first: int) -> 'SplitTableClassifier':
    """Splits the table of a classifier after so many rows."""
    return cls(whole.num_ids, whole.width, whole.num_classes, whole, num_first)

  @property
  def num_embedding_weights(self) -> int:
    """How many of the first weights make a vector of an id; see the base class."""
    return 1 + self.whole.num_embedding_weights

  @property
  def extra_specs(self) -> dict[str, tf.TensorSpec]:
    """What the model reads beside ids and dense numbers; see the base class."""
    return self.whole.extra_specs

  def split(self, weights: classifiers.Weights) -> list[np.ndarray]:
    """Returns weights of the whole classifier as those of this one."""
    table, *shared_weights = map(np.asarray, weights)
    return [table[: self.num_first], table[self.num_first :], *shared_weights]

  def join(self, weights: classifiers.Weights) -> list[np.ndarray | tf.Tensor]:
    """Returns weights of this classifier as those of the whole one."""
    first, others, *shared_weights = weights
    return [tf.concat([first, others], axis=0), *shared_weights]

  def initial_weights(self, seed: int) -> list[np.ndarray]:
    """Draws initial weights; a function of the seed."""
    return self.split(self.whole.initial_weights(seed))

  def logits(
    self,
    weights: classifiers.Weights,
    inputs: classifiers.Inputs,
    dropout_seed: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Scores the classes; see the base class."""
    return self.whole.logits(self.join(weights), inputs, dropout_seed)

  def to_keras(self, weights: classifiers.Weights | None = None) -> tf.keras.Model:
    """Builds the Keras twin, that of the whole; see the base class."""
    return self.whole.to_keras(None if weights is None else self.join(weights))
