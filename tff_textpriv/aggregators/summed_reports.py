"""The mean of reports that clients make of their updates and the server adds up.

What a client reports, what that adds to a sum of whole numbers, and what the sum says of
the mean is each law's own; how they become a TFF aggregation is told here.
"""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import client_seeds, messages
from tff_textpriv.privacy import errors, vector_reports


class Law(NamedTuple):
  """How updates become reports, and sums of them an estimate.

  Attributes:
    plan: Epsilon, the number of coordinates, and where random numbers come from.
    randomize: Makes of an update, a structure of float tensors, and a seed, int64 [2],
      the message of a client: an ordered dictionary of tensors.
    sum_size: How many numbers the sum has.
    add: Returns the sum, int64 [sum_size], with a message added to it.
    read: Makes of the sum of one report, or the mean of several, float64 [sum_size], the
      estimate of the update, or of the mean, [at least d].
  """

  plan: vector_reports.VectorReports
  randomize: Callable[[Any, tf.Tensor], collections.OrderedDict]
  sum_size: int
  add: Callable[[tf.Tensor, collections.OrderedDict], tf.Tensor]
  read: Callable[[tf.Tensor], tf.Tensor]


def mean_process(law: Law, value_type: tff.Type) -> tff.templates.AggregationProcess:
  """Builds the aggregation of updates of one type by a law.

  Args:
    law: The law of reports.
    value_type: That of updates, or of ordered dictionaries of an update named `delta` and
      a `seed`, int64 [2].

  Returns:
    The process. Its result is the mean, of the type of an update; zeros without a client.
  """
  plan = law.plan
  update_type = client_seeds.planned_update_type(
    value_type, plan.noise_source, plan.num_coordinates
  )

  @tff.tensorflow.computation(value_type)
  def reported(value):
    update, seed = client_seeds.update_and_seed(
      value, has_seed=update_type is not value_type, stream=plan.stream
    )
    return law.randomize(update, seed)

  message_type = reported.type_signature.result
  num_bytes = np.int64(messages.num_bytes(message_type))

  @tff.tensorflow.computation
  def zero():
    return collections.OrderedDict(
      numbers=tf.zeros([law.sum_size], tf.int64), count=tf.zeros([], tf.int64)
    )

  sum_type = zero.type_signature.result

  @tff.tensorflow.computation(sum_type, message_type)
  def accumulate(total, message):
    return collections.OrderedDict(
      numbers=law.add(total['numbers'], message), count=total['count'] + 1
    )

  @tff.tensorflow.computation(sum_type, sum_type)
  def merge(first, second):
    return tf.nest.map_structure(tf.add, first, second)

  @tff.tensorflow.computation(sum_type)
  def report(total):
    return total

  @tff.tensorflow.computation(sum_type)
  def estimate(total):
    count = tf.cast(total['count'], tf.float64)
    mean = tf.math.divide_no_nan(tf.cast(total['numbers'], tf.float64), count)
    return messages.cut(update_type, law.read(mean))

  @tff.federated_computation
  def initialize():
    return tff.federated_value((), tff.SERVER)

  @tff.federated_computation(
    initialize.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
  )
  def next_round(state, values):
    reports = tff.federated_map(reported, values)
    total = tff.federated_aggregate(reports, zero(), accumulate, merge, report)
    measured = collections.OrderedDict(
      bytes_per_client=tff.federated_value(num_bytes, tff.SERVER)
    )
    return tff.templates.MeasuredProcessOutput(
      state, tff.federated_map(estimate, total), tff.federated_zip(measured)
    )

  return tff.templates.AggregationProcess(initialize, next_round)


def estimate_of_one(law: Law, update: Any, seed: tf.Tensor) -> Any:
  """Returns what is read in one client's report, a structure like the update."""
  nothing = tf.zeros([law.sum_size], tf.int64)
  numbers = law.add(nothing, law.randomize(update, seed))
  vector = law.read(tf.cast(numbers, tf.float64))[: law.plan.num_coordinates]
  return messages.like(update, tf.cast(vector, tf.float32))


def check_weights(by_examples: bool) -> None:
  """Refuses weights, which would leave the device in the clear."""
  if by_examples:
    raise errors.PrivacyError(
      'private reports are not weighted by examples, which would tell how much a user has '
      'written; use --client_weighting=uniform'
    )
