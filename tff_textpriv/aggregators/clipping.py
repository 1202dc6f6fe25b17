"""What a client may contribute: an update of bounded length, as whole numbers if asked."""

import collections
import math
from typing import Any

import tensorflow as tf

from tff_textpriv.privacy import lattice

# Longer updates count as nothing, as if they were not finite.
_LONGEST = 2.0**64


def clip_update(
  update: Any, clip: tf.Tensor, points: lattice.Lattice | None = None
) -> collections.OrderedDict:
  """Bounds one client's contribution; runs on the client.

  Args:
    update: A structure of float tensors of known shapes.
    clip: The largest L2 norm over all of them.
    points: The whole numbers to which the update is rounded, if it is; the clip norm
      becomes `points.clip`, and no update is longer after rounding either.

  Returns:
    `update`, zeroed if not finite and scaled down to the clip norm if longer;
    `unclipped_half`, which counts halves: 1 if the norm was at most `clip`, else -1; and
    `left_out`, 1 if the update was zeroed, or nothing but zeros.
  """
  leaves = tf.nest.flatten(update)
  clip = tf.cast(clip, tf.float64)
  # In double precision sums of so many squares are exact enough for a promise. If any
  # number is not finite, neither is the norm.
  norm = tf.sqrt(
    tf.add_n([tf.reduce_sum(tf.square(tf.cast(leaf, tf.float64))) for leaf in leaves])
  )
  is_sound = norm <= _LONGEST
  unit, longest = tf.ones_like(clip), clip
  if points is not None:
    size = sum(math.prod(leaf.shape) for leaf in leaves)
    unit = points.clip / clip
    longest = tf.constant(points.inner_clip(size), tf.float64)
  # Written so that an infinite clip and a norm of zero both leave the update as it is.
  scale = tf.where(is_sound, tf.minimum(unit, longest / norm), 0.0)

  def bounded(leaf: tf.Tensor) -> tf.Tensor:
    sound = tf.where(is_sound, leaf, tf.zeros_like(leaf))
    scaled = sound * tf.cast(scale, leaf.dtype)
    if points is None:
      return scaled
    return tf.cast(tf.round(scaled), tf.int64 if points.is_wide else tf.int32)

  return collections.OrderedDict(
    update=tf.nest.pack_sequence_as(update, [bounded(leaf) for leaf in leaves]),
    unclipped_half=tf.where(norm <= clip, 1, -1),
    left_out=tf.cast(~is_sound | tf.equal(norm, 0), tf.int32),
  )
