"""What a client may contribute: an update of bounded length, as whole numbers if asked."""

import collections
import math
from typing import Any

import tensorflow as tf

from tff_textpriv.privacy import lattice

# Longer updates count as nothing, as if they were not finite.
_LONGEST = 2.0**64
# Squares that single precision adds up to a relative error of 2^-14 at most.
_ADDED_UP = 1024


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
  norm = tf.sqrt(tf.add_n([_sum_of_squares(leaf) for leaf in leaves]))
  is_sound = norm <= _LONGEST
  unit, longest = tf.ones_like(clip), clip
  if points is not None:
    size = sum(math.prod(leaf.shape) for leaf in leaves)
    unit = points.clip / clip
    longest = tf.constant(points.inner_clip(size), tf.float64)
  # Written so that an infinite clip and a norm of zero both leave the update as it is.
  scale = tf.minimum(unit, longest / norm)

  def bounded(leaf: tf.Tensor) -> tf.Tensor:
    scaled = leaf * tf.cast(scale, leaf.dtype)
    if points is None:
      return scaled
    return tf.cast(tf.round(scaled), tf.int64 if points.is_wide else tf.int32)

  def nothing(leaf: tf.Tensor) -> tf.Tensor:
    dtype = leaf.dtype if points is None else tf.int64 if points.is_wide else tf.int32
    return tf.zeros(leaf.shape, dtype)

  # One or the other: a choice number by number would cost another look at all of them.
  contributed = tf.cond(
    is_sound,
    lambda: [bounded(leaf) for leaf in leaves],
    lambda: [nothing(leaf) for leaf in leaves],
  )
  return collections.OrderedDict(
    update=tf.nest.pack_sequence_as(update, contributed),
    unclipped_half=tf.where(norm <= clip, 1, -1),
    left_out=tf.cast(~is_sound | tf.equal(norm, 0), tf.int32),
  )


def _sum_of_squares(values: tf.Tensor) -> tf.Tensor:
  """Adds up squares to a relative error of 2^-14, as a double; not finite if any is not.

  So many numbers as can be trusted to single precision are added up in it, and their
  sums in double precision: half as much work as double precision throughout. What the
  error does to a norm, half of it, `Lattice.inner_clip` leaves free.
  """
  flat = tf.reshape(values, [-1])
  whole = flat.shape[0] // _ADDED_UP * _ADDED_UP
  rows = tf.reduce_sum(tf.square(tf.reshape(flat[:whole], [-1, _ADDED_UP])), axis=1)
  return tf.reduce_sum(tf.cast(rows, tf.float64)) + tf.reduce_sum(
    tf.square(tf.cast(flat[whole:], tf.float64))
  )
