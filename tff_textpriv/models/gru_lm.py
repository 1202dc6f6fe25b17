"""The GRU language model."""

import dataclasses

import numpy as np
import tensorflow as tf

from tff_textpriv.models import initializers, interface, recurrent, recurrent_lm


@dataclasses.dataclass(frozen=True)
class GruLanguageModel(recurrent_lm.RecurrentLanguageModel):
  """A next-token model of GRU layers, each with a state h."""

  def _layer_shapes(self, width: int) -> list[tuple[int, ...]]:
    gates = 3 * self.hidden_size
    return [(width, gates), (self.hidden_size, gates), (2, gates)]

  def _initial_layer(self, rng: np.random.Generator, width: int) -> list[np.ndarray]:
    return initializers.gru(rng, width, self.hidden_size)

  def _initial_layer_state(self, zeros: tf.Tensor) -> tf.Tensor:
    return zeros

  def _run_layer(
    self, inputs: tf.Tensor, weights: interface.Weights, state: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    kernel, recurrent_kernel, bias = weights
    return recurrent.gru(inputs, kernel, recurrent_kernel, bias, state)

  def _keras_layer(self) -> tf.keras.layers.Layer:
    return tf.keras.layers.GRU(self.hidden_size, return_sequences=True)
