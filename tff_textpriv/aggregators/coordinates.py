"""Which coordinates of an update a client reports: they follow from a seed."""

import numpy as np
import tensorflow as tf


def selected(size: int, number: int, selection: tf.Tensor) -> tf.Tensor:
  """Returns the coordinates that a seed selects, int64 [s], without repetition.

  The d coordinates, in a circle, are cut into s stretches as long as each other or longer
  by one; the circle is turned at random, and one coordinate is drawn from each stretch.
  As it is turned, each of the s draws hits any coordinate with probability 1 / d, and as
  no two hit the same one, each coordinate is selected with probability s / d. That takes
  s + 1 random numbers, however large d is.

  The client and the server find the same ones, in the same order.

  Args:
    size: The number d of coordinates.
    number: The number s of those that are reported.
    selection: The seed, int64 [2].
  """
  ends = np.arange(number + 1, dtype=np.int64) * size // number
  # 2^64 is so far above d that what is left of it in the last stretch does not matter.
  draws = all_integers([number + 1], selection, tf.int64)
  places = ends[:-1] + tf.math.floormod(draws[1:], np.diff(ends))
  return tf.math.floormod(places + tf.math.floormod(draws[0], size), size)


def all_integers(shape: list[int], seed: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
  """Draws uniformly from all integers of a type."""
  return tf.random.stateless_uniform(shape, seed, minval=None, maxval=None, dtype=dtype)
