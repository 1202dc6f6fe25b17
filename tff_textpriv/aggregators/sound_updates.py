"""Which updates may enter a mean: one bad client must not spoil the model of all.

A client whose data or machine is broken sends numbers that are not finite, or so large
that a sum of them is not. Such an update counts as nothing, and is counted. This is no
defence against clients that lie: within the limit, a plain mean believes them.
"""

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import messages
from tff_textpriv.privacy import no_mechanism

# The longest a tensor of an update may be. Those of language models and classifiers are
# thousands of times shorter.
LONGEST = 1e6


def are_sound(tensors: Iterable[tf.Tensor]) -> tf.Tensor:
  """Tells whether all are finite and of a length that a part of an update can have."""
  # A comparison with NaN is false.
  return _hold_for_all(tensors, lambda half_square: half_square <= LONGEST**2 / 2)


def are_nothing(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
  """Tells whether there are numbers, and all of them are zero."""
  is_zero = _hold_for_all(tensors, lambda half_square: tf.equal(half_square, 0))
  return is_zero & tf.constant(bool(tensors))


def _hold_for_all(
  tensors: Iterable[tf.Tensor], check: Callable[[tf.Tensor], tf.Tensor]
) -> tf.Tensor:
  """Tells whether half of the squared length of every tensor passes a check.

  One operation a tensor: what looks at every number takes a while for a whole model.
  """
  checks = [check(tf.nn.l2_loss(tensor)) for tensor in tensors]
  return tf.reduce_all(tf.stack([tf.constant(True), *checks]))


class SoundMeanFactory(tff.aggregators.WeightedAggregationFactory):
  """A mean of the clients whose updates are sound.

  Measurements: `left_out_clients`, those that changed nothing. They had no data, their
  training diverged, or their update was not sound. With a mean that was given, its own
  measurements too, as `mean`.
  """

  def __init__(self, mean: tff.aggregators.WeightedAggregationFactory | None = None):
    """Makes the factory.

    Args:
      mean: Given no update that is not sound, and zeros of weight 0 in its place; by
        default TFF's weighted mean.
    """
    self._mean = mean

  def create(
    self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Builds the aggregation of updates of one type; see the base class."""
    mean = (self._mean or named_mean()).create(value_type, weight_type)

    @tff.tensorflow.computation(value_type, weight_type)
    def check(value, weight):
      leaves = tf.nest.flatten(value)
      sound = are_sound(leaves) & tf.math.is_finite(tf.cast(weight, tf.float32))
      # One or the other, not number by number.
      kept = tf.cond(
        sound, lambda: leaves, lambda: [tf.zeros_like(leaf) for leaf in leaves]
      )
      kept = tf.nest.pack_sequence_as(value, kept)
      kept_weight = tf.where(sound, weight, tf.zeros_like(weight))
      left_out = ~sound | are_nothing(leaves) | tf.equal(kept_weight, 0)
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
      measurements = tff.federated_sum(left_out)
      if self._mean is not None:
        measurements = tff.federated_zip(
          collections.OrderedDict(
            left_out_clients=measurements.left_out_clients, mean=output.measurements
          )
        )
      return tff.templates.MeasuredProcessOutput(
        output.state, output.result, measurements
      )

    return tff.templates.AggregationProcess(mean.initialize, next_round)


def named_mean() -> tff.aggregators.MeanFactory:
  """Makes TFF's weighted mean, whose sums have names for those who list what is sent."""
  return tff.aggregators.MeanFactory(
    messages.NamedSumFactory('update'),
    messages.NamedSumFactory('weight'),
    no_nan_division=True,
  )


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
