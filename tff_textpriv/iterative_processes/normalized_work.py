"""Client updates per step, and the process that averages them (FedNova)."""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import of_mechanism
from tff_textpriv.iterative_processes import (
  client_results,
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


def _gradient(weights: Any, aggregate: Any) -> Any:
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
  momentum = settings.client_momentum

  def normalize(
    weights: Any, batches: tf.data.Dataset, result: tff.learning.templates.ClientResult
  ) -> tff.learning.templates.ClientResult:
    del weights
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

  return client_results.changed(training, normalize)
