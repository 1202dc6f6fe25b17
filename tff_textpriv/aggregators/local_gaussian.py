"""Gaussian noise that a client adds to its own update before it is sent."""

import math
from typing import Any

import tensorflow as tf

from tff_textpriv.aggregators import clipping, lattice_noise
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


def seen(
  mechanism: local_gaussian.LocalGaussian, update: Any, seed: tf.Tensor, view: str
) -> Any:
  """Returns what is seen of one client's update; see `of_mechanism`."""
  del view  # Nobody sees more than what the client sends.
  return randomize(update, seed, mechanism)
