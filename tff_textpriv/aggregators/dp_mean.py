"""The differentially private mean of client updates: clip, sum, noise, divide.

Everything that decides the privacy figure comes from one `CentralGaussian`, the
same object from which the ledger is charged.
"""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.privacy import central, errors


class DpMeanFactory(tff.aggregators.UnweightedAggregationFactory):
  """Averages updates with the Gaussian mechanism, optionally with adaptive clipping.

  With clip norm C, noise multiplier z and a planned cohort of m clients, the mean of the
  updates v_k is estimated by

    ( sum_k v_k min(1, C / |v_k|)  +  N(0, z^2 C^2 I) ) / m

  A client's update is set to zero if any of it is not finite, then clipped to an L2 norm
  over all its tensors. The server adds Gaussian noise to the sum and divides by the
  *planned* cohort: under Poisson sampling the realised number is itself private. With
  adaptive clipping the norm follows a quantile of the clients' norms, by a geometric
  rule; the noisy count it needs is a part of the mechanism's noise multiplier.

  Noise is a function of (seed, round), kept in the state, so that a resumed run
  equals an undisturbed one; with `noise_source='system'` it is drawn from a
  generator that the operating system seeds.

  Measurements: `clip`, the norm of the round, and `left_out_clients`, those whose update
  was not finite, or nothing.

  Example:
    >>> settings = CentralPrivacySettings(target_epsilon=2.0)
    >>> deployment = Deployment('poisson', population=10**6, cohort=5000, rounds=1000)
    >>> mechanism = settings.mechanism(deployment)
    >>> tff.learning.algorithms.build_unweighted_fed_avg(
    ...   model, optimizer, model_aggregator=DpMeanFactory(mechanism))

  Reference: Andrew et al., Differentially Private Learning with Adaptive Clipping (2021).
  """

  def __init__(self, mechanism: central.CentralGaussian):
    """Makes the factory of a mechanism.

    Args:
      mechanism: Clip, noise, cohort and, where noise is seeded, the seed.
    """
    self._mechanism = mechanism

  def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
    """Builds the aggregation of updates of one type; see the base class."""
    plan = self._mechanism

    @tff.tensorflow.computation
    def initial_state():
      return collections.OrderedDict(
        round=tf.constant(0, tf.int32), clip=tf.constant(plan.clip, tf.float32)
      )

    state_type = initial_state.type_signature.result

    @tff.federated_computation
    def initialize():
      return tff.federated_eval(initial_state, tff.SERVER)

    @tff.tensorflow.computation(value_type, state_type.clip)
    def client_contribution(update, clip):
      contribution = clip_update(update, clip)
      if plan.adaptive is None:
        del contribution['unclipped_half']
      return contribution

    contribution_type = client_contribution.type_signature.result

    @tff.tensorflow.computation(state_type, contribution_type)
    def noisy_mean(state, total):
      noise = _Noise(plan.noise_source, plan.seed, state['round'])
      denominator = tf.constant(plan.mean_denominator, tf.float32)
      mean = tf.nest.map_structure(
        lambda tensor: tensor / denominator,
        noise.add(total['update'], plan.sum_stddev(1.0), state['clip']),
      )
      clip = state['clip']
      if plan.adaptive is not None:
        unclipped = noise.add(total['unclipped_half'], plan.count_stddev, 1.0)
        # b in Andrew et al. (2021), from bits shifted by a half.
        unclipped_share = unclipped / denominator + 0.5
        clip *= tf.exp(
          -plan.adaptive.learning_rate * (unclipped_share - plan.adaptive.quantile)
        )
      new_state = collections.OrderedDict(round=state['round'] + 1, clip=clip)
      measurements = collections.OrderedDict(
        clip=state['clip'], left_out_clients=total['left_out']
      )
      return new_state, mean, measurements

    @tff.federated_computation(
      initialize.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
    )
    def next_round(state, updates):
      clip = tff.federated_broadcast(state.clip)
      contributions = tff.federated_map(client_contribution, (updates, clip))
      total = tff.federated_sum(contributions)
      new_state, mean, measurements = tff.federated_map(noisy_mean, (state, total))
      return tff.templates.MeasuredProcessOutput(new_state, mean, measurements)

    return tff.templates.AggregationProcess(initialize, next_round)


