"""The mean of updates of which clients report one randomized bit per coordinate.

See `tff_textpriv.privacy.randomized_response` for the law of a bit. An unbiased report
of a coordinate is +-q / (2p - 1), so what has to be summed are signs, +1 or -1: whole
numbers, that add up exactly in any order. Everything that decides the privacy figure
comes from one `RandomizedBits`, the same object from which the ledger is charged.
"""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import bit_reports, client_seeds, messages
from tff_textpriv.privacy import errors, randomized_bits

_INT32_MAX = 2**31 - 1


class UnweightedBitMeanFactory(tff.aggregators.UnweightedAggregationFactory):
  """Estimates the mean of clients' clipped updates from their randomized bits.

  A client's update is set to zero if any of it is not finite (and the client is
  counted in `left_out_clients`, unless its users are promised something), each coordinate is clipped to [-q, q], and of each
  coordinate that the plan has the client report one randomized bit is drawn. The
  message is that of `bit_reports.message_type`: packed bits, and with coordinate sampling the seed
  by which the server knows which coordinates they are of. It is unpacked where it is
  added to the running sum. The result is an unbiased estimate of the mean, of the
  type of an update; without any client it is zero.

  Values are structures of float tensors, or, with the noise source `seeded`, ordered
  dictionaries of such an update named `delta` and a `seed`, int64 [2], that differs
  between clients and rounds. With the noise source `system` the seed may be left out, as
  in processes that TFF's own builders make (see `client_seeds`).

  With a `sum_factory`, such as `tff.aggregators.SecureSumFactory(1, -1)`, the signs are
  summed by that instead. What it gets is not packed, an int32 for each coordinate
  (0 where there is no report): a secure sum masks numbers modulo something larger than
  the cohort, and cannot mask bits. `bytes_per_client` then counts these numbers.
  """

  def __init__(
    self,
    plan: randomized_bits.RandomizedBits,
    sum_factory: tff.aggregators.UnweightedAggregationFactory | None = None,
  ):
    """Makes the factory of a plan's mechanism.

    Args:
      plan: Epsilon, the quantization range q, the number of coordinates, and how many
        of them are reported.
      sum_factory: What sums signs, instead of the sum of packed bits.
    """
    self._plan = plan
    self._sum_factory = sum_factory

  def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
    """Builds the aggregation of updates of one type; see the base class."""
    parts = _Parts(self._plan, value_type, None, self._sum_factory)

    @tff.federated_computation(
      parts.sum_process.initialize.type_signature.result,
      tff.FederatedType(value_type, tff.CLIENTS),
    )
    def next_round(state, values):
      return parts.next_round(state, tff.federated_map(parts.contribution, values))

    return tff.templates.AggregationProcess(parts.sum_process.initialize, next_round)


