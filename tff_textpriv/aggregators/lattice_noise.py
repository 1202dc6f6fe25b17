"""Draws of noise on whole numbers; see `privacy.rounded_gaussian` for their law."""

import math
from typing import Any

import tensorflow as tf

from tff_textpriv.privacy import rounded_gaussian

# Numbers drawn at a time: few enough to stay in a core's cache.
_CHUNK = 1 << 15
_WORD_BITS = 64
# How finely noise without a promise is cut.
_PER_STDDEV = 2.0**20
# More draws than are needed, by so many standard deviations of the number that is kept.
_MARGIN = 12


def draw(law: rounded_gaussian.Law, seed: tf.Tensor, number: int) -> tf.Tensor:
  """Draws noise.

  Args:
    law: Its law.
    seed: Decides it: 128 bits, int64 [2]. No two draws may share one.
    number: How many numbers.

  Returns:
    int64 [number].
  """
  tables = law.tables()
  size = min(number, _CHUNK)
  # Enough are kept but for a chance of 10^-32, and then the round fails.
  num_draws = math.ceil((size + _MARGIN * math.sqrt(size) + _MARGIN**2) / tables.kept)
  num_chunks = -(-number // size)

  def chunk(own_seed: tf.Tensor) -> tf.Tensor:
    numbers, are_kept = of_words(law, _words([2, num_draws], own_seed, tf.uint64))
    kept = tf.boolean_mask(numbers, are_kept)[:size]
    return tf.ensure_shape(kept, [size])

  seeds = _words([num_chunks, 2], seed, tf.int64)
  chunks = tf.map_fn(chunk, seeds, fn_output_signature=tf.TensorSpec([size], tf.int64))
  return tf.reshape(chunks, [-1])[:number]


def noisy(
  total: Any,
  law: rounded_gaussian.Law,
  seed: tf.Tensor,
  unit: tf.Tensor,
) -> Any:
  """Adds noise to whole numbers, and reads them as real ones.

  Args:
    total: A structure of tensors of whole numbers, of known shapes.
    law: The law of the noise on each number.
    seed: Decides it, int64 [2].
    unit: What 1 stands for.

  Returns:
    float32 tensors in the same structure.
  """
  return summed(total, draw(law, seed, size(total)), unit)


def size(total: Any) -> int:
  """Returns how many numbers a structure of tensors has."""
  return sum(math.prod(leaf.shape) for leaf in tf.nest.flatten(total))


def summed(total: Any, noise: tf.Tensor, unit: tf.Tensor) -> Any:
  """Adds whole numbers to whole numbers, and reads the sums as real ones.

  What is done after the noise is added is nobody's business any more.

  Args:
    total: A structure of tensors of whole numbers, of known shapes.
    noise: What is added, int64 [size(total)].
    unit: What 1 stands for.

  Returns:
    float32 tensors in the same structure.
  """
  leaves = tf.nest.flatten(total)
  parts = tf.split(noise, [math.prod(leaf.shape) for leaf in leaves])
  unit = tf.cast(unit, tf.float64)
  sums = [
    tf.cast(leaf, tf.int64) + tf.reshape(own, leaf.shape)
    for leaf, own in zip(leaves, parts, strict=True)
  ]
  return tf.nest.pack_sequence_as(
    total, [tf.cast(tf.cast(leaf, tf.float64) * unit, tf.float32) for leaf in sums]
  )


def added(value: Any, stddev: float, seed: tf.Tensor) -> Any:
  """Returns real numbers with noise, where no promise is made about them.

  Args:
    value: A structure of float32 tensors.
    stddev: Its standard deviation.
    seed: Decides it, int64 [2].
  """
  law = rounded_gaussian.RoundedGaussian(_PER_STDDEV, shift=0.0)
  nothing = tf.nest.map_structure(lambda leaf: tf.zeros(leaf.shape, tf.int64), value)
  noise = noisy(nothing, law, seed, tf.constant(stddev / _PER_STDDEV))
  return tf.nest.map_structure(tf.add, value, noise)


def of_words(
  law: rounded_gaussian.Law, words: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """Makes numbers of random bits.

  Args:
    law: Their law.
    words: uint64 [2, n]: what chooses a number, and whether it is kept.

  Returns:
    The numbers, int64 [n], and whether each is kept, bool [n].
  """
  tables = law.tables()
  slot_shift = tf.constant(_WORD_BITS - rounded_gaussian.SLOT_BITS, tf.uint64)
  slots = tf.cast(tf.bitwise.right_shift(words[0], slot_shift), tf.int32)
  within = tf.constant((1 << tables.strip_bits) - 1, tf.uint64)
  within_strip = tf.cast(tf.bitwise.bitwise_and(words[0], within), tf.int64)
  numbers = tf.gather(tf.constant(tables.starts), slots) + within_strip
  log_keeps = tf.gather(tf.constant(tables.log_keeps), slots)
  squares = tf.square(tf.cast(numbers, tf.float64))
  # The probability to be kept, times the number of words. A word of 0 is always below,
  # so that nothing within reach is impossible.
  bounds = tf.exp(log_keeps - squares * tables.curvature) * 2.0**_WORD_BITS
  return numbers, tf.cast(words[1], tf.float64) <= bounds


def _words(shape: list[int], seed: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
  return tf.random.stateless_uniform(shape, seed, minval=None, maxval=None, dtype=dtype)
