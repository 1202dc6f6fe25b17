"""Federated averaging, weighted by examples or uniform."""

import tensorflow_federated as tff

from tff_textpriv.iterative_processes import optimizers, registry


def build(
  model: tff.learning.models.FunctionalModel,
  settings: registry.FedAvgSettings,
  plan: None = None,
  seed: int = 0,
) -> tff.learning.templates.LearningProcess:
  """Builds the process; see `registry.Algorithm.build`."""
  del plan, seed  # No mechanism, no random numbers.
  return tff.learning.algorithms.build_weighted_fed_avg(
    model,
    client_optimizer_fn=optimizers.client_optimizer(settings),
    server_optimizer_fn=optimizers.server_optimizer(settings),
    client_weighting=client_weighting(settings),
    loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
  )


def client_weighting(settings: registry.FedAvgSettings) -> tff.learning.ClientWeighting:
  """Reads `--client_weighting`."""
  if settings.client_weighting == 'uniform':
    return tff.learning.ClientWeighting.UNIFORM
  return tff.learning.ClientWeighting.NUM_EXAMPLES