class BitMeanFactory(tff.aggregators.WeightedAggregationFactory):
  """The weighted twin of `UnweightedBitMeanFactory`.

  Weights are rounded to whole numbers, so that sums stay whole; a negative weight or
  one that is not finite counts as 0. They are sent as they are: a weight is not
  protected by the plan. A `SecureSumFactory` needs the largest weight, and minus that,
  as its bounds.
  """

  def __init__(
    self,
    plan: randomized_bits.RandomizedBits,
    sum_factory: tff.aggregators.UnweightedAggregationFactory | None = None,
  ):
    """Makes the factory of a plan's mechanism; see the unweighted one."""
    self._plan = plan
    self._sum_factory = sum_factory

  def create(
    self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Builds the aggregation of updates and weights; see the base class."""
    parts = _Parts(self._plan, value_type, weight_type, self._sum_factory)

    @tff.federated_computation(
      parts.sum_process.initialize.type_signature.result,
      tff.FederatedType(value_type, tff.CLIENTS),
      tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_round(state, values, weights):
      contributions = tff.federated_map(parts.contribution, (values, weights))
      return parts.next_round(state, contributions)

    return tff.templates.AggregationProcess(parts.sum_process.initialize, next_round)


class _PackedSumFactory(tff.aggregators.UnweightedAggregationFactory):
  """Sums messages into `signs` and `weight`, unpacking them one by one."""

  def __init__(self, plan: randomized_bits.RandomizedBits, dtype: tf.DType):
    self._plan = plan
    self._dtype = dtype

  def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
    plan, dtype = self._plan, self._dtype

    @tff.federated_computation
    def initialize():
      return tff.federated_value((), tff.SERVER)

    @tff.tensorflow.computation
    def zero():
      return collections.OrderedDict(
        signs=tf.zeros([plan.num_coordinates], dtype), weight=tf.zeros([], dtype)
      )

    sum_type = zero.type_signature.result

    @tff.tensorflow.computation(sum_type, value_type)
    def accumulate(total, message):
      return bit_reports.added(plan, total, message)

    @tff.tensorflow.computation(sum_type, sum_type)
    def merge(first, second):
      return tf.nest.map_structure(tf.add, first, second)

    @tff.tensorflow.computation(sum_type)
    def report(total):
      return total

    @tff.federated_computation(
      initialize.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
    )
    def next_round(state, reports):
      total = tff.federated_aggregate(reports, zero(), accumulate, merge, report)
      measurements = tff.federated_value((), tff.SERVER)
      return tff.templates.MeasuredProcessOutput(state, total, measurements)

    return tff.templates.AggregationProcess(initialize, next_round)


class _Parts:
  """What the weighted and the unweighted process have in common.

  Attributes:
    contribution: Makes of a client's value (and weight) its `message` and, where nothing
      is promised, the `count` of `left_out_clients`, 1 if the update was zeroed, or
      nothing but zeros.
    sum_process: Sums the messages into `signs` and `weight`.
  """

  def __init__(
    self,
    plan: randomized_bits.RandomizedBits,
    value_type: tff.Type,
    weight_type: tff.Type | None,
    sum_factory: tff.aggregators.UnweightedAggregationFactory | None,
  ):
    update_type = client_seeds.planned_update_type(
      value_type, plan.noise_source, plan.num_coordinates
    )
    dtype = tf.int32 if weight_type is None else tf.int64

    def contribute(value, weight):
      update, seed = client_seeds.update_and_seed(
        value, has_seed=update_type is not value_type, stream=plan.stream
      )
      values = messages.finite_vector(update)
      message = bit_reports.randomize(plan, values, seed)
      if weight is not None:
        message['weight'] = _whole_weight(weight)
      if sum_factory is not None:
        message = bit_reports.contribution(plan, message, dtype)
      contribution = collections.OrderedDict(message=message)
      if not plan.is_local_promise:
        nothing = tf.reduce_all(tf.equal(values, 0))
        contribution['count'] = collections.OrderedDict(
          left_out_clients=tf.cast(nothing, tf.int32)
        )
      return contribution

    self.contribution = (
      tff.tensorflow.computation(lambda value: contribute(value, None), value_type)
      if weight_type is None
      else tff.tensorflow.computation(contribute, [value_type, weight_type])
    )
    sent_type = self.contribution.type_signature.result.message
    self.sum_process = (sum_factory or _PackedSumFactory(plan, dtype)).create(sent_type)
    sum_type = self.sum_process.next.type_signature.result.result.member

    @tff.tensorflow.computation(sum_type)
    def estimate(total):
      mean = tf.math.divide_no_nan(
        plan.sign_value * tf.cast(total['signs'], tf.float64),
        tf.cast(total['weight'], tf.float64),
      )
      return messages.cut(update_type, mean)

    self._estimate = estimate
    self._is_local_promise = plan.is_local_promise
    self._bytes_per_client = np.int64(messages.num_bytes(sent_type))

  def next_round(self, state, contributions):
    """Sums, estimates, measures; called within a federated computation."""
    output = self.sum_process.next(state, contributions.message)
    measured = collections.OrderedDict(
      bytes_per_client=tff.federated_value(self._bytes_per_client, tff.SERVER)
    )
    if not self._is_local_promise:
      counts = tff.federated_sum(contributions.count)
      measured['left_out_clients'] = counts.left_out_clients
    measurements = tff.federated_zip(measured)
    mean = tff.federated_map(self._estimate, output.result)
    return tff.templates.MeasuredProcessOutput(output.state, mean, measurements)


def _whole_weight(weight: tf.Tensor) -> tf.Tensor:
  rounded = tf.round(tf.cast(weight, tf.float64))
  valid = tf.math.is_finite(rounded)
  kept = tf.clip_by_value(
    tf.where(valid, rounded, tf.zeros_like(rounded)), 0, _INT32_MAX
  )
  return tf.cast(kept, tf.int32)


def mean(
  mechanism: randomized_bits.RandomizedBits, *, by_examples: bool
) -> tff.aggregators.WeightedAggregationFactory:
  """Makes the mean of a mechanism; see `of_mechanism`."""
  if by_examples:
    if mechanism.is_local_promise:
      raise errors.PrivacyError(
        'a weight by examples is sent as it is, and tells how much a user has written; '
        'use --client_weighting=uniform, or --privacy_claim=false'
      )
    return BitMeanFactory(mechanism)
  return tff.aggregators.as_weighted_aggregator(UnweightedBitMeanFactory(mechanism))


def seen(
  mechanism: randomized_bits.RandomizedBits, update: Any, seed: tf.Tensor, view: str
) -> Any:
  """Returns what is read in the bits of one client's update; see `of_mechanism`."""
  del view  # Nobody sees more than what the client sends.
  values = messages.finite_vector(update)
  estimate = bit_reports.estimate(
    mechanism, bit_reports.randomize(mechanism, values, seed)
  )
  return messages.like(update, estimate)
