"""Which updates may enter a mean: one bad client must not spoil the model of all.

A client whose data or machine is broken sends numbers that are not finite, or so large
that a sum of them is not. Such an update counts as nothing, and is counted. This is no
defence against clients that lie: within the limit, a plain mean believes them.
"""

import collections
from collections.abc import Iterable
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import messages
from tff_textpriv.privacy import no_mechanism

# Updates of language models and classifiers are thousands of times smaller.
LARGEST = 1e6


def are_sound(tensors: Iterable[tf.Tensor]) -> tf.Tensor:
  """Tells whether all numbers are finite and of a size that an update can have."""
  checks = [tf.reduce_all(tf.abs(tensor) <= LARGEST) for tensor in tensors]
  # A comparison with NaN is false.
  return tf.reduce_all(tf.stack([tf.constant(True), *checks]))


def are_nothing(tensors: Iterable[tf.Tensor]) -> tf.Tensor:
  """Tells whether there are numbers, and all of them are zero."""
  checks = [tf.reduce_all(tf.equal(tensor, 0)) for tensor in tensors]
  return tf.reduce_all(tf.stack(checks)) if checks else tf.constant(False)


class SoundMeanFactory(tff.aggregators.WeightedAggregationFactory):
  """TFF's weighted mean, of the clients whose updates are sound.

  Measurement: `left_out_clients`, those that changed nothing. They had no data, their
  training diverged, or their update was not sound.
  """

  def create(
    self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Builds the aggregation of updates of one type; see the base class."""
    mean = tff.aggregators.MeanFactory(
      messages.NamedSumFactory('update'), messages.NamedSumFactory('weight')
    ).create(value_type, weight_type)

    @tff.tensorflow.computation(value_type, weight_type)
    def check(value, weight):
      leaves = tf.nest.flatten(value)
      sound = are_sound(leaves) & tf.math.is_finite(tf.cast(weight, tf.float32))
      kept = tf.nest.map_structure(
        lambda leaf: tf.where(sound, leaf, tf.zeros_like(leaf)), value
      )
      kept_weight = tf.where(sound, weight, tf.zeros_like(weight))
      left_out = are_nothing(tf.nest.flatten(kept)) | tf.equal(kept_weight, 0)
      count = collections.OrderedDict(left_out_clients=tf.cast(left_out, tf.int32))
      return kept, kept_weight, count

    @tff.federated_computation(
      mean.initialize.type_signature.result,
      tff.FederatedType(value_type, tff.CLIENTS),
      tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_round(state, values, weights):
      kept, kept_weights, left_out = tff.federated_map(check, (values, weights))
      output = mean.next(state, kept, kept_weights)
      return tff.templates.MeasuredProcessOutput(
        output.state, output.result, tff.federated_sum(left_out)
      )

    return tff.templates.AggregationProcess(mean.initialize, next_round)


def mean(
  mechanism: no_mechanism.NoMechanism, *, by_examples: bool
) -> tff.aggregators.WeightedAggregationFactory:
  """Makes the mean without a mechanism; see `of_mechanism`."""
  del mechanism, by_examples  # Clients bring their weights.
  return SoundMeanFactory()


def seen(
  mechanism: no_mechanism.NoMechanism, update: Any, seed: tf.Tensor, view: str
) -> Any:
  """Returns what is seen of one client's update: all of it; see `of_mechanism`."""
  del mechanism, seed, view  # Nothing hides it.
  return update
