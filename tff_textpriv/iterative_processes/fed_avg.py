"""Federated averaging, weighted by examples or uniform."""

import numpy as np
import tensorflow_federated as tff

from tff_textpriv.aggregators import sound_updates
from tff_textpriv.iterative_processes import (
  algorithm_settings,
  optimizers,
  scheduled_work,
  seeded_client_work,
)


def build(
  model: tff.learning.models.FunctionalModel,
  settings: algorithm_settings.FedAvgSettings,
  plan: None = None,
  seed: int = 0,
) -> tff.learning.templates.LearningProcess:
  """Builds the process; see `registry.Algorithm.build`."""
  del plan, seed  # No mechanism, no random numbers.
  return averaging(model, settings, optimizers.client_optimizer(settings))


def averaging(
  model: tff.learning.models.FunctionalModel,
  settings: algorithm_settings.FedAvgSettings,
  client_optimizer: tff.learning.optimizers.Optimizer,
) -> tff.learning.templates.LearningProcess:
  """Builds federated averaging: TFF's own, unless the clients' step size falls.

  Updates that are not finite, or far too large, are left out and counted.

  Args:
    model: What is trained.
    settings: Server optimizer, weighting and schedule.
    client_optimizer: Takes the local steps.
  """
  if settings.client_decay_rounds is None:
    return tff.learning.algorithms.build_weighted_fed_avg(
      model,
      client_optimizer_fn=client_optimizer,
      server_optimizer_fn=optimizers.server_optimizer(settings),
      client_weighting=client_weighting(settings),
      model_aggregator=sound_updates.SoundMeanFactory(),
      loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
    )
  initial_weights = seeded_client_work.initial_weights(model)
  weights_type = initial_weights.type_signature.result
  return tff.learning.templates.compose_learning_process(
    initial_weights,
    tff.learning.templates.build_broadcast_process(weights_type),
    scheduled_work.model_training(
      model,
      client_optimizer,
      weights_type,
      client_weighting(settings),
      settings.client_decay_rounds,
    ),
    sound_updates.SoundMeanFactory().create(
      weights_type.trainable, tff.TensorType(np.float32)
    ),
    tff.learning.templates.build_apply_optimizer_finalizer(
      optimizers.server_optimizer(settings), weights_type
    ),
  )


def client_weighting(
  settings: algorithm_settings.MeanSettings,
) -> tff.learning.ClientWeighting:
  """Reads `--client_weighting`."""
  if settings.client_weighting == 'uniform':
    return tff.learning.ClientWeighting.UNIFORM
  return tff.learning.ClientWeighting.NUM_EXAMPLES
