"""Language models as pure functions of their weights, with plain Keras twins.

A functional model keeps TFF's client loop free of variables, which makes it
several times faster than a wrapped Keras model. The Keras twin is what a run
exports; its weights are ours, in the same order.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tff_textpriv.models import initializers, recurrent
from tff_textpriv.text import tokenizers

Weights = Sequence[np.ndarray | tf.Tensor]
State = tuple[tuple[tf.Tensor, tf.Tensor], ...]


@dataclasses.dataclass(frozen=True)
class LstmLanguageModel:
  """An LSTM next-token model: embedding, LSTM layers, projection, softmax.

  Weights, in order: embedding [vocab, embedding]; per layer the kernel,
  recurrent kernel and bias of a Keras LSTM; the projection [hidden, embedding]
  and its bias, where hidden and embedding sizes differ; untied, the output
  kernel [embedding, vocab]; the output bias [vocab]. Tied, the output kernel is
  the transposed embedding.
  """

  vocab_size: int
  embedding_size: int
  hidden_size: int
  num_layers: int
  tied: bool

  @property
  def num_parameters(self) -> int:
    """The number of trained numbers."""
    return sum(int(np.prod(shape)) for shape in self.weight_shapes)

  @property
  def weight_shapes(self) -> list[tuple[int, ...]]:
    """The shapes of the weights, in order."""
    shapes: list[tuple[int, ...]] = [(self.vocab_size, self.embedding_size)]
    width = self.embedding_size
    for _ in range(self.num_layers):
      shapes += [
        (width, 4 * self.hidden_size),
        (self.hidden_size, 4 * self.hidden_size),
        (4 * self.hidden_size,),
      ]
      width = self.hidden_size
    if self._has_projection:
      shapes += [(width, self.embedding_size), (self.embedding_size,)]
    if not self.tied:
      shapes.append((self.embedding_size, self.vocab_size))
    return [*shapes, (self.vocab_size,)]

  @property
  def vocabulary_axes(self) -> dict[int, int]:
    """Which weights have one slice per token: weight index to axis."""
    last = len(self.weight_shapes) - 1
    axes = {0: 0, last: 0}
    if not self.tied:
      axes[last - 1] = 1
    return axes

  def initial_weights(self, seed: int) -> list[np.ndarray]:
    """Draws initial weights; a function of the seed."""
    rng = np.random.default_rng(seed)
    weights = [initializers.embedding(rng, self.vocab_size, self.embedding_size)]
    width = self.embedding_size
    for _ in range(self.num_layers):
      weights += initializers.lstm(rng, width, self.hidden_size)
      width = self.hidden_size
    if self._has_projection:
      weights += initializers.dense(rng, width, self.embedding_size)
    output_kernel, output_bias = initializers.dense(
      rng, self.embedding_size, self.vocab_size
    )
    return (
      [*weights, output_bias] if self.tied else [*weights, output_kernel, output_bias]
    )

  def initial_state(self, batch_size: int | tf.Tensor) -> State:
    """Returns the state before the first token: zeros [batch, hidden]."""
    zeros = tf.zeros([batch_size, self.hidden_size])
    return ((zeros, zeros),) * self.num_layers

  def step(
    self, weights: Weights, tokens: tf.Tensor, state: State
  ) -> tuple[tf.Tensor, State]:
    """Reads tokens on from a state.

    Args:
      weights: The weights, in order.
      tokens: Integer tensor [batch, time].
      state: The state after the tokens before these.

    Returns:
      Logits [batch, time, vocab] of each position's next token, and the state.
    """
    remaining = iter(weights)
    embedding = next(remaining)
    hidden = tf.gather(embedding, tokens)
    new_state = []
    for layer_state in state:
      kernel, recurrent_kernel, bias = (next(remaining) for _ in range(3))
      hidden, layer_state = recurrent.lstm(
        hidden, kernel, recurrent_kernel, bias, layer_state
      )
      new_state.append(layer_state)
    if self._has_projection:
      hidden = tf.tensordot(hidden, next(remaining), 1) + next(remaining)
    if self.tied:
      logits = tf.einsum('bte,ve->btv', hidden, embedding)
    else:
      logits = tf.tensordot(hidden, next(remaining), 1)
    return logits + next(remaining), tuple(new_state)

  def logits(self, weights: Weights, tokens: tf.Tensor) -> tf.Tensor:
    """Returns the logits [batch, time, vocab] of each position's next token."""
    return self.step(weights, tokens, self.initial_state(tf.shape(tokens)[0]))[0]

  def to_keras(self, weights: Weights | None = None) -> tf.keras.Model:
    """Builds the Keras twin: token ids [batch, time] to logits.

    Args:
      weights: Weights to load; tied ones are written out as an output kernel.

    Returns:
      A model of standard Keras layers only.
    """
    tokens = tf.keras.Input([None], dtype=tf.int32, name='tokens')
    hidden = tf.keras.layers.Embedding(self.vocab_size, self.embedding_size)(tokens)
    for _ in range(self.num_layers):
      hidden = tf.keras.layers.LSTM(self.hidden_size, return_sequences=True)(hidden)
    if self._has_projection:
      hidden = tf.keras.layers.Dense(self.embedding_size)(hidden)
    logits = tf.keras.layers.Dense(self.vocab_size, name='logits')(hidden)
    model = tf.keras.Model(tokens, logits)
    if weights is not None:
      values = [np.asarray(weight) for weight in weights]
      if self.tied:
        values.insert(len(values) - 1, values[0].T)
      model.set_weights(values)
    return model

  @property
  def _has_projection(self) -> bool:
    return self.hidden_size != self.embedding_size


