"""FedProx: federated averaging whose clients are pulled towards the server model."""

import tensorflow_federated as tff

from tff_textpriv.iterative_processes import fed_avg, optimizers, registry


def build(
  model: tff.learning.models.FunctionalModel,
  settings: registry.FedProxSettings,
  plan: None = None,
  seed: int = 0,
) -> tff.learning.templates.LearningProcess:
  """Builds the process; see `registry.Algorithm.build`."""
  del plan, seed  # No mechanism, no random numbers.
  return tff.learning.algorithms.build_weighted_fed_prox(
    model,
    proximal_strength=settings.proximal_strength,
    client_optimizer_fn=optimizers.client_optimizer(settings),
    server_optimizer_fn=optimizers.server_optimizer(settings),
    client_weighting=fed_avg.client_weighting(settings),
    loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
  )
