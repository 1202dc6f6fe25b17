"""What a client of an algorithm does in a round: how it trains and what it keeps.

The process, the device store, the evaluation of users' own models, attacks and audits all
look at this one description.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.iterative_processes import (
  common_settings,
  device_state,
  local_training,
  optimizers,
)

# The output layer of every model: a kernel and a bias.
NUM_OUTPUT_WEIGHTS = 2


class Client:
  """A client that trains a model of which the first weights may be its own.

  Attributes:
    trainer: What trains on the device.
    adapts: Whether a round begins with an epoch for the local part alone.
    trains: Whether its update is a difference of weights, and not a gradient.
    reconstructs: Whether its local part is made anew in each round, so that a model as
      received has one only after that.
    specs: Types and shapes of the tensors that a device keeps: the local weights, their
      optimizer's state, perhaps where they started and, with interpolation, its own copy
      of the shared part.
  """

  trains = True
  reconstructs = False

  def __init__(
    self,
    trainer: local_training.LocalTrainer,
    *,
    adapts: bool = False,
    own_share: float = 0.0,
  ):
    """Lays the state of a device out.

    Args:
      trainer: What trains on the device.
      adapts: Whether a round begins with an epoch for the local part alone.
      own_share: How much of the shared part's weights is the device's own, from the
        last time it trained, when it assembles a model; the rest is the server's.
    """
    self.trainer = trainer
    self.adapts = adapts
    self._own_share = own_share
    self._structure = [
      trainer.local_specs,
      trainer.optimizer_specs,
      trainer.anchor_specs,
    ]
    if own_share:
      # Whether there is a copy yet, and the copy.
      has_copy = tf.TensorSpec([], tf.bool)
      self._structure.append((has_copy, trainer.shared_specs))
    self.specs = tf.nest.flatten(self._structure)

  @property
  def num_local(self) -> int:
    """How many of the model's first weights stay on the device."""
    return len(self.trainer.local_specs)

  def first_state(self, local: Sequence[np.ndarray]) -> bytes:
    """Returns what a device with these local weights keeps before it has trained."""
    return device_state.pack(self.first_leaves(local)).numpy()

  def first_leaves(self, local: Sequence[Any]) -> list[tf.Tensor]:
    """Returns the same as tensors."""
    state: list[Any] = [
      tuple(local),
      self.trainer.initial_optimizer(local),
      tuple(local) if self.trainer.anchor_specs else (),
    ]
    if self._own_share:
      zeros = tuple(tf.zeros(spec.shape) for spec in self.trainer.shared_specs)
      state.append((tf.constant(False), zeros))
    return [tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(state)]

  def assemble(self, leaves, shared):
    """Makes the model that a device uses, and the state of its optimizer.

    Args:
      leaves: The tensors that the device keeps.
      shared: The shared part as the server has it.

    Returns:
      The `local_training.Parts` and the optimizer's state.
    """
    local, optimizer, anchor, *copy = tf.nest.pack_sequence_as(self._structure, leaves)
    if copy:
      ((has_copy, own),) = copy
      share = tf.where(has_copy, self._own_share, 0.0)
      shared = tuple(
        share * mine + (1 - share) * theirs
        for mine, theirs in zip(own, shared, strict=True)
      )
    return local_training.Parts(tuple(local), tuple(shared), tuple(anchor)), optimizer

  def new_state(self, trained: local_training.Trained) -> list[tf.Tensor]:
    """Returns the tensors that a device keeps after training."""
    state: list[Any] = [trained.parts.local, trained.optimizer, trained.parts.anchor]
    if self._own_share:
      state.append((tf.constant(True), trained.parts.shared))
    return tf.nest.flatten(state)

  def dealt(
    self, adaptation: Sequence[Any], batches: Sequence[Any]
  ) -> tuple[Sequence[Any], Sequence[Any]]:
    """Returns what the local part is trained on first, and what all is trained on.

    Args:
      adaptation: The batches that were made for the one.
      batches: Those that were made for the other.
    """
    return adaptation, batches

  def train_round(
    self,
    leaves: Sequence[tf.Tensor],
    shared: Sequence[tf.Tensor],
    adaptation: Sequence[Any],
    batches: Sequence[Any],
  ) -> tuple[list[tf.Tensor], local_training.Trained]:
    """Trains a device for a round.

    Args:
      leaves: The tensors that the device keeps.
      shared: The shared part as the server has it.
      adaptation: The batches on which the local part adapts, if it does.
      batches: The device's data.

    Returns:
      The update of the shared weights, and what training leaves.
    """
    parts, optimizer = self.assemble(leaves, shared)
    adaptation, batches = self.dealt(adaptation if self.adapts else [], batches)
    trained = self.trainer.train(parts, optimizer, adaptation, batches)
    update = [
      before - after
      for before, after in zip(parts.shared, trained.parts.shared, strict=True)
    ]
    return update, trained

  def answer(
    self, weights: Sequence[Any], batches: Sequence[Any]
  ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Trains for a round, from a fresh start.

    Args:
      weights: The whole model, in its order.
      batches: The client's data.

    Returns:
      The update of the shared weights, and all weights after training.
    """
    local, shared = weights[: self.num_local], weights[self.num_local :]
    update, trained = self.train_round(
      self.first_leaves(local), tuple(map(tf.constant, shared)), batches, batches
    )
    return update, [*trained.parts.local, *trained.parts.shared]


class ReconstructingClient(Client):
  """A client that makes its local part anew in each round, as TFF's `build_fed_recon` does."""

  reconstructs = True

  def __init__(
    self,
    trainer: local_training.LocalTrainer,
    *,
    splits_data: bool,
    num_epochs: int,
  ):
    """Lays nothing out: nothing is kept.

    Args:
      trainer: What trains on the device.
      splits_data: Whether every other batch reconstructs, and the rest trains; all
        batches do both otherwise.
      num_epochs: How often what trains is passed over.
    """
    super().__init__(trainer, adapts=True)
    self._splits_data = splits_data
    self._num_epochs = num_epochs

  def dealt(
    self, adaptation: Sequence[Any], batches: Sequence[Any]
  ) -> tuple[Sequence[Any], Sequence[Any]]:
    """Returns the batches that reconstruct, and those that train."""
    del adaptation  # One data set is dealt to both.
    if self._splits_data:
      return batches[::2], list(batches[1::2]) * self._num_epochs
    return batches, list(batches) * self._num_epochs


class GradientClient(Client):
  """A client that gives the mean gradient over its data, and does not train."""

  trains = False

  def __init__(self, model: tff.learning.models.FunctionalModel):
    """Prepares the gradient of a model."""
    step = tff.learning.optimizers.build_sgdm(1.0)
    super().__init__(local_training.LocalTrainer(model, step, num_local=0))
    self._model = model

  def answer(
    self, weights: Sequence[Any], batches: Sequence[Any]
  ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Returns the gradient over all examples, and the weights, which do not move."""
    tensors = list(map(tf.constant, weights))
    with tf.GradientTape() as tape:
      tape.watch(tensors)
      total, number = 0.0, 0.0
      for inputs, labels in batches:
        output = self._model.predict_on_batch(
          (tuple(tensors), ()), inputs, training=True
        )
        num_examples = tf.cast(local_training.num_rows(output), tf.float32)
        total += self._model.loss(output, labels) * num_examples
        number += num_examples
      mean = total / number
    gradients = tape.gradient(mean, tensors)
    return [tf.convert_to_tensor(one) for one in gradients], tensors


def training(
  model: tff.learning.models.FunctionalModel,
  settings: common_settings.LocalTrainingSettings,
  optimizer: tff.learning.optimizers.Optimizer | None = None,
) -> Client:
  """Describes a client that trains the whole model and keeps nothing.

  Args:
    model: What is trained.
    settings: Those of local training.
    optimizer: Takes the steps; by default the settings'.
  """
  optimizer = optimizer or optimizers.client_optimizer(settings)
  trainer = local_training.LocalTrainer(
    model, optimizer, num_local=0, decays=settings.decays_within_round
  )
  return Client(trainer)


def personal(
  model: tff.learning.models.FunctionalModel,
  settings: common_settings.PersonalSettings,
  num_local: int,
  *,
  local_step: float = 1.0,
  anchor_strength: float = 0.0,
  adapts: bool = False,
  own_share: float = 0.0,
) -> Client:
  """Describes a client that keeps the model's first weights for itself.

  Args:
    model: What is trained.
    settings: Those of methods whose users have a part of the model.
    num_local: How many of the first weights stay on the device.
    local_step: The step size of these, in units of the client's.
    anchor_strength: How strongly these are pulled to where they started.
    adapts: Whether a round begins with an epoch for these alone.
    own_share: How much of the other weights is the device's own; see `Client`.
  """
  trainer = local_training.LocalTrainer(
    model,
    optimizers.client_optimizer(settings),
    num_local=num_local,
    local_step=local_step,
    fresh_optimizer=settings.fresh_optimizer,
    anchor_strength=anchor_strength,
    decays=settings.decays_within_round,
  )
  return Client(trainer, adapts=adapts, own_share=own_share)


def output_layer(
  model: tff.learning.models.FunctionalModel,
  settings: common_settings.LocalTrainingSettings,
) -> Client:
  """Describes a client that trains the output layer, with all below it frozen.

  Args:
    model: What is trained.
    settings: Those of local training.
  """
  num_below = len(model.initial_weights[0]) - NUM_OUTPUT_WEIGHTS
  trainer = local_training.LocalTrainer(
    model, optimizers.client_optimizer(settings), num_below, trains_local=False
  )
  return Client(trainer)
