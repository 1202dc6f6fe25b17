"""DP-FedAvg: unweighted federated averaging with a private mean."""

import tensorflow_federated as tff

from tff_textpriv.aggregators import dp_mean
from tff_textpriv.iterative_processes import algorithm_settings, optimizers
from tff_textpriv.privacy import plans


def build(
  model: tff.learning.models.FunctionalModel,
  settings: algorithm_settings.DpFedAvgSettings,
  plan: plans.CentralDpPlan,
  seed: int,
) -> tff.learning.templates.LearningProcess:
  """Builds the process; see `registry.Algorithm.build`."""
  return tff.learning.algorithms.build_unweighted_fed_avg(
    model,
    client_optimizer_fn=optimizers.client_optimizer(settings),
    server_optimizer_fn=optimizers.server_optimizer(settings),
    model_aggregator=dp_mean.DpMeanFactory(plan, seed),
    loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
  )
