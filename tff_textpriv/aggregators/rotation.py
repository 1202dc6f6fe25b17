"""A random rotation that spreads a vector evenly: random signs, then Walsh-Hadamard.

  y = H D x / sqrt(d),    x = D H y / sqrt(d)

with D a diagonal of random signs and H the d x d matrix of Hadamard, whose entries are 1
and -1 and which is its own inverse but for the factor d.
"""

import math

import tensorflow as tf
from scipy import linalg

# H is a product of matrices of up to 2 to this rows, one for each group of the bits of an
# index: few products of a size that a processor likes.
_GROUP_BITS = 6


def rotate(vector: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
  """Turns a vector, float32 [d] with d a power of two, by the rotation of a seed."""
  return hadamard(vector * _signs(vector, seed))


def rotate_back(vector: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
  """Undoes `rotate`."""
  return hadamard(vector) * _signs(vector, seed)


def hadamard(vector: tf.Tensor) -> tf.Tensor:
  """Returns H x / sqrt(d), float32 [d]."""
  size = vector.shape[0]
  num_bits = size.bit_length() - 1
  if size != 1 << num_bits:
    raise ValueError(f'{size} is not a power of two')
  while num_bits:
    group = min(num_bits, _GROUP_BITS)
    # The lowest bits of an index become its highest: after all groups, each bit is back
    # where it was.
    rows = tf.reshape(vector, [-1, 1 << group])
    vector = tf.reshape(tf.matmul(_matrix(group), rows, transpose_b=True), [-1])
    num_bits -= group
  return vector


def _matrix(num_bits: int) -> tf.Tensor:
  """Returns H / sqrt(d) of d = 2^num_bits rows."""
  size = 1 << num_bits
  return tf.constant(linalg.hadamard(size) / math.sqrt(size), tf.float32)


def _signs(vector: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
  """Draws +1 and -1, float32 [d]."""
  bits = tf.random.stateless_uniform(
    vector.shape, seed, minval=None, maxval=None, dtype=tf.int32
  )
  return tf.where(bits < 0, -1.0, 1.0)
