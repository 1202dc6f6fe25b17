"""BERT-class encoders as classifiers, drawn at random or read from a checkpoint.

BERT and DistilBERT differ in little: DistilBERT has no types of segments, half the
layers, and another activation before its output layer. All texts here are one segment,
so that BERT's embedding of the first segment is a part of its positions.
"""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tff_textpriv.models import (
  classifiers,
  encoder_checkpoints,
  initializers,
  pretrained,
  sequence_classifiers,
  transformer_parts,
)
from tff_textpriv.models.dropout import Dropout
from tff_textpriv.models.sequence_presets import EncoderSize

# Added to the variance by normalisations.
EPSILON = 1e-12
_INITIAL_STDDEV = 0.02
_POOLERS = {'bert': tf.tanh, 'distilbert': tf.nn.relu}


@dataclasses.dataclass(frozen=True)
class Encoder(sequence_classifiers.SequenceClassifier):
  """A transformer encoder whose first output is classified.

  Weights, in order: the table [num_ids, width]; positions [max_positions, width]; scale
  and shift of a normalisation; per layer the kernel [width, 3 * width] of queries, keys
  and values with its bias, output kernel and bias, scale and shift, the feed-forward
  kernels [width, feed_forward] and [feed_forward, width], each with its bias, scale and
  shift; a dense layer [width, width] with its bias; the output layer's kernel and bias.

  Attributes:
    size: The shape of it all.
    checkpoint: The folder that initial weights are read from; drawn if `None`.
  """

  size: EncoderSize
  checkpoint: str | None = None

  @property
  def num_embedding_weights(self) -> int:
    """The table, the positions, and the normalisation of their sum."""
    return 4

  def initial_shared_weights(self, seed: int) -> list[np.ndarray]:
    """Reads or draws all weights but the table; the output layer is always drawn."""
    rng = np.random.default_rng([seed, 2])
    width, inner = self.size.width, self.size.feed_forward_size

    def drawn(*shape: int) -> np.ndarray:
      return rng.normal(scale=_INITIAL_STDDEV, size=shape).astype(np.float32)

    def dense(rows: int, columns: int) -> list[np.ndarray]:
      return [drawn(rows, columns), np.zeros(columns, np.float32)]

    norm = initializers.normalization
    pooler: list[np.ndarray] = []
    if self.checkpoint is None:
      body = [drawn(self.size.max_positions, width), *norm(width)]
      for _ in range(self.size.num_layers):
        body += [*dense(width, 3 * width), *dense(width, width), *norm(width)]
        body += [*dense(width, inner), *dense(inner, width), *norm(width)]
    else:
      tensors = pretrained.read_tensors(self.checkpoint)
      body = encoder_checkpoints.body(tensors, self.size)
      pooler = encoder_checkpoints.pooler(tensors, self.size)
    # Drawn anyway, so that the output layer is the same whether a checkpoint has one.
    drawn_pooler = dense(width, width)
    return [*body, *(pooler or drawn_pooler), *dense(width, self.num_outputs)]

  def logits_from_embeddings(
    self,
    shared_weights: classifiers.Weights,
    embedded: tf.Tensor,
    mask: tf.Tensor,
    dropout_seed: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Scores the classes of sequences of vectors; see the base class."""
    drop = Dropout(self.dropout, dropout_seed)
    *body, pooler_kernel, pooler_bias, kernel, bias = shared_weights
    first = hidden_states(self.size, body, embedded, mask, drop)[:, 0]
    pooled = _POOLERS[self.size.kind](tf.matmul(first, pooler_kernel) + pooler_bias)
    return tf.matmul(drop(pooled), kernel) + bias

  def _keras_logits(self, embedded: Any) -> Any:
    layers = tf.keras.layers
    width, heads = self.size.width, self.size.num_heads
    is_word = tf.reduce_any(tf.not_equal(embedded, 0.0), axis=2)
    places = tf.cumsum(tf.ones_like(is_word, tf.int32), axis=1, exclusive=True)
    positions = layers.Embedding(self.size.max_positions, width)(places)

    def normalize(hidden: Any) -> Any:
      return layers.LayerNormalization(epsilon=EPSILON)(hidden)

    hidden = normalize(layers.Add()([embedded, positions]))
    hidden = layers.Dropout(self.dropout)(hidden)
    for _ in range(self.size.num_layers):
      mixed = layers.MultiHeadAttention(heads, width // heads, dropout=self.dropout)(
        hidden, hidden, attention_mask=is_word[:, tf.newaxis, :]
      )
      mixed = layers.Dropout(self.dropout)(mixed)
      hidden = normalize(layers.Add()([hidden, mixed]))
      inner = layers.Dense(self.size.feed_forward_size, 'gelu')(hidden)
      inner = layers.Dropout(self.dropout)(layers.Dense(width)(inner))
      hidden = normalize(layers.Add()([hidden, inner]))
    activation = 'tanh' if self.size.kind == 'bert' else 'relu'
    pooled = layers.Dense(width, activation)(hidden[:, 0])
    pooled = layers.Dropout(self.dropout)(pooled)
    return layers.Dense(self.num_outputs, name='logits')(pooled)

  def _keras_weights(self, shared_weights: classifiers.Weights) -> list[np.ndarray]:
    """Returns the weights as the twin has them: one matrix a head and use."""
    values = [np.asarray(weight) for weight in shared_weights]
    heads = self.size.num_heads
    kept, values = values[:3], values[3:]
    for _ in range(self.size.num_layers):
      (kernel, bias, output_kernel, *rest), values = values[:12], values[12:]
      kept += transformer_parts.heads_to_keras(kernel, bias, heads)
      kept += [output_kernel.reshape(heads, -1, self.size.width), *rest]
    return kept + values

  def from_keras(self, twin: tf.keras.Model) -> list[np.ndarray]:
    """Reads the weights of a Keras twin; the inverse of `to_keras`."""
    table, *values = twin.get_weights()
    width = self.size.width
    # The row of padding is not a weight.
    kept, values = [table[:-1], *values[:3]], values[3:]
    for _ in range(self.size.num_layers):
      layer, values = values[:16], values[16:]
      kept += transformer_parts.heads_from_keras(layer[:6])
      kept += [layer[6].reshape(width, width), *layer[7:]]
    return kept + values


def hidden_states(
  size: EncoderSize,
  shared_weights: classifiers.Weights,
  embedded: tf.Tensor,
  mask: tf.Tensor,
  drop: Dropout | None = None,
) -> tf.Tensor:
  """Runs the layers of an encoder.

  Args:
    size: Its shape.
    shared_weights: Its weights after the table; those after the last layer do not count.
    embedded: Float tensor [batch, time, width].
    mask: Which of them are words, booleans [batch, time].
    drop: Drops units; by default none.

  Returns:
    The last layer's output [batch, time, width].
  """
  drop = drop or Dropout(0.0, None)
  weights = iter(shared_weights)

  def dense(units: tf.Tensor) -> tf.Tensor:
    return transformer_parts.dense(units, weights)

  def normalize(units: tf.Tensor) -> tf.Tensor:
    return transformer_parts.normalize(units, weights, EPSILON)

  is_padding = (1.0 - tf.cast(mask, tf.float32))[:, tf.newaxis, tf.newaxis]
  unseen = transformer_parts.MASKED * is_padding
  hidden = drop(normalize(embedded + next(weights)[: tf.shape(embedded)[1]]))
  for _ in range(size.num_layers):
    queries, keys, values = transformer_parts.split_heads(dense(hidden), size.num_heads)
    mixed = transformer_parts.attend(queries, keys, values, unseen, drop)
    hidden = normalize(hidden + drop(dense(transformer_parts.join_heads(mixed))))
    hidden = normalize(hidden + drop(dense(tf.nn.gelu(dense(hidden)))))
  return hidden