def clip_update(update: Any, clip: tf.Tensor) -> collections.OrderedDict:
  """Bounds one client's contribution; runs on the client.

  Args:
    update: A structure of float tensors.
    clip: The largest L2 norm over all of them.

  Returns:
    `update`, zeroed if not finite and scaled to norm `clip` if longer;
    `unclipped_half`, 0.5 if the norm was at most `clip`, else -0.5; and
    `left_out`, 1 if the update was zeroed, or nothing but zeros.
  """
  leaves = tf.nest.flatten(update)
  finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(leaf)) for leaf in leaves])
  leaves = [tf.where(finite, leaf, tf.zeros_like(leaf)) for leaf in leaves]
  norm = tf.linalg.global_norm(leaves)
  # Written so that an infinite clip and a norm of zero both give 1.
  scale = tf.minimum(1.0, tf.math.divide(clip, norm))
  # Squares of huge but finite numbers overflow; such an update becomes zero.
  scale = tf.where(tf.math.is_finite(norm), scale, 0.0)
  return collections.OrderedDict(
    update=tf.nest.pack_sequence_as(update, [leaf * scale for leaf in leaves]),
    unclipped_half=tf.where(norm <= clip, 0.5, -0.5),
    left_out=tf.cast(~tf.math.is_finite(norm) | tf.equal(norm, 0), tf.int32),
  )


class _Noise:
  """Adds Gaussian noise to one round's values, each tensor from its own stream."""

  def __init__(self, source: str, seed: int, round_number: tf.Tensor):
    self._source = source
    self._round_seed = tf.stack([tf.constant(seed, tf.int32), round_number])
    self._num_streams = 0

  def add(self, value: Any, scale: float, clip: tf.Tensor | float) -> Any:
    """Adds noise of standard deviation `scale * clip` to each tensor of `value`."""
    if scale == 0:
      return value

    def add_to(tensor):
      noise = clip * scale * self._standard_normal(tf.shape(tensor))
      return tensor + noise

    return tf.nest.map_structure(add_to, value)

  def _standard_normal(self, shape: tf.Tensor) -> tf.Tensor:
    if self._source == 'system':
      return tf.random.normal(shape)
    seed = tf.random.experimental.stateless_fold_in(self._round_seed, self._num_streams)
    self._num_streams += 1
    return tf.random.stateless_normal(shape, seed)


def mean(
  mechanism: central.CentralGaussian, *, by_examples: bool
) -> tff.aggregators.WeightedAggregationFactory:
  """Makes the mean of a mechanism; see `of_mechanism`."""
  if by_examples:
    raise errors.PrivacyError(
      'a mean weighted by examples has no bounded sensitivity to one user'
    )
  return tff.aggregators.as_weighted_aggregator(DpMeanFactory(mechanism))


def seen(
  mechanism: central.CentralGaussian, update: Any, seed: tf.Tensor, view: str
) -> Any:
  """Returns what is seen of one client's update; see `of_mechanism`.

  The noise that is seen is that of the whole sum, as if the updates of all other clients
  were known.
  """
  clipped = clip_update(update, tf.constant(mechanism.clip, tf.float32))['update']
  if view == 'server':
    return clipped
  stddev = mechanism.sum_stddev(mechanism.clip)
  noisy = [
    tensor
    + stddev
    * tf.random.stateless_normal(
      tensor.shape, tf.random.experimental.stateless_fold_in(seed, stream)
    )
    for stream, tensor in enumerate(tf.nest.flatten(clipped))
  ]
  return tf.nest.pack_sequence_as(update, noisy)
