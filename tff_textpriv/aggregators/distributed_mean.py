"""The mean of updates to which clients add the noise, from sums modulo a power of two.

Everything that decides the privacy figure comes from one `DistributedNoise`, the same
object from which the ledger is charged.
"""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import (
  client_seeds,
  clipping,
  dp_mean,
  lattice_noise,
  messages,
  rotation,
)
from tff_textpriv.privacy import distributed, errors, secure_sum

_TYPES = {16: (tf.uint16, tf.int16), 32: (tf.uint32, tf.int32)}


class DistributedMeanFactory(tff.aggregators.UnweightedAggregationFactory):
  """Averages updates whose noise comes from the clients, and of which sums are seen.

  With clip norm C, which is c in whole numbers, a rotation R and a planned cohort of m
  clients, the mean of the updates v_k is estimated by

    C / (c m)  R^-1 ( sum_k round(R v_k min(1, C / |v_k|) c / C) + z_k   mod 2^bits )

  A client sets its update to zero if any of it is not finite, clips and turns it, rounds
  each number up or down at random, and checks the length of the result; one that is too
  long is rounded towards zero instead. It adds noise z_k of the mechanism's law, drawn
  from the seed that comes beside the update, and sends whole numbers of so many bits.
  The sum stands for a secure aggregation: numbers wrap around as they are added, and with
  fewer clients than the mechanism counts on there is no result, but zeros.

  Values are ordered dictionaries of an update named `delta` and a `seed`, int64 [2]; with
  the noise source `system` they may be updates alone (see `client_seeds`).

  Measurements: `clip`; `bytes_per_client`; `is_abandoned`, 1 if there were too few
  clients.

  Example:
    >>> settings = DistributedPrivacySettings(target_epsilon=4.0, noise_source='system')
    >>> deployment = Deployment(
    ...   'separated', 10**6, 5000, rounds=200, separation=200, num_coordinates=365_588)
    >>> tff.learning.algorithms.build_unweighted_fed_avg(
    ...   model, optimizer,
    ...   model_aggregator=DistributedMeanFactory(settings.mechanism(deployment)))

  Reference: Kairouz, Liu, Steinke, The Distributed Discrete Gaussian Mechanism for
  Federated Learning with Secure Aggregation (2021).
  """

  def __init__(self, mechanism: distributed.DistributedNoise):
    """Makes the factory of a mechanism.

    Args:
      mechanism: Clip, code, noise, cohort, and the stream that decides rotations.
    """
    self._mechanism = mechanism

  def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
    """Builds the aggregation of updates of one type; see the base class."""
    plan = self._mechanism
    update_type = client_seeds.update_type(value_type, plan.noise_source)
    _check_size(plan, update_type)
    seed_type = tff.TensorType(np.int64, [2])

    @tff.tensorflow.computation
    def initial_state():
      return tf.constant(0, tf.int32)

    @tff.federated_computation
    def initialize():
      return tff.federated_eval(initial_state, tff.SERVER)

    @tff.tensorflow.computation(np.int32)
    def rotation_seed(round_number):
      # A round that was not planned has no seed, and fails.
      return tf.gather(tf.constant(plan.rotation_seeds()), round_number)

    @tff.tensorflow.computation(value_type, seed_type)
    def client_message(value, turn):
      update, seed = client_seeds.update_and_seed(
        value, has_seed=update_type is not value_type, stream=plan.stream
      )
      return collections.OrderedDict(
        update=message(plan, update, seed, turn), present=tf.constant(1, tf.int32)
      )

    message_type = client_message.type_signature.result
    num_bytes = messages.num_bytes(message_type.update)

    @tff.tensorflow.computation(np.int32, message_type, seed_type)
    def finish(round_number, total, turn):
      is_abandoned = total['present'] < plan.fewest_clients
      summed = tf.where(is_abandoned, tf.zeros_like(total['update']), total['update'])
      measurements = collections.OrderedDict(
        clip=tf.constant(plan.clip, tf.float32),
        bytes_per_client=tf.constant(num_bytes, tf.int64),
        is_abandoned=tf.cast(is_abandoned, tf.int32),
      )
      mean = _read(plan, summed, turn) / plan.mean_denominator
      return round_number + 1, messages.cut(update_type, mean), measurements

    @tff.federated_computation(
      initialize.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
    )
    def next_round(state, values):
      turn = tff.federated_map(rotation_seed, state)
      sent = tff.federated_map(client_message, (values, tff.federated_broadcast(turn)))
      total = tff.federated_sum(sent)
      new_state, mean, measurements = tff.federated_map(finish, (state, total, turn))
      return tff.templates.MeasuredProcessOutput(new_state, mean, measurements)

    return tff.templates.AggregationProcess(initialize, next_round)


