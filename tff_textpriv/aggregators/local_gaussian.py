"""Gaussian noise that a client adds to its own update before it is sent."""

from typing import Any

import tensorflow as tf

from tff_textpriv.aggregators import dp_mean
from tff_textpriv.privacy import local_gaussian


def randomize(update: Any, seed: tf.Tensor, plan: local_gaussian.LocalGaussian) -> Any:
  """Returns what a client sends in place of its update; runs on the client.

  Args:
    update: A structure of float tensors.
    seed: int32 [2], different for each client and round.
    plan: Clip norm and noise.

  Returns:
    The update with noise. With a clip norm it is first made zero if it is not
    finite, and shortened to the norm if it is longer.
  """
  if plan.clip_norm is not None:
    clip = tf.constant(plan.clip_norm, tf.float32)
    update = dp_mean.clip_update(update, clip)['update']
  if plan.stddev == 0:
    return update

  def standard_normal(shape: tf.Tensor, stream: int) -> tf.Tensor:
    if plan.noise_source == 'system':
      return tf.random.normal(shape)
    own_seed = tf.random.experimental.stateless_fold_in(seed, stream)
    return tf.random.stateless_normal(shape, own_seed)

  noisy = [
    leaf + plan.stddev * standard_normal(tf.shape(leaf), stream)
    for stream, leaf in enumerate(tf.nest.flatten(update))
  ]
  return tf.nest.pack_sequence_as(update, noisy)


def seen(
  mechanism: local_gaussian.LocalGaussian, update: Any, seed: tf.Tensor, view: str
) -> Any:
  """Returns what is seen of one client's update; see `of_mechanism`."""
  del view  # Nobody sees more than what the client sends.
  return randomize(update, seed, mechanism)
