"""What of a client's batch an attacker gets to see, under each algorithm.

Clients run the code that they run in training: the local trainer, and the functions by
which they clip, noise and randomize. What leaves the device is turned into an estimate of
the gradient, weight by weight, which is what all attacks start from.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import bit_reports, dp_mean, local_gaussian
from tff_textpriv.attacks import targets
from tff_textpriv.datasets import labelled_batching
from tff_textpriv.iterative_processes import (
  algorithm_settings,
  classification_model,
  fed_prox,
  local_training,
  optimizers,
  partially_local,
  registry,
)
from tff_textpriv.models import classifiers, sequence_classifiers

# Whose eyes: the server's that collects messages, or those of everybody to whom the
# server hands the aggregate of one round.
VIEWS = ('server', 'released')

# What Adam adds to a gradient's size in its first step: 1e-7 over the root of 1 - 0.999.
_ADAM_OFFSET = 1e-7 / math.sqrt(1 - 0.999)
# The least distance of such a step from 1 that is more than a rounding error.
_LEAST_REST = 1e-6
# The step size of local rounds of an algorithm that has none of its own.
_AGEING_STEP = 0.1


@dataclasses.dataclass(frozen=True)
class Observation:
  """What is seen of one client in one round.

  Attributes:
    gradients: For each weight of the model, in order, what is known of its gradient;
      `None` if it stayed on the device.
    table: The client's embedding table after training. Not seen, unless it is shared.
  """

  gradients: tuple[np.ndarray | None, ...]
  table: np.ndarray

  @property
  def table_gradient(self) -> np.ndarray | None:
    """That of the embedding, if it is shared."""
    return self.gradients[0]

  @property
  def shared_gradients(self) -> tuple[np.ndarray | None, ...]:
    """Those of all weights above the embedding."""
    return self.gradients[1:]

  @property
  def num_bytes(self) -> int:
    """What the gradients take, as 32-bit floats."""
    return sum(4 * one.size for one in self.gradients if one is not None)


@dataclasses.dataclass(frozen=True)
class Client:
  """How a client answers under one algorithm.

  Attributes:
    algorithm: The algorithm, one that trains classifiers and has clients.
    settings: Its settings.
    plan: Its privacy plan, if it has one.
    model: The classifier.
    view: Who looks, one of `VIEWS`. They differ only where the server adds the noise
      (`dp_fed_avg`). The noise that is seen is that of the whole sum, as if the
      attacker knew the updates of all other clients.
    num_private: How many of the table's first rows are those of private tokens.
  """

  algorithm: registry.Algorithm
  settings: Any
  plan: Any
  model: targets.Target
  view: str = 'server'
  num_private: int = 0

  def observe(
    self,
    weights: Sequence[np.ndarray],
    batches: Sequence[labelled_batching.Batch],
    seed: np.ndarray,
  ) -> Observation:
    """Trains a client on its batches and looks at its message.

    Args:
      weights: The client's model before training.
      batches: Its data in this round.
      seed: Decides the client's randomness, int32 [2].
    """
    data = _tensors(batches)
    if self.algorithm.name == 'fed_sgd':
      gradients = self._mean_gradient(weights, data)
      return Observation(tuple(gradients), np.asarray(weights[0]))
    if isinstance(self._trained, sequence_classifiers.SplitTableClassifier):
      split = self._trained
      (_, *sent), trained = self._train(split.split(weights), data, seed)
      # Of rows that are never sent it is seen that they do not move.
      kept = np.zeros((self.num_private, self.model.embedding_size), np.float32)
      joined = split.join([kept, *sent])
      return Observation(tuple(map(np.asarray, joined)), np.concatenate(trained[:2]))
    sent, trained = self._train(weights, data, seed)
    return Observation(tuple(sent), trained[0])

  def age(
    self,
    weights: Sequence[np.ndarray],
    batches: Sequence[labelled_batching.Batch],
    rounds: int,
  ) -> list[np.ndarray]:
    """Returns the weights of a client that has trained on its data for some rounds."""
    trainer = local_training.LocalTrainer(
      classification_model.from_classifier(self.model, weights),
      self._optimizer,
      num_local=0,
    )
    parts = local_training.Parts((), tuple(map(tf.constant, weights)))
    for _ in range(rounds):
      state = trainer.initial_optimizer(())
      parts = trainer.train(parts, state, [], _tensors(batches)).parts
    return [weight.numpy() for weight in parts.shared]

  @functools.cached_property
  def _trained(self) -> classifiers.Classifier:
    """What clients train: the model, its private rows apart where these are local."""
    if self.algorithm.local_part != 'tokens':
      return self.model
    assert isinstance(self.model, sequence_classifiers.SequenceClassifier)
    return sequence_classifiers.SplitTableClassifier.of(self.model, self.num_private)

  @functools.cached_property
  def _functional(self) -> tff.learning.models.FunctionalModel:
    return classification_model.from_classifier(
      self._trained, self._trained.initial_weights(0)
    )

  @functools.cached_property
  def _optimizer(self) -> tff.learning.optimizers.Optimizer:
    if self.algorithm.name == 'fed_sgd':
      return tff.learning.optimizers.build_sgdm(_AGEING_STEP)
    if self.algorithm.name == 'fed_prox':
      return fed_prox.client_optimizer(self.settings)
    return optimizers.client_optimizer(self.settings)

  @functools.cached_property
  def _device(self) -> partially_local.Device:
    """How clients train."""
    if self.algorithm.local_part:
      return self.algorithm.make_device(self._functional, self.settings)
    return partially_local.Device(
      local_training.LocalTrainer(self._functional, self._optimizer, num_local=0)
    )

  def _train(
    self, weights: Sequence[np.ndarray], data: list[Any], seed: np.ndarray
  ) -> tuple[list[np.ndarray | None], list[np.ndarray]]:
    """Returns what is known of each weight's gradient, and the trained weights."""
    trainer = self._device.trainer
    num_local = len(trainer.local_specs)
    tensors = tuple(map(tf.constant, weights))
    parts = local_training.Parts(tensors[:num_local], tensors[num_local:])
    trained = trainer.train(
      parts,
      trainer.initial_optimizer(parts.local),
      data if self._device.adapts else [],
      data,
    ).parts
    update = [
      before - after for before, after in zip(parts.shared, trained.shared, strict=True)
    ]
    sent = [one.numpy() for one in self._randomize(update, tf.constant(seed))]
    gradients = self._gradients(sent, weights[num_local:], len(data))
    return (
      [None] * num_local + gradients,
      [weight.numpy() for weight in (*trained.local, *trained.shared)],
    )

  def _gradients(
    self, sent: list[np.ndarray], weights: Sequence[np.ndarray], num_steps: int
  ) -> list[np.ndarray]:
    """Estimates gradients from updates, as someone would who knows the optimizer."""
    steps = [one / (self.settings.client_learning_rate * num_steps) for one in sent]
    kind = self.settings.client_optimizer
    if num_steps > 1 or kind == 'sgd' or self.plan is not None:
      return steps
    if kind == 'adamw':
      decay = self.settings.client_weight_decay
      steps = [one - decay * weight for one, weight in zip(steps, weights, strict=True)]
    return [undo_adam(one) for one in steps]

  def _mean_gradient(
    self, weights: Sequence[np.ndarray], data: list[Any]
  ) -> list[np.ndarray]:
    """Returns the gradient over all examples, at weights that do not move."""
    tensors = list(map(tf.constant, weights))
    model = self._functional
    with tf.GradientTape() as tape:
      tape.watch(tensors)
      total, number = 0.0, 0.0
      for inputs, labels in data:
        logits = model.predict_on_batch((tuple(tensors), ()), inputs, training=True)
        num_examples = tf.cast(tf.shape(logits)[0], tf.float32)
        total += model.loss(logits, labels) * num_examples
        number += num_examples
      mean = total / number
    return [tf.convert_to_tensor(one).numpy() for one in tape.gradient(mean, tensors)]

  def _randomize(self, update: list[tf.Tensor], seed: tf.Tensor) -> list[tf.Tensor]:
    """Does to an update what its mechanism does."""
    if self.algorithm.name == 'rr_ldp':
      return _read_bits(update, seed, self.plan, self.settings)
    if self.algorithm.name == 'fed_att':
      return local_gaussian.randomize(update, seed, self.plan)
    if self.algorithm.name == 'dp_fed_avg':
      clip = tf.constant(self.plan.clip, tf.float32)
      update = dp_mean.clip_update(update, clip)['update']
      if self.view == 'released':
        stddev = self.plan.sum_stddev(self.plan.clip)
        return [
          tensor
          + stddev
          * tf.random.stateless_normal(
            tensor.shape, tf.random.experimental.stateless_fold_in(seed, stream)
          )
          for stream, tensor in enumerate(update)
        ]
    return update


