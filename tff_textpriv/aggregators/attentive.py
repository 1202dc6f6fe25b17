"""Attentive aggregation: how much each client's model counts in the server step.

Jiang et al. (2020) step along the gradient of a loss that joins attention to clients and
their distances. What they print, what follows from it and what the same authors did
before are rules of their own (`attention_rules`, docs/fed_att.md). With granularity
`layer` every weight tensor is a model of its own.
"""

import collections
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import attention_rules, attention_sums

# Makes a rule, given the temperature and whether its step is relative.
_RULES: dict[str, Callable[[float, bool], attention_rules.Rule]] = {
  'exact': lambda _, relative: attention_rules.Exact(relative=relative),
  'paper': lambda _, relative: attention_rules.Paper(relative=relative),
  'loss': lambda t, relative: attention_rules.Loss(t, relative=relative),
  'layerwise': lambda _, relative: attention_rules.Layerwise(relative=relative),
  'uniform': lambda _, relative: attention_rules.Uniform(relative=relative),
}
ATTENTIONS = tuple(_RULES)
GRANULARITIES = ('model', 'layer')
STEPS = ('relative', 'gradient')


class AttentiveFactory(tff.aggregators.WeightedAggregationFactory):
  """Weighs clients by attention.

  The value of a client is an ordered dictionary of its `update` v_k, a structure of
  float tensors, and `products`, the inner products of theta and v_k tensor by tensor,
  float32 [number of tensors]: only the client holds both when they are needed. Clients
  of weight 0 take no part; other weights all count alike. Clients whose values or
  distances are not finite, or far too large, take no part either. These, and clients
  whose update is nothing, are counted.

  The result is an ordered dictionary of `gradient`, of the type of an update, and
  `shrinkage`, float32 [number of tensors], by which theta is to be multiplied tensor by
  tensor and added to the gradient; only `paper` has any.

  Measurements: `attention_entropy` in nats (the mean over layers; log m if all clients
  count alike), `attention_max`, the largest weight of a client (in any layer); with
  `exact` `distance_weight_max`, the largest share of a client in sum_k 1 / d_k, which is
  what weighs updates; the number of `attended_clients` and of `left_out_clients`.
  """

  def __init__(
    self,
    attention: str = 'exact',
    granularity: str = 'model',
    step: str = 'relative',
    temperature: float = 1.0,
  ):
    """Makes the factory of a rule.

    Args:
      attention: One of `ATTENTIONS`.
      granularity: `model` attends to whole models, `layer` to each weight tensor.
      step: `gradient` leaves the result as it is. `relative` divides it by
        sum_k 2 / d_k (`exact`, `paper`) or by 2 (`loss`). The other rules are means
        already.
      temperature: That of the softmax of `loss`.
    """
    for value, allowed in (
      (attention, ATTENTIONS),
      (granularity, GRANULARITIES),
      (step, STEPS),
    ):
      if value not in allowed:
        raise ValueError(f'{value!r} is none of {", ".join(allowed)}')
    self._rule = _RULES[attention](temperature, step == 'relative')
    self._granularity = granularity

  def create(
    self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Builds the aggregation of clients' values of one type; see the base class."""
    units = attention_sums.make_units(value_type['update'], self._granularity)
    rule = attention_sums.Sums(self._rule, units)

    @tff.tensorflow.computation(value_type, weight_type)
    def lift(value, weight):
      sums = rule.lift(value['update'], value['products'], weight)
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

    @tff.federated_computation
    def initialize():
      return tff.federated_value((), tff.SERVER)

    @tff.federated_computation(
      initialize.type_signature.result,
      tff.FederatedType(value_type, tff.CLIENTS),
      tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_round(state, values, weights):
      lifted = tff.federated_map(lift, (values, weights))
      result, measurements = tff.federated_aggregate(
        lifted, zero(), accumulate, merge, report
      )
      return tff.templates.MeasuredProcessOutput(state, result, measurements)

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