def message(
  plan: distributed.DistributedNoise, update: Any, seed: tf.Tensor, turn: tf.Tensor
) -> tf.Tensor:
  """Makes what a client sends of its update, whole numbers [d]; runs on the client.

  Args:
    plan: Clip, code and noise.
    update: A structure of float tensors of known shapes.
    seed: Decides the client's random numbers, int64 [2].
    turn: Decides the rotation of the round, int64 [2].
  """
  rounding_seed, noise_seed = tf.unstack(
    tf.random.experimental.stateless_split(seed, 2)
  )
  whole = rounded(plan.code, _turned(plan, update, turn), rounding_seed)
  noise = lattice_noise.draw(plan.client_noise(), noise_seed, plan.code.dimension)
  # A narrower type keeps the lowest bits, which is what a number is modulo its range.
  unsigned, signed = _TYPES[plan.bits]
  return tf.bitcast(tf.cast(whole + noise, unsigned), signed)


def rounded(code: secure_sum.SumCode, vector: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
  """Rounds numbers up or down at random, so that the vector is not too long.

  Args:
    code: How long it may be.
    vector: float32 [d].
    seed: int64 [2].

  Returns:
    int64 [d], of a squared length of `code.largest_square` at most.
  """
  floors = tf.floor(vector)
  ups = tf.random.stateless_uniform(vector.shape, seed) < vector - floors
  by_chance = tf.cast(floors, tf.int64) + tf.cast(ups, tf.int64)
  return tf.cond(
    _fits(code, by_chance),
    lambda: by_chance,
    lambda: _towards_zero(code, vector),
  )


def _towards_zero(code: secure_sum.SumCode, vector: tf.Tensor) -> tf.Tensor:
  """Rounds so that the vector does not get longer; zeros if it is too long by itself."""
  shorter = tf.cast(tf.math.sign(vector) * tf.floor(tf.abs(vector)), tf.int64)
  return tf.where(_fits(code, shorter), shorter, tf.zeros_like(shorter))


def _fits(code: secure_sum.SumCode, whole: tf.Tensor) -> tf.Tensor:
  """Tells whether whole numbers are not too long; exact as long as squares are."""
  square = tf.reduce_sum(tf.square(tf.cast(whole, tf.float64)))
  return square <= tf.constant(float(code.largest_square), tf.float64)


def _turned(
  plan: distributed.DistributedNoise, update: Any, turn: tf.Tensor
) -> tf.Tensor:
  """Clips, scales and turns an update, float32 [d]."""
  clip = tf.constant(plan.clip, tf.float32)
  clipped = clipping.clip_update(update, clip)['update']
  flat = tf.concat(
    [tf.reshape(leaf, [-1]) for leaf in tf.nest.flatten(clipped)], axis=0
  )
  flat = tf.pad(flat, [[0, plan.code.dimension - flat.shape[0]]])
  return rotation.rotate(flat * (plan.code.inner_clip / plan.clip), turn)


def _read(
  plan: distributed.DistributedNoise, total: tf.Tensor, turn: tf.Tensor
) -> tf.Tensor:
  """Reads a sum of messages as one of updates, float32 [d]."""
  unit = plan.clip / plan.code.inner_clip
  return rotation.rotate_back(tf.cast(total, tf.float32) * unit, turn)


def _check_size(plan: distributed.DistributedNoise, update_type: tff.Type) -> None:
  size = dp_mean.num_coordinates(update_type)
  if size > plan.num_coordinates:
    raise errors.PrivacyError(
      f'the plan is about {plan.num_coordinates:,} coordinates, and the update has '
      f'{size:,}'
    )


def mean(
  mechanism: distributed.DistributedNoise, *, by_examples: bool
) -> tff.aggregators.WeightedAggregationFactory:
  """Makes the mean of a mechanism; see `of_mechanism`."""
  dp_mean.check_weights(by_examples)
  return tff.aggregators.as_weighted_aggregator(DistributedMeanFactory(mechanism))


def seen(
  mechanism: distributed.DistributedNoise, update: Any, seed: tf.Tensor, view: str
) -> Any:
  """Returns what is seen of one client's update; see `of_mechanism`.

  The server sees the sum, too, and nothing else: the update with the noise of all clients
  that are counted on, as if the updates of all others were known.
  """
  return dp_mean.seen(mechanism, update, seed, view='released')
