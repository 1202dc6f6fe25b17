"""The transformer language model."""

import dataclasses
import itertools
import math

import numpy as np
import tensorflow as tf

from tff_textpriv.models import initializers, interface, transformer_parts
from tff_textpriv.models.dropout import Dropout

_EPSILON = 1e-5
_LONGEST_WAVE = 10_000.0
_LAYER_WEIGHTS = 12

# The keys and the values of every token read so far, per layer, each
# [batch, heads, max_length, head size], and the number of tokens read, int32 [batch].
State = tuple[tuple[tuple[tf.Tensor, tf.Tensor], ...], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class TransformerLanguageModel(interface.LanguageModel):
  """A causal next-token transformer with normalisation before each sub-layer.

  Positions are sinusoidal: they cost no parameters, and so no noise, and texts
  may be longer than those of training. The embedding is scaled to their size.

  Weights, in order: embedding [vocab, width]; per layer scale and shift of the
  first normalisation, attention kernel [width, 3 * width] for queries, keys and
  values with its bias, output kernel [width, width] and bias, scale and shift of
  the second normalisation, the feed-forward kernels [width, feed_forward] and
  [feed_forward, width], each with its bias; scale and shift of the last
  normalisation; untied, the output kernel [width, vocab]; the output bias [vocab].
  """

  width: int
  feed_forward_size: int
  num_heads: int
  num_layers: int

  @property
  def weight_shapes(self) -> list[tuple[int, ...]]:
    """The shapes of the weights, in order."""
    width, inner = self.width, self.feed_forward_size
    norm = [(width,), (width,)]
    layer = [
      *norm,
      *[(width, 3 * width), (3 * width,), (width, width), (width,)],
      *norm,
      *[(width, inner), (inner,), (inner, width), (width,)],
    ]
    output = [] if self.tied else [(width, self.vocab_size)]
    return [
      (self.vocab_size, width),
      *layer * self.num_layers,
      *norm,
      *output,
      (self.vocab_size,),
    ]

  def initial_weights(self, seed: int) -> list[np.ndarray]:
    """Draws initial weights; a function of the seed."""
    rng, by_token = interface.generators(seed)
    width, inner = self.width, self.feed_forward_size
    weights = [initializers.embedding(by_token, self.vocab_size, width)]
    for _ in range(self.num_layers):
      queries_keys_values = [
        initializers.glorot_uniform(rng, width, width) for _ in range(3)
      ]
      weights += [
        *initializers.normalization(width),
        np.concatenate(queries_keys_values, axis=1),
        np.zeros(3 * width, np.float32),
        *initializers.dense(rng, width, width),
        *initializers.normalization(width),
        *initializers.dense(rng, width, inner),
        *initializers.dense(rng, inner, width),
      ]
    weights += initializers.normalization(width)
    weights += initializers.dense(by_token, width, self.vocab_size)
    return interface.tie(self, weights)

  def initial_state(
    self, batch_size: int | tf.Tensor, max_length: int | tf.Tensor
  ) -> State:
    """Returns the state before the first token: empty room for `max_length`."""
    zeros = tf.zeros([batch_size, self.num_heads, max_length, self._head_size])
    return ((zeros, zeros),) * self.num_layers, tf.zeros([batch_size], tf.int32)

  def step(
    self, weights: interface.Weights, tokens: tf.Tensor, state: State
  ) -> tuple[tf.Tensor, State]:
    """Reads tokens on from a state; see `LanguageModel.step`.

    Reading more tokens than the state has room for is an error of TensorFlow's
    scatter.
    """
    caches, num_read = state
    batch_size, time = tf.unstack(tf.shape(tokens))
    positions = num_read[:, tf.newaxis] + tf.range(time)
    # Where the new keys and values go: row, head and position of each.
    places = [
      tf.range(batch_size)[:, tf.newaxis, tf.newaxis],
      tf.range(self.num_heads)[:, tf.newaxis],
      positions[:, tf.newaxis],
    ]
    shape = [batch_size, self.num_heads, time]
    places = tf.stack([tf.broadcast_to(index, shape) for index in places], axis=3)
    # The room that no row has reached yet need not be looked at.
    reach = tf.reduce_max(num_read) + time
    mask = _causal_mask(positions, reach)[:, tf.newaxis]
    new_caches = []

    def attend(layer, queries, keys, values):
      keys, values = (
        tf.tensor_scatter_nd_update(cache, places, new)
        for cache, new in zip(caches[layer], (keys, values), strict=True)
      )
      new_caches.append((keys, values))
      keys, values = keys[:, :, :reach], values[:, :, :reach]
      return transformer_parts.attend(queries, keys, values, mask)

    hidden = self._run(weights, tokens, positions, attend, Dropout(0.0, None))
    return self.score(weights, hidden), (tuple(new_caches), num_read + time)

  def hidden(
    self,
    weights: interface.Weights,
    tokens: tf.Tensor,
    dropout_seed: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Returns what the output layer reads; see `LanguageModel.hidden`."""
    positions = tf.range(tf.shape(tokens)[1])
    mask = _causal_mask(positions, tf.shape(tokens)[1])

    def attend(layer, queries, keys, values):
      del layer  # There is no cache.
      return transformer_parts.attend(queries, keys, values, mask)

    dropout = Dropout(self.dropout, dropout_seed)
    return self._run(weights, tokens, positions, attend, dropout)

  def to_keras(self, weights: interface.Weights | None = None) -> tf.keras.Model:
    """Builds the Keras twin; see `LanguageModel.to_keras`."""
    layers = tf.keras.layers
    tokens = tf.keras.Input([None], dtype=tf.int32, name='tokens')
    embedded = layers.Embedding(self.vocab_size, self.width)(tokens)
    positions = tf.cumsum(tf.ones_like(tokens), axis=1, exclusive=True)
    # A fixed layer rather than a constant, which Keras could not save.
    angles = layers.Dense(
      self.width // 2, use_bias=False, trainable=False, name='wave_numbers'
    )(tf.cast(positions, tf.float32)[:, :, tf.newaxis])
    hidden = layers.Add()(
      [
        layers.Rescaling(math.sqrt(self.width))(embedded),
        layers.Concatenate()([tf.sin(angles), tf.cos(angles)]),
      ]
    )
    hidden = layers.Dropout(self.dropout)(hidden)
    for _ in range(self.num_layers):
      normal = layers.LayerNormalization(epsilon=_EPSILON)(hidden)
      attended = layers.MultiHeadAttention(self.num_heads, self._head_size)(
        normal, normal, use_causal_mask=True
      )
      hidden = layers.Add()([hidden, layers.Dropout(self.dropout)(attended)])
      normal = layers.LayerNormalization(epsilon=_EPSILON)(hidden)
      inner = layers.Dense(self.feed_forward_size, activation='gelu')(normal)
      inner = layers.Dropout(self.dropout)(layers.Dense(self.width)(inner))
      hidden = layers.Add()([hidden, inner])
    hidden = layers.LayerNormalization(epsilon=_EPSILON)(hidden)
    logits = layers.Dense(self.vocab_size, name='logits')(hidden)
    model = tf.keras.Model(tokens, logits)
    model.get_layer('wave_numbers').set_weights([self._wave_numbers[np.newaxis]])
    if weights is not None:
      values = self.keras_weights(weights)
      for variable, value in zip(model.trainable_variables, values, strict=True):
        variable.assign(value)
    return model

  def keras_weights(self, weights: interface.Weights) -> list[np.ndarray]:
    """Returns the weights as the twin's trainable ones: one matrix a head and use."""
    embedding, *values = interface.untie(self, weights)
    kept = [embedding]
    heads = self.num_heads
    for _ in range(self.num_layers):
      layer, values = values[:_LAYER_WEIGHTS], values[_LAYER_WEIGHTS:]
      scale, shift, kernel, bias, output_kernel, *rest = layer
      kept += [scale, shift, *transformer_parts.heads_to_keras(kernel, bias, heads)]
      kept += [output_kernel.reshape(heads, -1, self.width), *rest]
    return kept + values

  def from_keras(self, twin: tf.keras.Model) -> list[np.ndarray]:
    """Reads the weights of a Keras twin; the inverse of `to_keras`."""
    values = iter([variable.numpy() for variable in twin.trainable_variables])

    def take(number: int) -> list[np.ndarray]:
      return list(itertools.islice(values, number))

    weights = take(1)
    for _ in range(self.num_layers):
      weights += take(2)
      weights += transformer_parts.heads_from_keras(take(6))
      weights.append(next(values).reshape(self.width, self.width))
      weights += take(_LAYER_WEIGHTS - 5)
    return interface.tie(self, [*weights, *values])

  def _run(self, weights, tokens, positions, attend, dropout):
    """Runs all layers.

    Args:
      weights: The weights, in order.
      tokens: Integer tensor [batch, time].
      positions: Their places in the text, [time] or [batch, time].
      attend: Joins positions: takes the layer's number and its queries, keys
        and values, each [batch, heads, time, head size], and returns their shape.
      dropout: Drops units of the embedding and of what each sub-layer adds.

    Returns:
      What the output layer reads [batch, time, width].
    """
    remaining = iter(weights)

    def dense(units: tf.Tensor) -> tf.Tensor:
      return transformer_parts.dense(units, remaining)

    def normalize(units: tf.Tensor) -> tf.Tensor:
      return transformer_parts.normalize(units, remaining, _EPSILON)

    embedding = next(remaining)
    hidden = tf.gather(embedding, tokens) * math.sqrt(self.width)
    hidden = dropout(hidden + self._waves(positions))
    for layer in range(self.num_layers):
      projected = dense(normalize(hidden))
      attended = attend(
        layer, *transformer_parts.split_heads(projected, self.num_heads)
      )
      hidden += dropout(dense(transformer_parts.join_heads(attended)))
      hidden += dropout(dense(tf.nn.gelu(dense(normalize(hidden)))))
    return normalize(hidden)

  def _waves(self, positions: tf.Tensor) -> tf.Tensor:
    """Encodes positions of any shape as sines and cosines [..., width]."""
    angles = tf.cast(positions, tf.float32)[..., tf.newaxis] * self._wave_numbers
    return tf.concat([tf.sin(angles), tf.cos(angles)], axis=-1)

  @property
  def _wave_numbers(self) -> np.ndarray:
    exponents = np.arange(self.width // 2) / (self.width // 2)
    return (_LONGEST_WAVE**-exponents).astype(np.float32)

  @property
  def _head_size(self) -> int:
    return self.width // self.num_heads


def _causal_mask(positions, num_keys):
  """What to add to attention scores: [..., num_keys], 0 up to the own position."""
  is_later = tf.range(num_keys) > positions[..., tf.newaxis]
  return transformer_parts.MASKED * tf.cast(is_later, tf.float32)
