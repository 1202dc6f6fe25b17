"""Fast recurrent layers that are ordinary Keras layers.

    model = tf.keras.Sequential([
      tf.keras.layers.Embedding(1000, 64, mask_zero=True),
      tf.keras.layers.Bidirectional(recurrent_layers.FastLSTM(128)),
      tf.keras.layers.Dense(4),
    ])

They have the arguments, weights and results of `tf.keras.layers.LSTM` and `GRU`, and
train about twice as fast on a CPU (see `recurrent`). `plain_keras` turns a model
into one of Keras's own layers, which loads where this package is not installed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tff_textpriv.models import recurrent

# The options that the fast recurrence does not have, with the values it stands for.
_FIXED_OPTIONS = {
  'activation': 'tanh',
  'recurrent_activation': 'sigmoid',
  'use_bias': True,
  'dropout': 0.0,
  'recurrent_dropout': 0.0,
  'stateful': False,
  'unroll': False,
  'time_major': False,
  'reset_after': True,  # A GRU's only.
}


class _Fast(tf.keras.layers.RNN):
  """A recurrent layer of Keras's with a recurrence, and its gradient, of `recurrent`."""

  _run: Callable[..., tuple[tf.Tensor, Any]]

  def __init__(self, units: int, **options: Any):
    """Makes the layer; options are those of the layer of `tf.keras`."""
    super().__init__(units, **options)
    _check_options(self)

  def call(self, inputs, mask=None, training=None, initial_state=None):
    """Runs the layer; see that of `tf.keras`."""
    del training  # There is no dropout.
    inputs, mask = _in_reading_order(self, inputs, mask)
    if initial_state is not None:
      # A state of one part is that part itself, and Keras may put it into a list.
      parts = tf.nest.flatten(initial_state)
      initial_state = tuple(parts) if len(parts) > 1 else parts[0]
    cell = self.cell
    outputs, state = self._run(
      tf.transpose(inputs, [1, 0, 2]),
      cell.kernel,
      cell.recurrent_kernel,
      cell.bias,
      initial_state,
      None if mask is None else tf.transpose(mask),
    )
    outputs = tf.transpose(outputs, [1, 0, 2])
    return _chosen_outputs(self, outputs, tf.nest.flatten(state))


class FastLSTM(_Fast, tf.keras.layers.LSTM):
  """`tf.keras.layers.LSTM` with the gradient of `recurrent.lstm`."""

  _run = staticmethod(recurrent.lstm)


class FastGRU(_Fast, tf.keras.layers.GRU):
  """`tf.keras.layers.GRU` with the gradient of `recurrent.gru`."""

  _run = staticmethod(recurrent.gru)


def _check_options(layer: tf.keras.layers.RNN) -> None:
  """Raises `ValueError` for an option that the fast recurrence does not have."""
  config = layer.get_config()
  for option, value in _FIXED_OPTIONS.items():
    if config.get(option, value) != value:
      raise ValueError(
        f'{type(layer).__name__} has {option}={value!r} only, not '
        f'{config[option]!r}; use the layer of tf.keras'
      )


def _in_reading_order(layer: tf.keras.layers.RNN, inputs: Any, mask: Any) -> Any:
  """Turns inputs and mask round in time if the layer goes backwards."""
  if isinstance(mask, (list, tuple)):
    # With a carried state, Keras gives a mask for each of its parts too.
    mask = mask[0]
  if not layer.go_backwards:
    return inputs, mask
  return tf.reverse(inputs, [1]), None if mask is None else tf.reverse(mask, [1])


def _chosen_outputs(
  layer: tf.keras.layers.RNN, outputs: tf.Tensor, state: Sequence[tf.Tensor]
) -> Any:
  """Returns what the layer's `return_sequences` and `return_state` ask for."""
  result = outputs if layer.return_sequences else state[0]
  return [result, *state] if layer.return_state else result


_PLAIN = {FastLSTM: tf.keras.layers.LSTM, FastGRU: tf.keras.layers.GRU}


def plain_keras(model: tf.keras.Model) -> tf.keras.Model:
  """Copies a model, its weights too, with Keras's own recurrent layers.

  Args:
    model: A functional or sequential model, built.

  Returns:
    A model with the same outputs that needs nothing but Keras.
  """

  def plain(layer: tf.keras.layers.Layer) -> tf.keras.layers.Layer:
    if type(layer) in _PLAIN:
      return _PLAIN[type(layer)].from_config(layer.get_config())
    if isinstance(layer, tf.keras.layers.Bidirectional):
      return tf.keras.layers.Bidirectional(
        plain(layer.forward_layer),
        merge_mode=layer.merge_mode,
        backward_layer=plain(layer.backward_layer),
        name=layer.name,
      )
    return layer.__class__.from_config(layer.get_config())

  copy = tf.keras.models.clone_model(model, clone_function=plain)
  copy.set_weights(model.get_weights())
  return copy
