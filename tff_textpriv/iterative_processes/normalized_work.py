"""Client updates per step, and the process that averages them (FedNova)."""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import of_mechanism
from tff_textpriv.iterative_processes import (
  common_settings,
  optimizers,
  seeded_client_work,
  server_step,
)
from tff_textpriv.privacy.mechanism import Mechanism


def build(
  model: tff.learning.models.FunctionalModel,
  settings: common_settings.MeanSettings,
  mechanism: Mechanism,
) -> tff.learning.templates.LearningProcess:
  """Builds the process; see `fed_nova.build_fed_nova`."""
  initial_weights = seeded_client_work.initial_weights(model)
  weights_type = initial_weights.type_signature.result
  work = _client_work(model, settings)
  update_type = work.next.type_signature.result.result.member.update
  mean = of_mechanism.mean(mechanism, by_examples=settings.weighs_by_examples)
  return tff.learning.templates.compose_learning_process(
    initial_weights,
    tff.learning.templates.build_broadcast_process(weights_type),
    work,
    mean.create(update_type, tff.TensorType(np.float32)),
    server_step.finalizer(
      optimizers.server_optimizer(settings), weights_type, update_type, _gradient
    ),
  )


def _gradient(weights, aggregate):
  """Returns the mean update per step times the mean number of steps."""
  del weights
  return tf.nest.map_structure(
    lambda part: aggregate['steps'] * part, aggregate['per_step']
  )


def _client_work(
  model: tff.learning.models.FunctionalModel,
  settings: common_settings.MeanSettings,
) -> tff.learning.templates.ClientWorkProcess:
  """Makes local training whose update is divided by how often gradients count in it."""
  training = tff.learning.templates.build_functional_model_delta_client_work(
    model=model,
    optimizer=optimizers.client_optimizer(settings),
    client_weighting=(
      tff.learning.ClientWeighting.NUM_EXAMPLES
      if settings.weighs_by_examples
      else tff.learning.ClientWeighting.UNIFORM
    ),
    loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
  )
  state_type, weights_type, batches_type = training.next.type_signature.parameter
  momentum = settings.client_momentum

  @tff.tensorflow.computation(
    batches_type.member, training.next.type_signature.result.result.member
  )
  def normalize(batches, result):
    num_steps = batches.reduce(0.0, lambda count, _: count + 1.0)
    # |a_k|: each gradient counts 1 + rho + rho^2 + ... up to the last step.
    lag = momentum * (1.0 - momentum**num_steps) / (1.0 - momentum)
    steps = (num_steps - lag) / (1.0 - momentum)
    per_step = tf.nest.map_structure(
      lambda part: tf.math.divide_no_nan(part, steps), result.update
    )
    return tff.learning.templates.ClientResult(
      update=collections.OrderedDict(per_step=per_step, steps=steps),
      update_weight=result.update_weight,
    )

  @tff.federated_computation(state_type, weights_type, batches_type)
  def next_round(state, weights, batches):
    output = training.next(state, weights, batches)
    result = tff.federated_map(normalize, (batches, output.result))
    return tff.templates.MeasuredProcessOutput(
      output.state, result, output.measurements
    )

  return tff.learning.templates.ClientWorkProcess(training.initialize, next_round)
