"""What recurrent language models have in common, whatever their cell is."""

import abc
import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tff_textpriv.models import initializers, interface
from tff_textpriv.models.dropout import Dropout

State = tuple[Any, ...]


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

  embedding_size: int
  hidden_size: int
  num_layers: int

  @abc.abstractmethod
  def _layer_shapes(self, width: int) -> list[tuple[int, ...]]:
    """Returns the shapes of the three weights of a layer that reads `width` units."""

  @abc.abstractmethod
  def _initial_layer(self, rng: np.random.Generator, width: int) -> list[np.ndarray]:
    """Draws the three weights of a layer that reads `width` units."""

  @abc.abstractmethod
  def _initial_layer_state(self, zeros: tf.Tensor) -> Any:
    """Returns a layer's state before the first token, given zeros [batch, hidden]."""

  @abc.abstractmethod
  def _run_layer(
    self, inputs: tf.Tensor, weights: interface.Weights, state: Any
  ) -> tuple[tf.Tensor, Any]:
    """Returns the outputs [batch, time, hidden] of a layer, and its state."""

  @abc.abstractmethod
  def _keras_layer(self) -> tf.keras.layers.Layer:
    """Returns the Keras layer, which returns its output at every step."""

  @property
  def weight_shapes(self) -> list[tuple[int, ...]]:
    """The shapes of the weights, in order."""
    shapes: list[tuple[int, ...]] = [(self.vocab_size, self.embedding_size)]
    for width in self._layer_widths:
      shapes += self._layer_shapes(width)
    if self._has_projection:
      shapes += [(self.hidden_size, self.embedding_size), (self.embedding_size,)]
    if not self.tied:
      shapes.append((self.embedding_size, self.vocab_size))
    return [*shapes, (self.vocab_size,)]

  def initial_weights(self, seed: int) -> list[np.ndarray]:
    """Draws initial weights; a function of the seed."""
    rng = np.random.default_rng(seed)
    weights = [initializers.embedding(rng, self.vocab_size, self.embedding_size)]
    for width in self._layer_widths:
      weights += self._initial_layer(rng, width)
    if self._has_projection:
      weights += initializers.dense(rng, self.hidden_size, self.embedding_size)
    output_kernel, output_bias = initializers.dense(
      rng, self.embedding_size, self.vocab_size
    )
    return (
      [*weights, output_bias] if self.tied else [*weights, output_kernel, output_bias]
    )

  def initial_state(
    self, batch_size: int | tf.Tensor, max_length: int | tf.Tensor = 0
  ) -> State:
    """Returns the state before the first token: zeros [batch, hidden]."""
    del max_length  # The state has one size, however much was read.
    zeros = tf.zeros([batch_size, self.hidden_size])
    return (self._initial_layer_state(zeros),) * self.num_layers

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
      hidden = layers.Dropout(self.dropout)(self._keras_layer()(hidden))
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
    hidden = dropout(tf.gather(embedding, tokens))
    new_state = []
    for layer_state in state:
      layer, remaining = remaining[:3], remaining[3:]
      hidden, layer_state = self._run_layer(hidden, layer, layer_state)
      hidden = dropout(hidden)
      new_state.append(layer_state)
    if self._has_projection:
      kernel, bias, *_ = remaining
      hidden = tf.tensordot(hidden, kernel, 1) + bias
    return hidden, tuple(new_state)

  @property
  def _layer_widths(self) -> list[int]:
    """What each layer reads."""
    return [self.embedding_size, *[self.hidden_size] * (self.num_layers - 1)]

  @property
  def _has_projection(self) -> bool:
    return self.hidden_size != self.embedding_size
