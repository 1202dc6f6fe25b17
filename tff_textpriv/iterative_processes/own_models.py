"""A caller's own Keras model in the place of one of ours.

The models of this package are pure functions of their weights. A Keras model becomes
one by lending its layers, for the time of a call, tensors in the place of variables.
(TFF's `functional_model_from_keras` copies the model inside of the graph; where a layer
of it has a stateful operation, as of dropout or a loop, the graph then asks for the
copy's unfed input.)
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from tff_textpriv import settings as settings_lib
from tff_textpriv.models import classifiers, interface


def classifier(
  model: tf.keras.Model, num_ids: int, width: int, num_classes: int
) -> 'KerasClassifier':
  """Makes a classifier of a Keras model from the task's features to logits.

  Args:
    model: Reads a dictionary of those of `ids` and `dense` that the task has, or the
      only one; gives one logit for two classes, else one per class.
    num_ids: The number of different ids; also the id that is padding.
    width: The width of the dense numbers.
    num_classes: The number of classes.

  Raises:
    SettingsError: If it is no such model.
  """
  made = KerasClassifier(num_ids, width, num_classes, _copy(model))
  _check_outputs(model, made.num_outputs)
  features = {'ids'} if num_ids else set()
  features |= {'dense'} if width else set()
  read = set(made.keras.input) if isinstance(made.keras.input, dict) else features
  if read - features or len(features) > 1 and not isinstance(made.keras.input, dict):
    _refuse(f'must read a dictionary of {" and ".join(sorted(features))}')
  return made


def language_model(model: tf.keras.Model, vocab_size: int) -> 'KerasLanguageModel':
  """Makes a language model of a Keras model from tokens to logits of the next ones.

  Args:
    model: Reads int32 [batch, time]; its last layer is `Dense(vocab_size)`.
    vocab_size: The number of token ids.

  Raises:
    SettingsError: If it is no such model.
  """
  _check_outputs(model, vocab_size)
  copy = _copy(model)
  last = copy.layers[-1]
  if (
    not isinstance(last, tf.keras.layers.Dense)
    or not last.use_bias
    or last.activation is not tf.keras.activations.linear
    or copy.trainable_weights[-2:] != [last.kernel, last.bias]
  ):
    _refuse('must end with one Dense layer, with a bias and without activation')
  rates = [
    getattr(module, name, 0.0)
    for module in copy.submodules
    for name in ('rate', 'dropout', 'recurrent_dropout')
  ]
  return KerasLanguageModel(
    vocab_size,
    copy,
    tf.keras.Model(copy.inputs, last.input),
    tied=False,
    dropout=max(rates),
  )


class _OwnWeights:
  """What has the weights of a Keras model."""

  keras: tf.keras.Model

  def initial_weights(self, seed: int) -> list[np.ndarray]:
    """Returns the weights that the model came with."""
    del seed  # Whoever made the model has drawn them.
    return self.keras.get_weights()

  def to_keras(self, weights: interface.Weights | None = None) -> tf.keras.Model:
    """Copies the Keras model, with its weights or with others."""
    return _copy(self.keras, weights)


@dataclasses.dataclass(frozen=True)
class KerasClassifier(_OwnWeights, classifiers.Classifier):
  """A Keras model as a classifier; dropout draws TensorFlow's own random numbers."""

  keras: tf.keras.Model

  def logits(
    self,
    weights: classifiers.Weights,
    inputs: classifiers.Inputs,
    dropout_seed: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Scores the classes; see the base class."""
    read = inputs.ids if self.num_ids else inputs.dense
    if isinstance(self.keras.input, dict):
      read = {name: getattr(inputs, name) for name in self.keras.input}
    with _lent(self.keras.trainable_weights, self.keras, weights):
      return self.keras(read, training=dropout_seed is not None)


@dataclasses.dataclass(frozen=True)
class KerasLanguageModel(_OwnWeights, interface.LanguageModel):
  """A Keras model as a language model, which reads text from its beginning only.

  Attributes:
    keras: The model.
    below: The same without its last layer.
  """

  keras: tf.keras.Model
  below: tf.keras.Model

  @property
  def weight_shapes(self) -> list[tuple[int, ...]]:
    """The shapes of the weights, in order."""
    return [tuple(weight.shape) for weight in self.keras.trainable_weights]

  def hidden(
    self,
    weights: interface.Weights,
    tokens: tf.Tensor,
    dropout_seed: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Returns what the output layer reads; see the base class."""
    with _lent(self.keras.trainable_weights[:-2], self.below, weights[:-2]):
      return self.below(tokens, training=dropout_seed is not None)

  def from_keras(self, twin: tf.keras.Model) -> list[np.ndarray]:
    """Reads the weights of a copy."""
    return twin.get_weights()

  def initial_state(
    self, batch_size: int | tf.Tensor, max_length: int | tf.Tensor
  ) -> NoReturn:
    """Refuses: an own model has no state to go on from."""
    _refuse('cannot be sampled token by token')

  def step(self, weights: interface.Weights, tokens: tf.Tensor, state: Any) -> NoReturn:
    """Refuses: an own model has no state to go on from."""
    _refuse('cannot be sampled token by token')


def _copy(
  model: tf.keras.Model, weights: Sequence[np.ndarray | tf.Tensor] | None = None
) -> tf.keras.Model:
  """Copies a model with its weights, or with others.

  Raises:
    SettingsError: If it cannot be copied, or has weights that are not trained.
  """
  if not getattr(model, 'inputs', None):
    _refuse('must be made of inputs and outputs, or Sequential and with an Input')
  if model.non_trainable_weights:
    _refuse('has weights that are not trained, as BatchNormalization or frozen layers')
  copy = tf.keras.models.clone_model(model)
  copy.set_weights(model.get_weights() if weights is None else weights)
  return copy


@contextlib.contextmanager
def _lent(
  variables: Sequence[tf.Variable],
  model: tf.keras.Model,
  weights: Sequence[np.ndarray | tf.Tensor],
) -> Iterator[None]:
  """Lets the layers of a model have tensors where they have variables."""
  tensors = {id(v): w for v, w in zip(variables, weights, strict=True)}
  places = [
    (vars(module), name, value)
    for module in (model, *model.submodules)
    for name, value in vars(module).items()
    if id(value) in tensors and isinstance(value, tf.Variable)
  ]
  if {id(value) for _, _, value in places} != tensors.keys():
    _refuse('has a layer that keeps its weights in a list; use layers of Keras’s own')
  try:
    for attributes, name, value in places:
      attributes[name] = tf.convert_to_tensor(tensors[id(value)])
    yield
  finally:
    for attributes, name, value in places:
      attributes[name] = value


def _check_outputs(model: tf.keras.Model, number: int) -> None:
  shape = getattr(model, 'output_shape', None)
  if not isinstance(shape, tuple) or shape[-1] != number:
    _refuse(f'must give {number} logits; its outputs are {shape}')


def _refuse(why: str) -> NoReturn:
  raise settings_lib.SettingsError('model', None, f'your own model {why}')
