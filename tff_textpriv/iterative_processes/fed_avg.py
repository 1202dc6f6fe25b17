"""Federated averaging, weighted by examples or uniform."""

from collections.abc import Callable
from typing import Any

import tensorflow_federated as tff

from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import optimizers, registry


def build(
  model: tff.learning.models.FunctionalModel,
  settings: registry.FedAvgSettings,
  plan: None = None,
  seed: int = 0,
) -> tff.learning.templates.LearningProcess:
  """Builds the process; see `registry.Algorithm.build`."""
  del plan, seed  # No mechanism, no random numbers.
  return averaging(
    model, settings, lambda rate: optimizers.client_optimizer(settings, rate)
  )


def averaging(
  model: tff.learning.models.FunctionalModel,
  settings: registry.FedAvgSettings,
  client_optimizer: Callable[[Any], tff.learning.optimizers.Optimizer],
) -> tff.learning.templates.LearningProcess:
  """Builds TFF's federated averaging, with a step size that falls if that is chosen.

  Args:
    model: What is trained.
    settings: Server optimizer, weighting and schedule.
    client_optimizer: Makes the optimizer of local training for a step size.
  """
  if not settings.client_decay_rounds:
    return tff.learning.algorithms.build_weighted_fed_avg(
      model,
      client_optimizer_fn=client_optimizer(settings.client_learning_rate),
      server_optimizer_fn=optimizers.server_optimizer(settings),
      client_weighting=client_weighting(settings),
      loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
    )
  if settings.client_weighting != 'examples':
    raise settings_lib.IncompatibleSettingsError(
      '--client_decay_rounds goes with --client_weighting=examples only'
    )
  return tff.learning.algorithms.build_weighted_fed_avg_with_optimizer_schedule(
    model,
    client_learning_rate_fn=lambda number: (
      settings.client_learning_rate
      * optimizers.linear_decay(number, settings.client_decay_rounds)
    ),
    client_optimizer_fn=client_optimizer,
    server_optimizer_fn=optimizers.server_optimizer(settings),
    loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
  )


def client_weighting(settings: registry.MeanSettings) -> tff.learning.ClientWeighting:
  """Reads `--client_weighting`."""
  if settings.client_weighting == 'uniform':
    return tff.learning.ClientWeighting.UNIFORM
  return tff.learning.ClientWeighting.NUM_EXAMPLES
