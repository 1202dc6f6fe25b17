"""Gaussian noise that a client adds to its own update before it is sent."""

import math
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import clipping, lattice_noise, messages, sound_updates
from tff_textpriv.privacy import errors, local_gaussian


def randomize(update: Any, seed: tf.Tensor, plan: local_gaussian.LocalGaussian) -> Any:
  """Returns what a client sends in place of its update; runs on the client.

  Args:
    update: A structure of float tensors of known shapes.
    seed: int64 [2], different for each client and round.
    plan: Clip norm and noise.

  Returns:
    The update with noise. With a clip norm it is first made zero if it is not
    finite, and shortened to the norm if it is longer; the noise is then added to whole
    numbers.
  """
  if plan.clip_norm is None:
    return lattice_noise.added(update, plan.stddev, seed) if plan.stddev else update
  clip = tf.constant(plan.clip_norm, tf.float32)
  if plan.stddev == 0:
    return clipping.clip_update(update, clip)['update']
  size = sum(math.prod(leaf.shape) for leaf in tf.nest.flatten(update))
  if size > plan.num_coordinates:
    raise errors.PrivacyError(
      f'the plan is about {plan.num_coordinates:,} coordinates, and the update has '
      f'{size:,}'
    )
  points = plan.points(size)
  whole = clipping.clip_update(update, clip, points)['update']
  return lattice_noise.noisy(
    whole, plan.noise_law(points), seed, tf.constant(plan.clip_norm / points.clip)
  )


class NoisyMeanFactory(tff.aggregators.WeightedAggregationFactory):
  """A mean of updates to which clients have added noise; values are `delta` and `seed`.

  With a clip norm all clients count alike, those too whose training has failed: they send
  noise around zero, and nothing but the noisy update leaves a device.
  """

  def __init__(self, mechanism: local_gaussian.LocalGaussian):
    """Makes the factory of a mechanism."""
    self._mechanism = mechanism

  def create(
    self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Builds the aggregation of values of one type; see the base class."""
    is_covered = bool(self._mechanism.covered)
    mean: tff.aggregators.WeightedAggregationFactory = sound_updates.SoundMeanFactory()
    if is_covered:
      mean = tff.aggregators.as_weighted_aggregator(
        tff.aggregators.UnweightedMeanFactory(messages.NamedSumFactory('update'))
      )
    process = mean.create(value_type['delta'], weight_type)

    @tff.tensorflow.computation(value_type)
    def noisy(value):
      return randomize(value['delta'], value['seed'], self._mechanism)

    @tff.federated_computation(
      process.initialize.type_signature.result,
      tff.FederatedType(value_type, tff.CLIENTS),
      tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_round(state, values, weights):
      return process.next(state, tff.federated_map(noisy, values), weights)

    return tff.templates.AggregationProcess(process.initialize, next_round)


def mean(
  mechanism: local_gaussian.LocalGaussian, *, by_examples: bool
) -> tff.aggregators.WeightedAggregationFactory:
  """Makes the mean of a mechanism; see `of_mechanism`.

  Raises:
    PrivacyError: If clients' numbers of examples would leave the device uncovered.
  """
  if by_examples and mechanism.covered:
    raise errors.PrivacyError(
      'a mean weighted by examples tells how many each client has; with --clip_norm, use '
      '--client_weighting=uniform'
    )
  return NoisyMeanFactory(mechanism)


def seen(
  mechanism: local_gaussian.LocalGaussian, update: Any, seed: tf.Tensor, view: str
) -> Any:
  """Returns what is seen of one client's update; see `of_mechanism`."""
  del view  # Nobody sees more than what the client sends.
  return randomize(update, seed, mechanism)
