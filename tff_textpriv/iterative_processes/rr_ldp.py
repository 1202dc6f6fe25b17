"""Federated averaging of one randomized bit per coordinate (Nagy et al. 2023)."""

import tensorflow_federated as tff

from tff_textpriv.aggregators import bit_randomized_response
from tff_textpriv.iterative_processes import (
  algorithm_settings,
  fed_avg,
  optimizers,
  seeded_client_work,
)
from tff_textpriv.privacy import local


def build(
  model: tff.learning.models.FunctionalModel,
  settings: algorithm_settings.RrLdpSettings,
  plan: local.LdpPlan,
  seed: int,
) -> tff.learning.templates.LearningProcess:
  """Builds the process; see `registry.Algorithm.build`."""
  del seed  # Each client brings its own.
  initial_weights = seeded_client_work.initial_weights(model)
  weights_type = initial_weights.type_signature.result
  client_work = seeded_client_work.build(
    model, optimizers.client_optimizer(settings), fed_avg.client_weighting(settings)
  )
  result_type = client_work.next.type_signature.result.result.member
  return tff.learning.templates.compose_learning_process(
    initial_weights,
    tff.learning.templates.build_broadcast_process(weights_type),
    client_work,
    _aggregator(settings, plan).create(result_type.update, result_type.update_weight),
    tff.learning.templates.build_apply_optimizer_finalizer(
      optimizers.server_optimizer(settings), weights_type
    ),
  )


def _aggregator(
  settings: algorithm_settings.RrLdpSettings, plan: local.LdpPlan
) -> tff.aggregators.WeightedAggregationFactory:
  """Makes the mean of randomized bits that the settings ask for."""
  bound = settings.quantization_range or settings.client_learning_rate
  if settings.client_weighting == 'examples':
    return bit_randomized_response.BitMeanFactory(plan, bound)
  return tff.aggregators.as_weighted_aggregator(
    bit_randomized_response.UnweightedBitMeanFactory(plan, bound)
  )
