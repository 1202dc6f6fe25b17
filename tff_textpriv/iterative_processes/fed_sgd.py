"""Federated SGD: each client sends the mean gradient over its data."""

import tensorflow_federated as tff

from tff_textpriv.aggregators import sound_updates
from tff_textpriv.iterative_processes import algorithm_settings, optimizers


def build(
  model: tff.learning.models.FunctionalModel,
  settings: algorithm_settings.FedSgdSettings,
  plan: None = None,
  seed: int = 0,
) -> tff.learning.templates.LearningProcess:
  """Builds the process; see `registry.Algorithm.build`."""
  del plan, seed  # No mechanism, no random numbers.
  return tff.learning.algorithms.build_fed_sgd(
    model,
    server_optimizer_fn=optimizers.server_optimizer(settings),
    model_aggregator=sound_updates.SoundMeanFactory(),
    loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
  )
