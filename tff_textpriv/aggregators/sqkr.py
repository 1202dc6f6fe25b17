"""The mean of updates of which clients report a few bits, randomized together.

See `tff_textpriv.privacy.sqkr` for the law. Everything that decides the privacy figure
comes from one `Sqkr`, the same object from which the ledger is charged.
"""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import coordinates, messages, rotation, summed_reports
from tff_textpriv.privacy import sqkr


class SqkrMeanFactory(tff.aggregators.UnweightedAggregationFactory):
  """Estimates the mean of clients' clipped updates from a few private bits of each.

  A client's update is set to zero if any of it is not finite, clipped to the L2 norm of
  the plan, rotated, and of some rotated coordinates a sign is drawn; the signs together
  are randomized. The message is `bits`, uint8 [ceil(k / 8)], and `selection`, int64 [2],
  the seed by which the server knows which coordinates they are of. The server adds k
  numbers per report to its sum, and rotates back once. The result is an estimate of the
  mean, unbiased but for rotated coordinates beyond three standard deviations, of the type
  of an update; without any client it is zero.

  Values are those of `PrivUnitMeanFactory`.

  Example:
    >>> plan = sqkr.Sqkr(4.0, num_coordinates=5001, noise_source='system')
    >>> tff.learning.algorithms.build_unweighted_fed_avg(
    ...   model, optimizer, model_aggregator=SqkrMeanFactory(plan))

  Reference: Chen, Kairouz and Ozgur, Breaking the Communication-Privacy-Accuracy
  Trilemma (2020).
  """

  def __init__(self, plan: sqkr.Sqkr):
    """Makes the factory of a plan: epsilon, the clip norm, the number of bits."""
    self._plan = plan

  def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
    """Builds the aggregation of updates of one type; see the base class."""
    return summed_reports.mean_process(_law(self._plan), value_type)


def _law(plan: sqkr.Sqkr) -> summed_reports.Law:
  """Returns how updates become reports, and sums of them an estimate."""
  return summed_reports.Law(
    plan,
    lambda update, seed: randomize(plan, update, seed),
    plan.dimension,
    lambda total, message: _added(plan, total, message),
    lambda signs: _unrotated(plan, signs),
  )


def randomize(
  plan: sqkr.Sqkr, update: Any, seed: tf.Tensor
) -> collections.OrderedDict[str, tf.Tensor]:
  """Makes the message of one client; runs on the client.

  Args:
    plan: Epsilon, the clip norm and the number of bits.
    update: A structure of float tensors of known shapes.
    seed: Decides all draws, int64 [2].

  Returns:
    `bits`, uint8 [ceil(k / 8)], and `selection`, int64 [2].
  """
  # The server gets to know the selection: it comes from a stream of its own.
  signing, replacing, other, selecting = tf.unstack(
    tf.random.experimental.stateless_split(seed, 4)
  )
  selection = coordinates.all_integers([2], selecting, tf.int64)
  values = tf.gather(_rotated(plan, update), _selected(plan, selection))
  share = (tf.clip_by_value(values, -plan.bound, plan.bound) + plan.bound) / (
    2 * plan.bound
  )
  truth = tf.random.stateless_uniform(share.shape, signing, dtype=tf.float64) < share
  anything = coordinates.all_integers([plan.num_bits], other, tf.int32) < 0
  draw = tf.cast(coordinates.all_integers([], replacing, tf.uint32), tf.int64)
  is_replaced = draw < plan.response.replaced_draws
  bits = messages.pack(tf.where(is_replaced, anything, truth))
  return collections.OrderedDict(bits=bits, selection=selection)


def _rotated(plan: sqkr.Sqkr, update: Any) -> tf.Tensor:
  """Returns the clipped update, filled up and rotated, float64 [D]."""
  vector = messages.finite_vector(update)
  clipped = vector * (plan.clip_norm / tf.maximum(tf.norm(vector), plan.clip_norm))
  padded = tf.pad(clipped, [[0, plan.dimension - plan.num_coordinates]])
  turned = rotation.rotate(tf.cast(padded, tf.float32), tf.constant(plan.rotation_seed))
  return tf.cast(turned, tf.float64)


def _selected(plan: sqkr.Sqkr, selection: tf.Tensor) -> tf.Tensor:
  """Returns the rotated coordinates that are reported, int64 [k]."""
  return coordinates.selected(plan.dimension, plan.num_bits, selection)


def _added(
  plan: sqkr.Sqkr, total: tf.Tensor, message: collections.OrderedDict
) -> tf.Tensor:
  """Adds the signs of a message to the sum, int64 [D]."""
  signs = 2 * messages.unpack(message['bits'], plan.num_bits) - 1
  indices = _selected(plan, message['selection'])[:, tf.newaxis]
  return tf.tensor_scatter_nd_add(total, indices, tf.cast(signs, tf.int64))


def _unrotated(plan: sqkr.Sqkr, signs: tf.Tensor) -> tf.Tensor:
  """Reads a mean of signs, float64 [D], as an estimate of the mean update."""
  turned = tf.cast(plan.sign_value * signs, tf.float32)
  return rotation.rotate_back(turned, tf.constant(plan.rotation_seed))


def mean(
  mechanism: sqkr.Sqkr, *, by_examples: bool
) -> tff.aggregators.WeightedAggregationFactory:
  """Makes the mean of a mechanism; see `of_mechanism`."""
  summed_reports.check_weights(by_examples)
  return tff.aggregators.as_weighted_aggregator(SqkrMeanFactory(mechanism))


def seen(mechanism: sqkr.Sqkr, update: Any, seed: tf.Tensor, view: str) -> Any:
  """Returns what is read in the bits of one client; see `of_mechanism`."""
  del view  # Nobody sees more than what the client sends.
  return summed_reports.estimate_of_one(_law(mechanism), update, seed)