def next_token_loss(logits: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
  """Mean negative log-likelihood of the targets that are not padding.

  Args:
    logits: Float tensor [batch, time, vocab].
    targets: Integer tensor [batch, time].

  Returns:
    A scalar; 0 where every target is padding.
  """
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
  mask = token_mask(targets)
  return tf.math.divide_no_nan(tf.reduce_sum(losses * mask), tf.reduce_sum(mask))


def trim(tokens: tf.Tensor) -> tf.Tensor:
  """Cuts a batch to its longest row and drops empty rows.

  Args:
    tokens: Integer tensor [batch, time]; rows are padded at the end, and rows of
      padding alone come last.

  Returns:
    The upper left part that holds all tokens.
  """
  lengths = tf.reduce_sum(tf.cast(token_mask(tokens), tf.int32), axis=1)
  num_rows = tf.reduce_sum(tf.cast(lengths > 0, tf.int32))
  return tokens[:num_rows, : tf.reduce_max(lengths)]


def token_mask(targets: tf.Tensor) -> tf.Tensor:
  """Returns 1.0 for every target that is a token and 0.0 for padding."""
  # `!=` compares identities, not values, while TFF builds a graph.
  return tf.cast(tf.not_equal(targets, tokenizers.PAD_ID), tf.float32)


@dataclasses.dataclass(frozen=True)
class _LstmSize:
  """The widths of a preset; the tied and untied ones have about the same size."""

  tied: tuple[int, int]
  untied: tuple[int, int]
  num_layers: int


# (embedding, hidden). `paper` has 14M parameters at 10,000 tokens, tied or not.
_LSTM_SIZES = {
  'lstm_tiny': _LstmSize(tied=(64, 128), untied=(64, 128), num_layers=1),
  'lstm_small': _LstmSize(tied=(96, 670), untied=(96, 670), num_layers=1),
  'lstm_paper': _LstmSize(tied=(584, 584), untied=(448, 448), num_layers=3),
}


def build(preset: str, vocab_size: int, tied: bool) -> LstmLanguageModel:
  """Makes the language model of a preset's name for a vocabulary's size."""
  size = _LSTM_SIZES[preset]
  embedding_size, hidden_size = size.tied if tied else size.untied
  return LstmLanguageModel(
    vocab_size=vocab_size,
    embedding_size=embedding_size,
    hidden_size=hidden_size,
    num_layers=size.num_layers,
    tied=tied,
  )
