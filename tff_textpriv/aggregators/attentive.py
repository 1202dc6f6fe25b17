"""Attentive aggregation: how much each client's model counts in the server step.

Notation, for m clients: theta is the server's model, theta_k client k's,
v_k = theta - theta_k the update that TFF's clients send, d_k = ||v_k||^2, n the number
of coordinates, s_k = theta . theta_k / sqrt(n) and a = softmax(s). Jiang et al. (2020)
step along the gradient of L' = sum_k (log a_k + log d_k); docs/fed_att.md derives

  paper      sum_k (2 v_k / d_k - v_k / sqrt(n)) + m theta / sqrt(n)
  exact      sum_k (2 v_k / d_k - v_k / sqrt(n)) + m / sqrt(n) sum_k a_k v_k
  layerwise  sum_k a_k v_k, where a = softmax(||v_1||, ..., ||v_m||)
  uniform    sum_k v_k / m, for comparison

`paper` is Eq. 9 as printed, without the softmax's normalizer; `exact` has it; the third
is the same authors' earlier rule. With granularity `layer` every weight tensor is a
model of its own.
"""

import collections
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import attention_sums

ATTENTIONS = ('paper', 'exact', 'layerwise', 'uniform')
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
  count alike), `attention_max`, the largest weight of a client (in any layer), and
  `distance_weight_max`, the largest share of a client in sum_k 1 / d_k, which is what
  weighs updates in `paper` and `exact`; the number of `attended_clients` and of
  `left_out_clients`.
  """

  def __init__(
    self, attention: str = 'exact', granularity: str = 'model', step: str = 'relative'
  ):
    """Makes the factory of a rule.

    Args:
      attention: One of `ATTENTIONS`.
      granularity: `model` attends to whole models, `layer` to each weight tensor.
      step: `gradient` leaves the result as it is. `relative` divides it by
        sum_k 2 / d_k, so that the updates' weights, but for the terms in 1 / sqrt(n),
        sum to one, whatever the distances are. The other rules are means already.
    """
    for value, allowed in (
      (attention, ATTENTIONS),
      (granularity, GRANULARITIES),
      (step, STEPS),
    ):
      if value not in allowed:
        raise ValueError(f'{value!r} is none of {", ".join(allowed)}')
    self._attention = attention
    self._granularity = granularity
    self._step = step

  def create(
    self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Builds the aggregation of clients' values of one type; see the base class."""
    units = attention_sums.make_units(value_type['update'], self._granularity)
    rule = attention_sums.Rule(self._attention, self._step, units)

    @tff.tensorflow.computation(value_type, weight_type)
    def lift(value, weight):
      sums = rule.lift(value['update'], value['products'], weight)
      return collections.OrderedDict(update=sums)

    sums_type = lift.type_signature.result['update']

    @tff.tensorflow.computation
    def zero():
      return rule.zero(value_type['update'])

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
