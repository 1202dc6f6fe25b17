"""The differentially private mean of client updates: clip, sum, noise, divide.

Everything that decides the privacy figure comes from one `CentralGaussian`, the
same object from which the ledger is charged.
"""

import collections
import math
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import clipping, lattice_noise
from tff_textpriv.privacy import central, errors, lattice

# How finely the noise on a count of halves is cut: so many to a half.
_PER_HALF = 2**26


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

  Clients send whole numbers, and noise is one, so that sums are exact, in whatever order,
  and the tails and last digits of the noise are as they should be; see
  `privacy.rounded_gaussian`. Noise is a function of the mechanism's stream and of the round
  in the state, so that a resumed run equals an undisturbed one; there is none beyond the
  planned rounds.

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
      mechanism: Clip, noise, cohort, and the stream that decides the noise.
    """
    self._mechanism = mechanism

  def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
    """Builds the aggregation of updates of one type; see the base class."""
    plan = self._mechanism
    points = fitting_lattice(plan, value_type)

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
      contribution = clipping.clip_update(update, clip, points)
      if plan.adaptive is None:
        del contribution['unclipped_half']
      return contribution

    contribution_type = client_contribution.type_signature.result

    @tff.tensorflow.computation(state_type, contribution_type)
    def noisy_mean(state, total):
      noise: _Noise | _NoNoise = _NoNoise()
      if points is not None:
        noise = _Noise(plan, points, state['round'])
      denominator = tf.constant(plan.mean_denominator, tf.float32)
      clip = state['clip']
      mean = tf.nest.map_structure(
        lambda tensor: tensor / denominator, noise.of_update(total['update'], clip)
      )
      if plan.adaptive is not None:
        unclipped = noise.of_halves(total['unclipped_half'])
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


class _Noise:
  """Adds the noise of one round to its sums, which are of whole numbers.

  There are `points.clip` of them to a clip norm.
  """

  def __init__(
    self,
    plan: central.CentralGaussian,
    points: lattice.Lattice,
    round_number: tf.Tensor,
  ):
    self._plan = plan
    self._points = points
    # A round that was not planned has no seed, and fails.
    seed = tf.gather(tf.constant(plan.round_seeds()), round_number)
    self._seeds = tf.random.experimental.stateless_split(seed, 2)

  def of_update(self, total: Any, clip: tf.Tensor) -> Any:
    """Returns the noisy sum of updates, float32, clipped to `clip` each."""
    plan, points = self._plan, self._points
    law = plan.noise_law(
      plan.sum_stddev(1.0) * points.clip, plan.update_noise_multiplier
    )
    unit = tf.cast(clip, tf.float64) / points.clip
    return lattice_noise.noisy(total, law, self._seeds[0], unit)

  def of_halves(self, total: tf.Tensor) -> tf.Tensor:
    """Returns the noisy sum of so many halves, float32."""
    assert self._plan.adaptive is not None  # Nobody else counts.
    law = self._plan.noise_law(
      self._plan.count_stddev * 2 * _PER_HALF,
      self._plan.adaptive.count_noise_multiplier,
    )
    parts = tf.cast(total, tf.int64) * _PER_HALF
    return lattice_noise.noisy(parts, law, self._seeds[1], 0.5 / _PER_HALF)


class _NoNoise:
  """Sums as they are, for runs that promise nothing."""

  def of_update(self, total: Any, clip: tf.Tensor) -> Any:
    del clip  # They are real numbers.
    return total

  def of_halves(self, total: tf.Tensor) -> tf.Tensor:
    return tf.cast(total, tf.float32) / 2


def num_coordinates(value_type: tff.Type) -> int:
  """Returns how many numbers an update of a type has."""
  return sum(math.prod(leaf.shape) for leaf in tff.structure.flatten(value_type))


def fitting_lattice(
  plan: central.CentralGaussian, value_type: tff.Type
) -> lattice.Lattice | None:
  """Returns the whole numbers that stand for updates; none where there is no noise."""
  if not tff.types.is_structure_of_floats(value_type):
    raise TypeError(f'Only floating-point updates are clipped: {value_type}.')
  size = num_coordinates(value_type)
  if size > plan.num_coordinates:
    raise errors.PrivacyError(
      f'the plan is about {plan.num_coordinates:,} coordinates, and the update has '
      f'{size:,}'
    )
  return None if plan.noise_multiplier == 0 else plan.points(size)


def check_weights(by_examples: bool) -> None:
  """Refuses a mean that a user can move by any amount."""
  if by_examples:
    raise errors.PrivacyError(
      'a mean weighted by examples has no bounded sensitivity to one user'
    )


def mean(
  mechanism: central.CentralGaussian, *, by_examples: bool
) -> tff.aggregators.WeightedAggregationFactory:
  """Makes the mean of a mechanism; see `of_mechanism`."""
  check_weights(by_examples)
  return tff.aggregators.as_weighted_aggregator(DpMeanFactory(mechanism))


def seen(
  mechanism: central.CentralGaussian, update: Any, seed: tf.Tensor, view: str
) -> Any:
  """Returns what is seen of one client's update; see `of_mechanism`.

  The noise that is seen is that of the whole sum, as if the updates of all other clients
  were known.
  """
  clip = tf.constant(mechanism.clip, tf.float32)
  clipped = clipping.clip_update(update, clip)['update']
  if view == 'server' or mechanism.noise_multiplier == 0:
    return clipped
  return lattice_noise.added(clipped, mechanism.sum_stddev(mechanism.clip), seed)
