"""Text classifiers as pure functions of their weights, with their Keras twins.

A classifier reads ids (a bag of hashed words, or words in their order) and dense
numbers beside them, and gives logits: one of the positive class where there are
two classes, else one of each class.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tff_textpriv.models import dropout, initializers, recurrent

Weights = Sequence[np.ndarray | tf.Tensor]

NAMES = ('logistic', 'network', 'lstm_network')
# The hidden layers of the network, and the LSTM before it, as in the paper.
_HIDDEN_UNITS = (100, 50, 25)
_LSTM_UNITS = 50


class Inputs(NamedTuple):
  """What a classifier reads.

  Attributes:
    ids: Integer tensor [batch, length], padded at the end with `num_ids`.
    dense: Float tensor [batch, width].
    vectors: Float tensor [n, embedding size], rows that follow those of the embedding
      table and are never trained; for models that have `extra_specs` only.
  """

  ids: tf.Tensor
  dense: tf.Tensor
  vectors: tf.Tensor | None = None


@dataclasses.dataclass(frozen=True)
class Classifier(abc.ABC):
  """A text classifier.

  Attributes:
    num_ids: The number of different ids; also the id that is padding.
    width: The width of the dense numbers.
    num_classes: The number of classes, 2 or more.
  """

  num_ids: int
  width: int
  num_classes: int

  @property
  def num_outputs(self) -> int:
    """The number of logits: one for two classes, else one a class."""
    return 1 if self.num_classes == 2 else self.num_classes

  @property
  def num_embedding_weights(self) -> int:
    """How many of the first weights make a vector of an id, if one is made."""
    return 1

  @property
  def extra_specs(self) -> dict[str, tf.TensorSpec]:
    """What the model reads beside ids and dense numbers, by its name in `Inputs`."""
    return {}

  @abc.abstractmethod
  def initial_weights(self, seed: int) -> list[np.ndarray]:
    """Draws initial weights; a function of the seed."""

  @abc.abstractmethod
  def logits(
    self, weights: Weights, inputs: Inputs, dropout_seed: tf.Tensor | None = None
  ) -> tf.Tensor:
    """Scores the classes.

    Args:
      weights: The weights, in order.
      inputs: What is read.
      dropout_seed: Decides which units are dropped, int32 [2]; none if `None`.

    Returns:
      Logits [batch, num_outputs].
    """

  @abc.abstractmethod
  def to_keras(self, weights: Weights | None = None) -> tf.keras.Model:
    """Builds the Keras twin, of standard layers: `ids` and `dense` to logits.

    Args:
      weights: Weights to load.

    Returns:
      A model that loads without this package. An input of width 0 is left out.
    """

  @property
  def num_parameters(self) -> int:
    """The number of trained numbers."""
    return sum(weight.size for weight in self.initial_weights(0))


@dataclasses.dataclass(frozen=True)
class LayeredClassifier(Classifier):
  """Logistic regression or a ReLU network, on a bag or on words, with or without LSTM.

  The first layer reads the ids in one of three ways. Without an embedding they are
  a vector of counts (0 and 1, if no id is repeated), whose product with the kernel
  is a sum of kernel rows. With one, the rows of the words' embeddings are averaged;
  or, with an LSTM, read in their order. An LSTM without an embedding reads the
  vector of counts as a sequence of one step, and has no use for a recurrent kernel.

  Weights, in order: the embedding [num_ids, embedding]; the LSTM's kernel, one of the
  ids and one of the dense numbers where they enter it, recurrent kernel and bias;
  per layer the kernel and the bias. A layer that reads ids or dense numbers beside
  others has a kernel for each.

  Attributes:
    hidden_units: The widths of the hidden layers; none for logistic regression.
    lstm_units: The width of the LSTM; 0 for none.
    embedding_size: The width of the embedding; 0 for none.
    dropout: The share of units that training drops after each hidden layer and
      after the embedding.
  """

  hidden_units: tuple[int, ...] = ()
  lstm_units: int = 0
  embedding_size: int = 0
  dropout: float = 0.0

  def initial_weights(self, seed: int) -> list[np.ndarray]:
    """Draws initial weights; a function of the seed."""
    rng = np.random.default_rng(seed)
    weights = []
    inputs = [size for size in (self.num_ids, self.width) if size]
    parts = list(inputs)
    if self.embedding_size:
      weights.append(
        initializers.glorot_uniform(rng, self.num_ids, self.embedding_size)
      )
      parts[0] = self.embedding_size
    if self.lstm_units and self.embedding_size:
      weights += initializers.lstm(rng, self.embedding_size, self.lstm_units)
      parts[0] = self.lstm_units
    elif self.lstm_units:
      kernel, _, bias = initializers.lstm(rng, sum(parts), self.lstm_units)
      weights += [*_split(kernel, parts), bias]
      parts = [self.lstm_units]
    for units in (*self.hidden_units, self.num_outputs):
      kernel, bias = initializers.dense(rng, sum(parts), units)
      weights += [*_split(kernel, parts), bias]
      parts = [units]
    if len(weights) == len(inputs) + 1:
      # Logistic regression has one minimum and no symmetry to break.
      return [np.zeros_like(weight) for weight in weights]
    return weights

  def logits(
    self, weights: Weights, inputs: Inputs, dropout_seed: tf.Tensor | None = None
  ) -> tf.Tensor:
    """Scores the classes; see the base class."""
    drop = dropout.Dropout(self.dropout, dropout_seed)
    remaining = list(weights)
    parts: list[tf.Tensor | tf.SparseTensor] = []
    if self.embedding_size:
      embedding, *remaining = remaining
      is_word = tf.less(inputs.ids, self.num_ids)
      words = tf.gather(embedding, tf.minimum(inputs.ids, self.num_ids - 1))
      if self.lstm_units:
        kernel, recurrent_kernel, bias, *remaining = remaining
        _, (text, _) = recurrent.lstm(
          tf.transpose(drop(words), [1, 0, 2]),
          kernel,
          recurrent_kernel,
          bias,
          mask=tf.transpose(is_word),
        )
      else:
        text = drop(_mean(words, is_word))
      parts.append(text)
    elif self.num_ids:
      parts.append(_counts(inputs.ids, self.num_ids))
    if self.width:
      parts.append(inputs.dense)
    if self.lstm_units and not self.embedding_size:
      gates, remaining = _layer(parts, remaining)
      parts = [_single_step(gates)]
    for _ in self.hidden_units:
      hidden, remaining = _layer(parts, remaining)
      parts = [drop(tf.nn.relu(hidden))]
    return _layer(parts, remaining)[0]

  def to_keras(self, weights: Weights | None = None) -> tf.keras.Model:
    """Builds the Keras twin; see the base class."""
    layers = tf.keras.layers
    ids = layers.Input([None], dtype=tf.int32, name='ids')
    dense = layers.Input([self.width], name='dense')
    parts = []
    if self.embedding_size:
      # The row of padding is zero, and what is zero throughout is masked.
      words = layers.Embedding(self.num_ids + 1, self.embedding_size)(ids)
      if self.lstm_units:
        words = layers.Dropout(self.dropout)(layers.Masking()(words))
        parts.append(layers.LSTM(self.lstm_units)(words))
      else:
        # Not Keras's pooling layer, whose mean of no words is not a number.
        mean = _mean(words, tf.reduce_any(tf.not_equal(words, 0.0), axis=2))
        parts.append(layers.Dropout(self.dropout)(mean))
    elif self.num_ids:
      counts = layers.CategoryEncoding(self.num_ids + 1, 'count')(ids)
      # The last one counts padding.
      parts.append(counts[:, : self.num_ids])
    if self.width:
      parts.append(dense)
    hidden = layers.Concatenate()(parts) if len(parts) > 1 else parts[0]
    if self.lstm_units and not self.embedding_size:
      hidden = layers.Reshape([1, hidden.shape[-1]])(hidden)
      hidden = layers.LSTM(self.lstm_units)(hidden)
    for number, units in enumerate(self.hidden_units, start=1):
      hidden = layers.Dense(units, 'relu', name=f'hidden_{number}')(hidden)
      hidden = layers.Dropout(self.dropout)(hidden)
    logits = layers.Dense(self.num_outputs, name='logits')(hidden)
    inputs = {'ids': ids} if self.num_ids else {}
    inputs |= {'dense': dense} if self.width else {}
    model = tf.keras.Model(inputs, logits)
    if weights is not None:
      model.set_weights(self._keras_weights(weights))
    return model

  def _keras_weights(self, weights: Weights) -> list[np.ndarray]:
    """Writes the weights as Keras wants them: whole kernels, a row for padding."""
    remaining = [np.asarray(weight) for weight in weights]
    result = []
    num_parts = bool(self.num_ids) + bool(self.width)
    if self.embedding_size:
      embedding, *remaining = remaining
      result.append(np.concatenate([embedding, np.zeros_like(embedding[:1])]))
      if self.lstm_units:
        result += remaining[:3]
        remaining = remaining[3:]
    while remaining:
      kernel = np.concatenate(remaining[:num_parts])
      bias = remaining[num_parts]
      remaining = remaining[num_parts + 1 :]
      result.append(kernel)
      if self.lstm_units and not self.embedding_size and len(result) == 1:
        result.append(np.zeros((self.lstm_units, 4 * self.lstm_units), np.float32))
      result.append(bias)
      num_parts = 1
    return result


def build(
  name: str,
  num_ids: int,
  width: int,
  num_classes: int,
  *,
  embedding_size: int = 0,
  dropout: float = 0.0,
) -> LayeredClassifier:
  """Makes the classifier of a name; see `LayeredClassifier` for the arguments."""
  return LayeredClassifier(
    num_ids,
    width,
    num_classes,
    hidden_units=() if name == 'logistic' else _HIDDEN_UNITS,
    lstm_units=_LSTM_UNITS if name == 'lstm_network' else 0,
    embedding_size=embedding_size,
    dropout=dropout,
  )


def losses(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
  """Returns the cross-entropy of each example.

  Args:
    logits: Float tensor [batch, outputs].
    labels: Integer tensor [batch], classes from 0.

  Returns:
    Float tensor [batch].
  """
  if logits.shape[1] == 1:
    return tf.nn.sigmoid_cross_entropy_with_logits(
      tf.cast(labels, tf.float32), logits[:, 0]
    )
  return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def predictions(logits: tf.Tensor) -> tf.Tensor:
  """Returns the most likely class of each example, int32 [batch]."""
  if logits.shape[1] == 1:
    return tf.cast(tf.greater(logits[:, 0], 0), tf.int32)
  return tf.argmax(logits, 1, tf.int32)


def _counts(ids: tf.Tensor, num_ids: int) -> tf.SparseTensor:
  """Counts ids: [batch, num_ids], sparse; repeated ids are repeated entries."""
  places = tf.where(tf.less(ids, num_ids))
  columns = tf.cast(tf.gather_nd(ids, places), tf.int64)
  return tf.SparseTensor(
    tf.stack([places[:, 0], columns], axis=1),
    tf.ones_like(columns, tf.float32),
    [tf.shape(ids, tf.int64)[0], num_ids],
  )


def _layer(
  parts: Sequence[tf.Tensor | tf.SparseTensor], weights: Weights
) -> tuple[tf.Tensor, list[np.ndarray | tf.Tensor]]:
  """Applies a dense layer to parts with a kernel each; returns the other weights."""
  bias, remaining = weights[len(parts)], list(weights[len(parts) + 1 :])
  total = bias
  for part, kernel in zip(parts, weights, strict=False):
    if isinstance(part, tf.SparseTensor):
      total += tf.sparse.sparse_dense_matmul(part, kernel)
    else:
      total += tf.matmul(part, kernel)
  return total, remaining


def _mean(words: tf.Tensor, is_word: tf.Tensor) -> tf.Tensor:
  """Averages the words of each row: [batch, length, width] to [batch, width]."""
  mask = tf.cast(is_word, words.dtype)[:, :, tf.newaxis]
  return tf.math.divide_no_nan(
    tf.reduce_sum(words * mask, axis=1), tf.reduce_sum(mask, axis=1)
  )


def _single_step(gates: tf.Tensor) -> tf.Tensor:
  """Runs an LSTM's first and only step, from the gates before activation."""
  i, _, g, o = tf.split(gates, 4, axis=1)
  return tf.sigmoid(o) * tf.tanh(tf.sigmoid(i) * tf.tanh(g))


def _split(kernel: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
  return np.split(kernel, np.cumsum(sizes)[:-1])