def undo_adam(step: np.ndarray) -> np.ndarray:
  """Finds the gradient behind Adam's first step.

  That step is g / (|g| + e), e about 3e-6. It looks like the sign of g, but how far it
  is from 1 tells the size of g, as far as 32-bit floats can tell it.

  Args:
    step: The update over the step size.
  """
  exact = np.asarray(step, np.float64)
  rest = np.maximum(1 - np.abs(exact), _LEAST_REST)
  return (_ADAM_OFFSET * exact / rest).astype(np.float32)


def _tensors(batches: Sequence[labelled_batching.Batch]) -> list[Any]:
  return [tf.nest.map_structure(tf.constant, batch) for batch in batches]


def _read_bits(
  update: list[tf.Tensor],
  seed: tf.Tensor,
  plan: Any,
  settings: algorithm_settings.RrLdpSettings,
) -> list[tf.Tensor]:
  """Sends an update as randomized bits, and reads these as unbiased estimates."""
  bound = settings.quantization_range or settings.client_learning_rate
  values = tf.concat([tf.reshape(tensor, [-1]) for tensor in update], axis=0)
  message = bit_reports.randomize(plan, bound, values, seed)
  scale = bound / plan.response.contrast / plan.reported_share
  estimate = scale * tf.cast(bit_reports.signs(plan, message), tf.float32)
  pieces = tf.split(estimate, [tf.size(tensor) for tensor in update])
  return [
    tf.reshape(piece, tensor.shape)
    for piece, tensor in zip(pieces, update, strict=True)
  ]
