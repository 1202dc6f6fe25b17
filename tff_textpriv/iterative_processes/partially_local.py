"""The core of methods whose clients keep a part of the model: the four parts of a process.

The server holds, sends, receives and sums the shared part only. The local part, with the
state of its optimizer, is a file of the device: the client's computation reads it, trains,
and writes it anew (see `device_state`). So the process is an ordinary TFF learning
process, and its type signature shows all that the server can see.

The data of a client in a round are a triple of sequences: batches for adapting the local
part, batches for training, and one pair of file names, to read and to write.
"""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import sound_updates
from tff_textpriv.iterative_processes import (
  algorithm_settings,
  device_state,
  local_training,
  optimizers,
  scheduled_work,
)

# The names of the files to read and to write.
FILES_TYPE = tff.TensorType(np.str_, [2])


class Device:
  """How a device's state is laid out, for those who set devices up and read them.

  Attributes:
    trainer: What trains on the device.
    adapts: Whether a round begins with an epoch for the local part alone.
    specs: Types and shapes of the state's tensors: the local weights, the optimizer's
      state and, with interpolation, the device's own copy of the shared part.
  """

  def __init__(
    self,
    trainer: local_training.LocalTrainer,
    *,
    adapts: bool = False,
    own_share: float = 0.0,
  ):
    """Lays the state out.

    Args:
      trainer: What trains on the device.
      adapts: Whether a round begins with an epoch for the local part alone.
      own_share: How much of the shared part's weights is the device's own, from the
        last time it trained, when it assembles a model; the rest is the server's.
    """
    self.trainer = trainer
    self.adapts = adapts
    self._own_share = own_share
    self._structure = [trainer.local_specs, trainer.optimizer_specs]
    if own_share:
      # Whether there is a copy yet, and the copy.
      has_copy = tf.TensorSpec([], tf.bool)
      self._structure.append((has_copy, trainer.shared_specs))
    self.specs = tf.nest.flatten(self._structure)

  def first_state(self, local: list[np.ndarray]) -> bytes:
    """Returns the state of a device that has not trained yet.

    Args:
      local: Its local weights.
    """
    state = [tuple(local), self.trainer.initial_optimizer(local)]
    if self._own_share:
      zeros = tuple(tf.zeros(spec.shape) for spec in self.trainer.shared_specs)
      state.append((tf.constant(False), zeros))
    leaves = [tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(state)]
    return device_state.pack(leaves).numpy()

  def assemble(self, leaves, shared):
    """Makes the model that a device uses, and the state of its optimizer.

    Args:
      leaves: The tensors of the device's state.
      shared: The shared part as the server has it.

    Returns:
      The `local_training.Parts` and the optimizer's state.
    """
    local, optimizer, *copy = tf.nest.pack_sequence_as(self._structure, leaves)
    if copy:
      ((has_copy, own),) = copy
      share = tf.where(has_copy, self._own_share, 0.0)
      shared = tuple(
        share * mine + (1 - share) * theirs
        for mine, theirs in zip(own, shared, strict=True)
      )
    return local_training.Parts(tuple(local), tuple(shared)), optimizer

  def new_state(self, trained: local_training.Trained) -> list[tf.Tensor]:
    """Returns the tensors of the state after training."""
    state = [trained.parts.local, trained.optimizer]
    if self._own_share:
      state.append((tf.constant(True), trained.parts.shared))
    return tf.nest.flatten(state)


def build(
  model: tff.learning.models.FunctionalModel,
  device: Device,
  settings: algorithm_settings.PersonalSettings,
  aggregator: tff.aggregators.WeightedAggregationFactory | None = None,
) -> tff.learning.templates.LearningProcess:
  """Builds the process.

  Args:
    model: The whole model; its initial weights are where the shared part starts.
    device: What trains, and how its state is laid out.
    settings: How the clients' step size changes, and how the server steps.
    aggregator: How updates are aggregated; by default the mean of those that are
      sound, weighted by the number of examples.

  Returns:
    A process whose model weights are the shared part.
  """
  num_local = len(device.trainer.local_specs)

  @tff.tensorflow.computation
  def initial_weights():
    shared = model.initial_weights[0][num_local:]
    return tff.learning.models.ModelWeights(tuple(map(tf.constant, shared)), ())

  weights_type = initial_weights.type_signature.result
  client_work = _client_work(model, device, weights_type, settings.client_decay_rounds)
  aggregator = aggregator or sound_updates.SoundMeanFactory()
  return tff.learning.templates.compose_learning_process(
    initial_weights,
    tff.learning.templates.build_broadcast_process(weights_type),
    client_work,
    aggregator.create(weights_type.trainable, tff.TensorType(np.float32)),
    tff.learning.templates.build_apply_optimizer_finalizer(
      optimizers.server_optimizer(settings), weights_type
    ),
  )


def _client_work(
  model: tff.learning.models.FunctionalModel,
  device: Device,
  weights_type: tff.Type,
  decay_rounds: int | None,
) -> tff.learning.templates.ClientWorkProcess:
  """Makes the work of a client: reads its state, trains, writes the state anew."""

  def train(weights, scale, data):
    adaptation, batches, files = data
    # The one element of the sequence.
    names = files.reduce(tf.constant(['', '']), lambda _, pair: pair)
    leaves = device_state.read(names[0], device.specs)
    parts, optimizer = device.assemble(leaves, weights.trainable)
    trained = device.trainer.train(parts, optimizer, adaptation, batches, scale)
    device_state.write(names[1], device.new_state(trained))
    result = scheduled_work.client_result(
      tuple(weights.trainable), trained.parts.shared, trained.metrics['num_examples']
    )
    return result, trained.metrics

  batches_type = tff.SequenceType(tff.types.tensorflow_to_type(model.input_spec))
  data_type = tff.to_type((batches_type, batches_type, tff.SequenceType(FILES_TYPE)))
  return scheduled_work.build(model, weights_type, data_type, train, decay_rounds)
