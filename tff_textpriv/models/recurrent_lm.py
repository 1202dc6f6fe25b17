"""The LSTM and GRU language models."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from tff_textpriv.models import initializers, interface, recurrent
from tff_textpriv.models.dropout import Dropout

State = tuple[Any, ...]


class _Cell(NamedTuple):
  """What sets one kind of recurrent layer apart from another.

  Attributes:
    run: Runs a layer: inputs, its three weights and its state to outputs and the state.
    draw: Draws the three weights, given a generator, the width of inputs and the units.
    keras: The Keras layer.
    first_state: The state before the first token, given zeros [batch, units].
    bias_shape: The shape of the bias of a layer of one unit.
  """

  run: Callable[..., tuple[tf.Tensor, Any]]
  draw: Callable[[np.random.Generator, int, int], list[np.ndarray]]
  keras: type[tf.keras.layers.Layer]
  first_state: Callable[[tf.Tensor], Any]
  bias_shape: tuple[int, ...]


_LSTM = _Cell(
  recurrent.lstm,
  initializers.lstm,
  tf.keras.layers.LSTM,
  lambda zeros: (zeros, zeros),
  (4,),
)
_GRU = _Cell(
  recurrent.gru, initializers.gru, tf.keras.layers.GRU, lambda zeros: zeros, (2, 3)
)


@dataclasses.dataclass(frozen=True)
class RecurrentLanguageModel(interface.LanguageModel):
  """A next-token model: embedding, recurrent layers, projection, softmax.

  Weights, in order: embedding [vocab, embedding]; per layer the kernel,
  recurrent kernel and bias of the Keras layer; the projection [hidden, embedding]
  and its bias, where hidden and embedding sizes differ; untied, the output
  kernel [embedding, vocab]; the output bias [vocab].

  Dropout is that of Zaremba et al. (2014): before, between and after the layers,
  never on the way from one step to the next.
  """

  carries_state = True

  embedding_size: int
  hidden_size: int
  num_layers: int
  _cell: ClassVar[_Cell]

  @property
  def weight_shapes(self) -> list[tuple[int, ...]]:
    """The shapes of the weights, in order."""
    shapes: list[tuple[int, ...]] = [(self.vocab_size, self.embedding_size)]
    units = self.hidden_size
    *biases, num_gates = self._cell.bias_shape
    gates = num_gates * units
    for width in self._layer_widths:
      shapes += [(width, gates), (units, gates), (*biases, gates)]
    if self._has_projection:
      shapes += [(units, self.embedding_size), (self.embedding_size,)]
    if not self.tied:
      shapes.append((self.embedding_size, self.vocab_size))
    return [*shapes, (self.vocab_size,)]

  def initial_weights(self, seed: int) -> list[np.ndarray]:
    """Draws initial weights; a function of the seed."""
    rng, by_token = interface.generators(seed)
    weights = [initializers.embedding(by_token, self.vocab_size, self.embedding_size)]
    for width in self._layer_widths:
      weights += self._cell.draw(rng, width, self.hidden_size)
    if self._has_projection:
      weights += initializers.dense(rng, self.hidden_size, self.embedding_size)
    weights += initializers.dense(by_token, self.embedding_size, self.vocab_size)
    return interface.tie(self, weights)

  def initial_state(
    self, batch_size: int | tf.Tensor, max_length: int | tf.Tensor = 0
  ) -> State:
    """Returns the state before the first token: zeros [batch, hidden]."""
    del max_length  # The state has one size, however much was read.
    zeros = tf.zeros([batch_size, self.hidden_size])
    return (self._cell.first_state(zeros),) * self.num_layers

  def step(
    self, weights: interface.Weights, tokens: tf.Tensor, state: State
  ) -> tuple[tf.Tensor, State]:
    """Reads tokens on from a state; see `LanguageModel.step`."""
    hidden, state = self._read(weights, tokens, state, Dropout(self.dropout, None))
    return self.score(weights, hidden), state

  def hidden(
    self,
    weights: interface.Weights,
    tokens: tf.Tensor,
    dropout_seed: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Returns what the output layer reads; see `LanguageModel.hidden`."""
    state = self.initial_state(tf.shape(tokens)[0])
    return self._read(weights, tokens, state, Dropout(self.dropout, dropout_seed))[0]

  def to_keras(self, weights: interface.Weights | None = None) -> tf.keras.Model:
    """Builds the Keras twin; see `LanguageModel.to_keras`."""
    layers = tf.keras.layers
    tokens = tf.keras.Input([None], dtype=tf.int32, name='tokens')
    hidden = layers.Embedding(self.vocab_size, self.embedding_size)(tokens)
    hidden = layers.Dropout(self.dropout)(hidden)
    for _ in range(self.num_layers):
      hidden = self._cell.keras(self.hidden_size, return_sequences=True)(hidden)
      hidden = layers.Dropout(self.dropout)(hidden)
    if self._has_projection:
      hidden = layers.Dense(self.embedding_size)(hidden)
    logits = layers.Dense(self.vocab_size, name='logits')(hidden)
    model = tf.keras.Model(tokens, logits)
    if weights is not None:
      model.set_weights(interface.untie(self, weights))
    return model

  def from_keras(self, twin: tf.keras.Model) -> list[np.ndarray]:
    """Reads the weights of a Keras twin; the inverse of `to_keras`."""
    return interface.tie(self, twin.get_weights())

  def _read(
    self,
    weights: interface.Weights,
    tokens: tf.Tensor,
    state: State,
    dropout: Dropout,
  ) -> tuple[tf.Tensor, State]:
    """Reads tokens on from a state; returns what the output layer reads, and it."""
    embedding, *remaining = weights
    # Time-major, as the layers are; turned round here and where it is least.
    hidden = dropout(tf.gather(embedding, tf.transpose(tokens)))
    new_state = []
    for layer_state in state:
      layer, remaining = remaining[:3], remaining[3:]
      hidden, layer_state = self._cell.run(hidden, *layer, layer_state)
      hidden = dropout(hidden)
      new_state.append(layer_state)
    if self._has_projection:
      kernel, bias, *_ = remaining
      hidden = tf.tensordot(hidden, kernel, 1) + bias
    return tf.transpose(hidden, [1, 0, 2]), tuple(new_state)

  @property
  def _layer_widths(self) -> list[int]:
    """What each layer reads."""
    return [self.embedding_size, *[self.hidden_size] * (self.num_layers - 1)]

  @property
  def _has_projection(self) -> bool:
    return self.hidden_size != self.embedding_size


@dataclasses.dataclass(frozen=True)
class LstmLanguageModel(RecurrentLanguageModel):
  """A next-token model of LSTM layers, each with a state (h, c)."""

  _cell = _LSTM


@dataclasses.dataclass(frozen=True)
class GruLanguageModel(RecurrentLanguageModel):
  """A next-token model of GRU layers, each with a state h."""

  _cell = _GRU
