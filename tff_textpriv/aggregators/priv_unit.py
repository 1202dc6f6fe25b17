"""The mean of updates of which clients report a vector that leans towards them.

See `tff_textpriv.privacy.spherical_cap` for the law, and `privacy.priv_unit` for what of an
update is its direction. Everything that decides the privacy figure comes from one
`PrivUnit`, the same object from which the ledger is charged.
"""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import messages, summed_reports
from tff_textpriv.privacy import priv_unit, randomized_response, spherical_cap

_ALL_BUT_SIGN = 2**63 - 1
_RESOLUTION = 2.0**-63


class PrivUnitMeanFactory(tff.aggregators.UnweightedAggregationFactory):
  """Estimates the mean of clients' clipped updates from their private vectors.

  A client's update is set to zero if any of it is not finite, clipped to the L2 norm of
  the plan, and answered by PrivUnitG. The message is `report`, int16 [d]: the coordinates
  of the answer in steps of 2^-11. The result is an unbiased estimate of the mean, of the
  type of an update; without any client it is zero.

  Values are structures of float tensors, or, with the noise source `seeded`, ordered
  dictionaries of such an update named `delta` and a `seed`, int64 [2], that differs
  between clients and rounds. With the noise source `system` the seed may be left out, as
  in processes that TFF's own builders make (see `client_seeds`).
  """

  def __init__(self, plan: priv_unit.PrivUnit):
    """Makes the factory of a plan: epsilon, the clip norm, the number of coordinates."""
    self._plan = plan

  def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
    """Builds the aggregation of updates of one type; see the base class."""
    return summed_reports.mean_process(_law(self._plan), value_type)


def _law(plan: priv_unit.PrivUnit) -> summed_reports.Law:
  """Returns how updates become reports, and sums of them an estimate."""
  return summed_reports.Law(
    plan,
    lambda update, seed: collections.OrderedDict(report=randomize(plan, update, seed)),
    plan.num_coordinates,
    lambda total, message: total + tf.cast(message['report'], tf.int64),
    lambda steps: plan.step_value * steps,
  )


def randomize(plan: priv_unit.PrivUnit, update: Any, seed: tf.Tensor) -> tf.Tensor:
  """Makes the message of one client; runs on the client.

  Args:
    plan: Epsilon and the clip norm.
    update: A structure of float tensors of known shapes.
    seed: Decides all draws, int64 [2].

  Returns:
    int16 [d]: the answer's coordinates, in steps, without the one that was added.
  """
  direction = _direction(plan, messages.finite_vector(update))
  law = plan.response
  coin, component, across = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
  draw = tf.random.stateless_uniform([], coin, None, None, tf.uint32)
  kept = randomized_response.NUM_DRAWS - law.coin.flip_draws
  in_tail = tf.cast(draw, tf.int64) < kept
  uniform, _ = _uniform(1, component)
  along = tf.where(
    in_tail,
    -tf.math.ndtri(law.tail_share * uniform),
    tf.math.ndtri((1 - law.tail_share) * uniform),
  )
  gaussian = _gaussian(plan.num_coordinates + 1, across)
  answer = gaussian + (along - tf.reduce_sum(gaussian * direction)) * direction
  limit = spherical_cap.LARGEST_STEP
  steps = tf.clip_by_value(tf.round(spherical_cap.STEPS * answer), -limit, limit)
  return tf.cast(steps[:-1], tf.int16)


def _direction(plan: priv_unit.PrivUnit, vector: tf.Tensor) -> tf.Tensor:
  """Returns the unit vector, float64 [d + 1], that stands for a clipped update."""
  shortened = vector / tf.maximum(tf.norm(vector), plan.clip_norm)
  left = tf.maximum(1 - tf.reduce_sum(tf.square(shortened)), 0.0)
  direction = tf.concat([shortened, [tf.sqrt(left)]], axis=0)
  return direction / tf.norm(direction)


def _uniform(number: int, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """Draws numbers in (0, 1], float64 [number], as precise near 0 as anywhere.

  The first 63 bits place a number on a grid, the next 63 between two of its points.

  Returns:
    The numbers, and independent signs, 1 or -1.
  """
  words = tf.random.stateless_uniform([2, number], seed, None, None, tf.int64)
  coarse, fine = tf.unstack(
    tf.cast(tf.bitwise.bitwise_and(words, _ALL_BUT_SIGN), tf.float64)
  )
  signs = tf.where(words[0] < 0, -1.0, 1.0)
  return (coarse + (fine + 0.5) * _RESOLUTION) * _RESOLUTION, tf.cast(signs, tf.float64)


def _gaussian(number: int, seed: tf.Tensor) -> tf.Tensor:
  """Draws standard Gaussian numbers, float64 [number], with tails to 13 deviations.

  TensorFlow's own end at 5.7, which would tell directions apart.
  """
  uniform, signs = _uniform(number, seed)
  return -signs * tf.math.ndtri(uniform / 2)


def mean(
  mechanism: priv_unit.PrivUnit, *, by_examples: bool
) -> tff.aggregators.WeightedAggregationFactory:
  """Makes the mean of a mechanism; see `of_mechanism`."""
  summed_reports.check_weights(by_examples)
  return tff.aggregators.as_weighted_aggregator(PrivUnitMeanFactory(mechanism))


def seen(mechanism: priv_unit.PrivUnit, update: Any, seed: tf.Tensor, view: str) -> Any:
  """Returns what is read in one client's vector; see `of_mechanism`."""
  del view  # Nobody sees more than what the client sends.
  return summed_reports.estimate_of_one(_law(mechanism), update, seed)
