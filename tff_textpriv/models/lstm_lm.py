"""The LSTM language model."""

import dataclasses

import numpy as np
import tensorflow as tf

from tff_textpriv.models import initializers, interface, recurrent

State = tuple[tuple[tf.Tensor, tf.Tensor], ...]


@dataclasses.dataclass(frozen=True)
class LstmLanguageModel(interface.LanguageModel):
  """An LSTM next-token model: embedding, LSTM layers, projection, softmax.

  Weights, in order: embedding [vocab, embedding]; per layer the kernel,
  recurrent kernel and bias of a Keras LSTM; the projection [hidden, embedding]
  and its bias, where hidden and embedding sizes differ; untied, the output
  kernel [embedding, vocab]; the output bias [vocab].
  """

  embedding_size: int
  hidden_size: int
  num_layers: int

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

  def initial_state(
    self, batch_size: int | tf.Tensor, max_length: int | tf.Tensor = 0
  ) -> State:
    """Returns the state before the first token: zeros [batch, hidden]."""
    del max_length  # The state has one size, however much was read.
    zeros = tf.zeros([batch_size, self.hidden_size])
    return ((zeros, zeros),) * self.num_layers

  def step(
    self, weights: interface.Weights, tokens: tf.Tensor, state: State
  ) -> tuple[tf.Tensor, State]:
    """Reads tokens on from a state; see `LanguageModel.step`."""
    embedding, *remaining = weights
    hidden = tf.gather(embedding, tokens)
    new_state = []
    for layer_state in state:
      kernel, recurrent_kernel, bias, *remaining = remaining
      hidden, layer_state = recurrent.lstm(
        hidden, kernel, recurrent_kernel, bias, layer_state
      )
      new_state.append(layer_state)
    if self._has_projection:
      kernel, bias, *remaining = remaining
      hidden = tf.tensordot(hidden, kernel, 1) + bias
    return interface.output_logits(hidden, embedding, remaining), tuple(new_state)

  def logits(self, weights: interface.Weights, tokens: tf.Tensor) -> tf.Tensor:
    """Returns the logits [batch, time, vocab] of each position's next token."""
    return self.step(weights, tokens, self.initial_state(tf.shape(tokens)[0]))[0]

  def to_keras(self, weights: interface.Weights | None = None) -> tf.keras.Model:
    """Builds the Keras twin; see `LanguageModel.to_keras`."""
    tokens = tf.keras.Input([None], dtype=tf.int32, name='tokens')
    hidden = tf.keras.layers.Embedding(self.vocab_size, self.embedding_size)(tokens)
    for _ in range(self.num_layers):
      hidden = tf.keras.layers.LSTM(self.hidden_size, return_sequences=True)(hidden)
    if self._has_projection:
      hidden = tf.keras.layers.Dense(self.embedding_size)(hidden)
    logits = tf.keras.layers.Dense(self.vocab_size, name='logits')(hidden)
    model = tf.keras.Model(tokens, logits)
    if weights is not None:
      model.set_weights(interface.untie(self, weights))
    return model

  @property
  def _has_projection(self) -> bool:
    return self.hidden_size != self.embedding_size
