"""The process of central training.

It is no TFF computation, but has the face of one, so that the same program trains,
evaluates and resumes it.
"""

import collections
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import sound_updates


class CentralState(NamedTuple):
  """The model's weights, and the optimizer's state, kept from pass to pass."""

  weights: tuple[Any, ...]
  optimizer: Any


class CentralOutput(NamedTuple):
  """What a pass gives: the state after it, and the metrics of the way."""

  state: CentralState
  metrics: Any


class CentralProcess:
  """Trains on the batches of whoever it is given, one batch after the other."""

  def __init__(
    self,
    model: tff.learning.models.FunctionalModel,
    optimizer: tff.learning.optimizers.Optimizer,
  ):
    """Prepares training.

    Args:
      model: What is trained; carries the initial weights.
      optimizer: Takes a step a batch.
    """
    self._model = model
    self._optimizer = optimizer

    def step(state, metrics, inputs, labels):
      with tf.GradientTape() as tape:
        tape.watch(state.weights)
        output = model.predict_on_batch((state.weights, ()), inputs, training=True)
        loss = model.loss(output, labels)
      gradients = tape.gradient(loss, state.weights)
      optimizer_state, weights = optimizer.next(
        state.optimizer, state.weights, gradients
      )
      moved = tf.nest.map_structure(tf.subtract, weights, state.weights)
      is_sound = sound_updates.are_sound([*moved, *gradients])
      # Language models return more than logits; what comes first has a row per example.
      num_examples = tf.shape(tf.nest.flatten(output)[0])[0]
      new_metrics = model.update_metrics_state(
        metrics,
        labels=labels,
        batch_output=tff.learning.models.BatchOutput(
          loss=loss, predictions=output, num_examples=num_examples
        ),
      )
      new_state = CentralState(weights, optimizer_state)
      kept = tf.nest.map_structure(
        lambda new, old: tf.where(is_sound, new, old),
        (new_state, new_metrics),
        (state, metrics),
      )
      return *kept, tf.cast(~is_sound, tf.int32)

    @tf.function(reduce_retracing=True)
    def train_on(state, metrics, dataset):
      left_out = tf.constant(0)
      for inputs, labels in dataset:
        state, metrics, is_left_out = step(state, metrics, inputs, labels)
        left_out += is_left_out
      return state, metrics, left_out

    self._train_on = train_on

  def initialize(self) -> CentralState:
    """Returns the state before the first pass.

    All of it is tensors, of the types that passes give: step sizes, which optimizers
    begin as Python's numbers, would otherwise come back from a checkpoint as others.
    """
    trainable, _ = self._model.initial_weights
    specs = tuple(tf.TensorSpec(weight.shape, weight.dtype) for weight in trainable)
    state = CentralState(tuple(trainable), self._optimizer.initialize(specs))
    return tf.nest.map_structure(tf.convert_to_tensor, state)

  def next(self, state: CentralState, cohort: Sequence[Sequence[Any]]) -> CentralOutput:
    """Passes over the data of a round.

    Args:
      state: The state before.
      cohort: Lists of batches, those of a list of one shape.

    Returns:
      The state after, and metrics in the places where learning processes have them. A
      batch whose gradient is not finite, or far too large, is left out and counted.
    """
    state = tf.nest.map_structure(tf.convert_to_tensor, state)
    train = self._model.initialize_metrics_state()
    left_out = 0
    for batches in cohort:
      if not batches:
        continue
      stacked = tf.nest.map_structure(lambda *parts: np.stack(parts), *batches)
      dataset = tf.data.Dataset.from_tensor_slices(stacked)
      state, train, number = self._train_on(state, train, dataset)
      left_out += int(number)
    metrics = collections.OrderedDict(
      client_work=collections.OrderedDict(train=self._model.finalize_metrics(train)),
      aggregator=collections.OrderedDict(left_out_batches=left_out),
    )
    return CentralOutput(state, metrics)

  def get_model_weights(self, state: CentralState) -> tff.learning.models.ModelWeights:
    """Returns the weights of a state."""
    return tff.learning.models.ModelWeights(state.weights, ())
