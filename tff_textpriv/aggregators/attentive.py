"""Attentive aggregation: how much each client's model counts in the server step.

Jiang et al. (2020) step along the gradient of a loss that joins attention to clients and
their distances. What they print, what follows from it and what the same authors did
before are rules of their own (`attention_rules`, docs/fed_att.md). With granularity
`layer` every weight tensor is a model of its own.
"""

import collections
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import (
  attention_rules,
  attention_sums,
  geometric_median,
)

ATTENTIONS = ('exact', 'smoothed', 'paper', 'loss', 'layerwise', 'uniform')
GRANULARITIES = ('model', 'layer')
STEPS = ('relative', 'gradient')
DISTANCES = ('by_work', 'from_server', 'from_centre')

# Passes over the clients in which the centre is found.
_ITERATIONS = 4


class AttentiveFactory(tff.aggregators.WeightedAggregationFactory):
  """Weighs clients by attention.

  The value of a client is an ordered dictionary of its `update` v_k, a structure of
  float tensors, and `products`, the inner products of theta and v_k tensor by tensor,
  float32 [number of tensors]: only the client holds both when they are needed. The weight
  is the number of examples that it trained on. Clients of weight 0 take no part; those of
  others count alike, but for what distances are relative to. Clients whose values or
  distances are not finite, or far too large, take no part either. These, and clients
  whose update is nothing, are counted.

  The result is an ordered dictionary of `gradient`, of the type of an update, and
  `shrinkage`, float32 [number of tensors], by which theta is to be multiplied tensor by
  tensor and added to the gradient; only `paper` has any.

  The state is what the rule remembers of the round before; only `smoothed` does.

  Measurements: `attention_entropy` in nats (the mean over layers; log m if all clients
  count alike), `attention_max`, the largest weight of a client (in any layer); with
  `exact` and `smoothed` `distance_weight_max`, the largest share of a client in the sum of
  weights by distance; the number of `attended_clients` and of `left_out_clients`.
  """

  def __init__(
    self,
    attention: str = 'exact',
    granularity: str = 'model',
    step: str = 'relative',
    *,
    temperature: float = 1.0,
    smoothing: float = 1.0,
    distance: str = 'by_work',
  ):
    """Makes the factory of a rule.

    Args:
      attention: One of `ATTENTIONS`.
      granularity: `model` attends to whole models, `layer` to each weight tensor.
      step: `gradient` leaves the result as it is. `relative` divides it by
        sum_k 2 / d_k (`exact`, `paper`) or by 2 (`loss`). The other rules are means
        already.
      temperature: That of the softmax of `loss`.
      smoothing: lambda of `smoothed`.
      distance: Of `smoothed`: how far a client went for the work that it did, how far it
        went, or how far it is from the geometric median of all, which takes more passes.
    """
    for value, allowed in (
      (attention, ATTENTIONS),
      (granularity, GRANULARITIES),
      (step, STEPS),
      (distance, DISTANCES),
    ):
      if value not in allowed:
        raise ValueError(f'{value!r} is none of {", ".join(allowed)}')
    relative = step == 'relative'
    rules: dict[str, Callable[[], attention_rules.Rule]] = {
      'exact': lambda: attention_rules.Exact(relative=relative),
      'smoothed': lambda: attention_rules.Smoothed(
        smoothing, by_work=distance == 'by_work'
      ),
      'paper': lambda: attention_rules.Paper(relative=relative),
      'loss': lambda: attention_rules.Loss(temperature, relative=relative),
      'layerwise': attention_rules.Layerwise,
      'uniform': attention_rules.Uniform,
    }
    self._rule = rules[attention]()
    self._granularity = granularity
    self._finds_centre = attention == 'smoothed' and distance == 'from_centre'

  def create(
    self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Builds the aggregation of clients' values of one type; see the base class."""
    update_type = value_type['update']
    units = attention_sums.make_units(update_type, self._granularity)
    rule = attention_sums.Sums(self._rule, units)
    usual_type = tff.TensorType(np.float32, [len(units)])
    # What distances are measured from: the median of all updates, or no update.
    median = None
    if self._finds_centre:
      median = geometric_median.GeometricMedian(update_type, units, _ITERATIONS)
    centre_type = tff.to_type(()) if median is None else update_type

    @tff.tensorflow.computation(value_type, weight_type, usual_type, centre_type)
    def lift(value, weight, usual, centre):
      centre = None if median is None else centre
      sums = rule.lift(value['update'], value['products'], weight, usual, centre)
      return collections.OrderedDict(update=sums)

    sums_type = lift.type_signature.result['update']

    @tff.tensorflow.computation
    def zero():
      return rule.zero(sums_type)

    @tff.tensorflow.computation(sums_type, lift.type_signature.result)
    def accumulate(sums, lifted):
      return rule.merge(sums, lifted['update'])

    @tff.tensorflow.computation(sums_type, sums_type)
    def merge(first, second):
      return rule.merge(first, second)

    @tff.tensorflow.computation(sums_type)
    def report(sums):
      return rule.report(sums)

    @tff.tensorflow.computation(value_type, weight_type)
    def candidate(value, weight):
      return value['update'], geometric_median.present(value['update'], weight)

    @tff.tensorflow.computation
    def nothing_yet():
      return tf.zeros([len(units)])

    @tff.federated_computation
    def initialize():
      return tff.federated_eval(nothing_yet, tff.SERVER)

    @tff.federated_computation(
      initialize.type_signature.result,
      tff.FederatedType(value_type, tff.CLIENTS),
      tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_round(state, values, weights):
      usual = tff.federated_broadcast(state)
      centre = tff.federated_value((), tff.CLIENTS)
      if median is not None:
        updates, presences = tff.federated_map(candidate, (values, weights))
        centre = tff.federated_broadcast(median.find(updates, presences))
      lifted = tff.federated_map(lift, (values, weights, usual, centre))
      memory, result, measurements = tff.federated_aggregate(
        lifted, zero(), accumulate, merge, report
      )
      return tff.templates.MeasuredProcessOutput(memory, result, measurements)

    return tff.templates.AggregationProcess(initialize, next_round)


def client_value(weights: Sequence[tf.Tensor], update: Any) -> collections.OrderedDict:
  """Makes the value that a client hands to the aggregation.

  Args:
    weights: The server's model theta, as the client received it.
    update: theta - theta_k, tensor by tensor.

  Returns:
    The update and its products with theta; see `AttentiveFactory`.
  """
  products = [
    tf.tensordot(tf.reshape(theta, [-1]), tf.reshape(part, [-1]), 1)
    for theta, part in zip(
      tf.nest.flatten(weights), tf.nest.flatten(update), strict=True
    )
  ]
  return collections.OrderedDict(update=update, products=tf.stack(products))
