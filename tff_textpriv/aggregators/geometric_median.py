"""The geometric median of updates, by sums over the clients and nothing else.

The point z from which the sum of distances to all updates is least: less than half of the
clients, however far they are, cannot carry it away. Weiszfeld's algorithm averages the
updates with weights 1 / |v_k - z|, again and again; each time the server sends z, and
clients answer with one update and one weight.
"""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import attention_sums, messages, sound_updates

# Distances below this share of z's own length count as so much: a client on the spot
# would have all of the weight.
_LEAST_SHARE = 1e-3
_TINY = 1e-30


def present(update: Any, weight: tf.Tensor) -> tf.Tensor:
  """Tells whether a client takes part, 1 or 0; runs on the client."""
  sound = sound_updates.are_sound(tf.nest.flatten(update))
  return tf.cast(sound & (weight > 0), tf.float32)


class GeometricMedianFactory(tff.aggregators.WeightedAggregationFactory):
  """The geometric median of updates, each with its weight, in place of their mean.

  Reference: Pillutla et al., Robust Aggregation for Federated Learning (2022).
  """

  def __init__(self, iterations: int):
    """Makes the factory; see `GeometricMedian`."""
    self._iterations = iterations

  def create(
    self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Builds the aggregation of updates of one type; see the base class."""
    units = attention_sums.make_units(value_type, 'model')
    median = GeometricMedian(value_type, units, self._iterations)

    @tff.federated_computation
    def initialize():
      return tff.federated_value((), tff.SERVER)

    @tff.federated_computation(
      initialize.type_signature.result,
      tff.FederatedType(value_type, tff.CLIENTS),
      tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_round(state, values, weights):
      return tff.templates.MeasuredProcessOutput(
        state, median.find(values, weights), tff.federated_value((), tff.SERVER)
      )

    return tff.templates.AggregationProcess(initialize, next_round)


class GeometricMedian:
  """Finds the geometric median of updates of one type; to be used in a federated computation."""

  def __init__(
    self, update_type: tff.Type, units: attention_sums.Units, iterations: int
  ):
    """Prepares the passes.

    Args:
      update_type: That of a client's update, a structure of float tensors.
      units: Of what a median is taken: whole models, or each weight tensor.
      iterations: Passes over the clients after the first, which takes the mean.
    """
    weight_type = tff.TensorType(np.float32, [len(units)])

    @tff.tensorflow.computation(update_type, np.float32)
    def of_mean(update, own_weight):
      return _weighted(units, update, own_weight * tf.ones([len(units)]))

    @tff.tensorflow.computation(update_type, np.float32, update_type)
    def of_median(update, own_weight, centre):
      away = tf.nest.map_structure(tf.subtract, update, centre)
      distance = tf.sqrt(units.squared_norms(away))
      least = _LEAST_SHARE * tf.sqrt(units.squared_norms(centre)) + _TINY
      weight = own_weight * tf.math.reciprocal_no_nan(tf.maximum(distance, least))
      return _weighted(units, update, weight)

    # Named as what it is made of, for whoever lists what clients send.
    total = messages.NamedSumFactory('update')
    self._sum = total.create(of_mean.type_signature.result)

    @tff.tensorflow.computation(update_type, weight_type)
    def divide(weighted, weight):
      return units.scale(weighted, tf.math.reciprocal_no_nan(weight))

    self._of_mean, self._of_median, self._divide = of_mean, of_median, divide
    self._iterations = iterations

  def find(self, updates: Any, weights: Any) -> Any:
    """Returns the median, at the server.

    Args:
      updates: Those of the clients.
      weights: How much each counts; those of 0 take no part.
    """
    centre = self._mean(tff.federated_map(self._of_mean, (updates, weights)))
    for _ in range(self._iterations):
      at_clients = tff.federated_broadcast(centre)
      parts = tff.federated_map(self._of_median, (updates, weights, at_clients))
      centre = self._mean(parts)
    return centre

  def _mean(self, parts: Any) -> Any:
    total = self._sum.next(self._sum.initialize(), parts).result
    return tff.federated_map(self._divide, (total.weighted, total.weight))


def _weighted(
  units: attention_sums.Units, update: Any, weight: tf.Tensor
) -> collections.OrderedDict:
  """Returns an update times its weight, and the weight; nothing for one that is absent."""
  kept = tf.nest.map_structure(
    lambda leaf: tf.where(tf.math.is_finite(leaf), leaf, 0.0), update
  )
  return collections.OrderedDict(weighted=units.scale(kept, weight), weight=weight)
