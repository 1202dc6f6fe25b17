"""The process of SCAFFOLD: what its clients keep, and what their rounds change."""

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import of_mechanism, sound_updates
from tff_textpriv.iterative_processes import (
  clients,
  device_state,
  local_training,
  optimizers,
  scheduled_work,
  seeded_client_work,
)
from tff_textpriv.privacy.mechanism import Mechanism

if TYPE_CHECKING:
  from tff_textpriv.iterative_processes import scaffold


class VariateClient(clients.Client):
  """A client that trains the whole model and keeps a control variate."""

  def __init__(
    self,
    model: tff.learning.models.FunctionalModel,
    settings: 'scaffold.ScaffoldSettings',
  ):
    """Prepares training by plain SGD, which the variates' formula is about."""
    step = optimizers.clipped(
      tff.learning.optimizers.build_sgdm(settings.client_learning_rate),
      settings.client_clip_norm,
    )
    super().__init__(local_training.LocalTrainer(model, step, num_local=0))
    self.specs = list(self.trainer.shared_specs)

  def first_leaves(self, local: Sequence[Any]) -> list[tf.Tensor]:
    """Returns a variate of zeros; see the base class."""
    return [tf.zeros(spec.shape) for spec in self.trainer.shared_specs]

  def assemble(self, leaves, shared):
    """Returns the server's model, which a device uses as it is; see the base class."""
    return local_training.Parts((), tuple(shared)), self.trainer.initial_optimizer(())


def build(
  model: tff.learning.models.FunctionalModel,
  client: clients.Client,
  settings: 'scaffold.ScaffoldSettings',
  mechanism: Mechanism,
) -> tff.learning.templates.LearningProcess:
  """Builds the process; see `scaffold.build_scaffold`."""
  initial_weights = seeded_client_work.initial_weights(model)
  weights_type = initial_weights.type_signature.result
  mean = of_mechanism.mean(mechanism, by_examples=False)
  return tff.learning.templates.compose_learning_process(
    initial_weights,
    tff.learning.templates.build_broadcast_process(weights_type),
    _client_work(model, client, settings, mechanism.population, weights_type),
    mean.create(weights_type.trainable, tff.TensorType(np.float32)),
    tff.learning.templates.build_apply_optimizer_finalizer(
      optimizers.server_optimizer(settings), weights_type
    ),
  )


def _client_work(
  model: tff.learning.models.FunctionalModel,
  client: clients.Client,
  settings: 'scaffold.ScaffoldSettings',
  population: int,
  weights_type: tff.Type,
) -> tff.learning.templates.ClientWorkProcess:
  """Makes the work of a client; the server's variate c is its state."""
  variate_type = weights_type.trainable
  data_type = tff.to_type(
    collections.OrderedDict(
      batches=tff.SequenceType(tff.types.tensorflow_to_type(model.input_spec)),
      state=device_state.FILES_TYPE,
    )
  )

  @tff.tensorflow.computation
  def first_variate():
    return tuple(tf.zeros(spec.shape) for spec in client.trainer.shared_specs)

  @tff.tensorflow.computation(weights_type, variate_type, data_type)
  @tf.function
  def train(weights, variate, data):
    before, after = device_state.file_names(data['state'])
    own = tuple(device_state.read(before, client.specs))
    parts, optimizer = client.assemble(own, weights.trainable)
    batches = data['batches']
    trained = client.trainer.train(
      parts,
      optimizer,
      batches.take(0),
      batches,
      correction=_each(tf.subtract, variate, own),  # c - c_i
    )
    num_examples = trained.num_examples
    num_steps = batches.reduce(0.0, lambda number, _: number + 1.0)
    path = num_steps * settings.client_learning_rate  # K h
    change = tuple(
      # c_i+ - c_i = (x - y) / (K h) - c; none where nothing was learnt.
      tf.where(num_examples > 0, (x - y) / tf.maximum(path, 1e-30) - c, 0.0)
      for x, y, c in zip(parts.shared, trained.parts.shared, variate, strict=True)
    )
    is_sound = sound_updates.are_sound(change)
    change = tuple(tf.where(is_sound, part, tf.zeros_like(part)) for part in change)
    device_state.write(after, _each(tf.add, own, change))
    result = scheduled_work.client_result(
      parts.shared, trained.parts.shared, tf.sign(num_examples)
    )
    return result, collections.OrderedDict(variate=change), trained.metrics

  @tff.tensorflow.computation(
    variate_type, collections.OrderedDict(variate=variate_type)
  )
  def moved(variate, total):
    return tuple(
      c + change / population
      for c, change in zip(variate, total['variate'], strict=True)
    )

  @tff.federated_computation
  def initialize():
    return tff.federated_eval(first_variate, tff.SERVER)

  @tff.federated_computation(
    tff.FederatedType(variate_type, tff.SERVER),
    tff.FederatedType(weights_type, tff.CLIENTS),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def next_round(variate, weights, client_data):
    theirs = tff.federated_broadcast(variate)
    result, change, metrics = tff.federated_map(train, (weights, theirs, client_data))
    measured = tff.learning.metrics.sum_then_finalize(model.finalize_metrics)(metrics)
    return tff.templates.MeasuredProcessOutput(
      tff.federated_map(moved, (variate, tff.federated_sum(change))),
      result,
      tff.federated_zip(collections.OrderedDict(train=measured)),
    )

  return tff.learning.templates.ClientWorkProcess(initialize, next_round)


def _each(function: Any, *structures: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
  """Applies a function tensor by tensor."""
  return tuple(function(*parts) for parts in zip(*structures, strict=True))
