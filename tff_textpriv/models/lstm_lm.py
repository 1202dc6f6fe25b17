"""The LSTM language model."""

import dataclasses

import numpy as np
import tensorflow as tf

from tff_textpriv.models import initializers, interface, recurrent, recurrent_lm

_LayerState = tuple[tf.Tensor, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class LstmLanguageModel(recurrent_lm.RecurrentLanguageModel):
  """A next-token model of LSTM layers, each with a state (h, c)."""

  def _layer_shapes(self, width: int) -> list[tuple[int, ...]]:
    gates = 4 * self.hidden_size
    return [(width, gates), (self.hidden_size, gates), (gates,)]

  def _initial_layer(self, rng: np.random.Generator, width: int) -> list[np.ndarray]:
    return initializers.lstm(rng, width, self.hidden_size)

  def _initial_layer_state(self, zeros: tf.Tensor) -> _LayerState:
    return zeros, zeros

  def _run_layer(
    self, inputs: tf.Tensor, weights: interface.Weights, state: _LayerState
  ) -> tuple[tf.Tensor, _LayerState]:
    kernel, recurrent_kernel, bias = weights
    return recurrent.lstm(inputs, kernel, recurrent_kernel, bias, state)

  def _keras_layer(self) -> tf.keras.layers.Layer:
    return tf.keras.layers.LSTM(self.hidden_size, return_sequences=True)
