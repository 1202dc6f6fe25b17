"""Robust aggregation that needs every client's update by itself: trimmed mean and Krum.

The server collects the updates of a round, so that nothing is left of a secure sum, and
memory grows with the cohort. Both are for small cohorts of clients that all count alike.
"""

import collections
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import messages


def trimmed_mean(updates: tf.Tensor, share: float) -> tf.Tensor:
  """Averages each coordinate without its largest and its smallest values.

  Args:
    updates: Those of the clients, float32 [m, d], m >= 1.
    share: The share of clients that is left out on either side, below 1/2.

  Returns:
    float32 [d].
  """
  num_clients = tf.shape(updates)[0]
  cut = _faulty(num_clients, share)
  in_order = tf.sort(updates, axis=0)
  return tf.reduce_mean(in_order[cut : num_clients - cut], axis=0)


def krum(updates: tf.Tensor, share: float, *, chooses_one: bool) -> tf.Tensor:
  """Returns the update, or the mean of those, that stand nearest to most others.

  With f faulty clients of m, the score of an update is the sum of the squared distances to
  the m - f - 2 nearest others.

  Args:
    updates: Those of the clients, float32 [m, d], m >= 1.
    share: The share f / m of clients that may be faulty.
    chooses_one: Whether the update of the least score is taken (Krum), or the mean of the
      m - f with the least scores (Multi-Krum).

  Returns:
    float32 [d].
  """
  num_clients = tf.shape(updates)[0]
  faulty = _faulty(num_clients, share)
  neighbours = tf.maximum(num_clients - faulty - 2, 1)
  lengths = tf.reduce_sum(tf.square(updates), axis=1)
  products = tf.matmul(updates, updates, transpose_b=True)
  squares = lengths[:, tf.newaxis] + lengths - 2 * products
  # The nearest is the client itself.
  nearest = tf.sort(tf.maximum(squares, 0.0), axis=1)[:, 1 : neighbours + 1]
  number = 1 if chooses_one else num_clients - faulty
  best = tf.argsort(tf.reduce_sum(nearest, axis=1), stable=True)[:number]
  return tf.reduce_mean(tf.gather(updates, best), axis=0)


def _faulty(num_clients: tf.Tensor, share: float) -> tf.Tensor:
  """Returns how many clients are that share, rounded down; less than half of them."""
  faulty = tf.cast(tf.cast(num_clients, tf.float32) * share, tf.int32)
  return tf.minimum(faulty, (num_clients - 1) // 2)


class SingleUpdatesFactory(tff.aggregators.WeightedAggregationFactory):
  """Collects the updates of a round and makes one of them.

  Clients of weight 0 take no part; the others count alike. Without any the result is
  zero. Measurement: `collected_updates`, their number.
  """

  def __init__(self, combine: Callable[[tf.Tensor], tf.Tensor]):
    """Makes the factory.

    Args:
      combine: Makes one update of those of the clients, float32 [m, d], m >= 1.
    """
    self._combine = combine

  def create(
    self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Builds the aggregation of updates of one type; see the base class."""
    shapes = [tensor.shape for tensor in tff.structure.flatten(value_type)]
    size = sum(math.prod(shape) for shape in shapes)

    @tff.tensorflow.computation(value_type, weight_type)
    def as_row(value, weight):
      leaves = tf.nest.flatten(value)
      row = tf.concat([tf.reshape(leaf, [1, -1]) for leaf in leaves], axis=1)
      takes_part = tf.reshape(weight > 0, [1])
      return collections.OrderedDict(
        update=collections.OrderedDict(row=row, takes_part=takes_part)
      )

    rows_type = tff.to_type(
      collections.OrderedDict(
        row=tff.TensorType(np.float32, [None, size]),
        takes_part=tff.TensorType(np.bool_, [None]),
      )
    )

    @tff.tensorflow.computation
    def nobody():
      return collections.OrderedDict(
        row=tf.zeros([0, size]), takes_part=tf.zeros([0], tf.bool)
      )

    @tff.tensorflow.computation(rows_type, as_row.type_signature.result)
    def accumulate(rows, client):
      return _joined(rows, client['update'])

    @tff.tensorflow.computation(rows_type, rows_type)
    def merge(first, second):
      return _joined(first, second)

    @tff.tensorflow.computation(rows_type)
    def report(rows):
      updates = tf.boolean_mask(rows['row'], rows['takes_part'])
      number = tf.shape(updates)[0]
      result = tf.cond(
        number > 0,
        lambda: tf.ensure_shape(self._combine(updates), [size]),
        lambda: tf.zeros([size]),
      )
      measurements = collections.OrderedDict(collected_updates=number)
      return messages.cut(value_type, result), measurements

    @tff.federated_computation
    def initialize():
      return tff.federated_value((), tff.SERVER)

    @tff.federated_computation(
      initialize.type_signature.result,
      tff.FederatedType(value_type, tff.CLIENTS),
      tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_round(state, values, weights):
      clients = tff.federated_map(as_row, (values, weights))
      result, measurements = tff.federated_aggregate(
        clients, nobody(), accumulate, merge, report
      )
      return tff.templates.MeasuredProcessOutput(state, result, measurements)

    return tff.templates.AggregationProcess(initialize, next_round)


def _joined(first: Any, second: Any) -> collections.OrderedDict:
  return collections.OrderedDict(
    (name, tf.concat([first[name], second[name]], axis=0))
    for name in ('row', 'takes_part')
  )
