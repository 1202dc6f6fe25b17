"""Private vocabularies: each user's vocabulary and embedding table stay on the device.

A user assembles its table and the received model; adapts the table, for one epoch, with
the rest frozen; trains both; and sends the rest, which is averaged by examples. Reference:
Zhang et al., Federated Model Decomposition with Private Vocabulary for Text
Classification (2022), Algorithm 1.
"""

import tensorflow_federated as tff

from tff_textpriv.iterative_processes import (
  algorithm_settings,
  local_training,
  optimizers,
  partially_local,
)


def build(
  model: tff.learning.models.FunctionalModel,
  settings: algorithm_settings.FedeVocabSettings,
  plan: None = None,
  seed: int = 0,
  aggregator: tff.aggregators.WeightedAggregationFactory | None = None,
) -> tff.learning.templates.LearningProcess:
  """Builds the process; see `registry.Algorithm.build`.

  `aggregator` takes the place of the mean, weighted by examples.
  """
  del plan, seed  # No mechanism, no random numbers.
  return partially_local.build(
    model, make_device(model, settings), settings, aggregator
  )


def make_device(
  model: tff.learning.models.FunctionalModel,
  settings: algorithm_settings.FedeVocabSettings,
) -> partially_local.Device:
  """Describes a device: the first weight, the table, is its own."""
  step = settings.client_learning_rate
  return partially_local.Device(
    local_training.LocalTrainer(
      model,
      optimizers.client_optimizer(settings),
      num_local=1,
      local_step=(settings.table_learning_rate or step) / step,
    ),
    adapts=settings.adaptive_updating,
  )
