"""The noise of rounds, made of new draws and of what is kept of earlier ones.

Noise and what is kept of it are whole numbers, so that a resumed round repeats its noise
exactly. None overflows: a standard deviation is at most 2^44, and no draw beyond 2^53.
"""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tff_textpriv.privacy import errors
from tff_textpriv.privacy.banded_noise import BandedNoise
from tff_textpriv.privacy.buffered_noise import BufferedNoise
from tff_textpriv.privacy.correlated_noise import Strategy
from tff_textpriv.privacy.tree_noise import MERGE_DENOMINATOR, TreeNoise

# Draws a vector of the round's independent noise, int64 [size]; each number another one.
Draw = Callable[[int], tf.Tensor]


@functools.singledispatch
def next_noise(
  strategy: Strategy,
  round_number: tf.Tensor,
  kept: tf.Tensor,
  draw: Draw,
  denominator: int,
) -> tuple[tf.Tensor, tf.Tensor]:
  """Makes the noise of a round.

  Args:
    strategy: How it hangs together with that of other rounds.
    round_number: The round, from 0.
    kept: What is kept of earlier rounds, int64 [strategy.num_vectors, size]; zeros before
      the first one.
    draw: Draws independent noise, on a finer lattice than that of updates.
    denominator: How much finer.

  Returns:
    The noise, whole numbers on the lattice of updates, int64 [size]; and what to keep.
  """
  raise errors.PrivacyError(f'{type(strategy).__name__} has no noise of rounds')


@next_noise.register
def _banded(
  strategy: BandedNoise,
  round_number: tf.Tensor,
  kept: tf.Tensor,
  draw: Draw,
  denominator: int,
) -> tuple[tf.Tensor, tf.Tensor]:
  """See `BandedNoise`; kept are the noises of earlier rounds, the last one first."""
  del denominator  # The first column's weights are over it.
  weights = tf.gather(tf.constant(strategy.weights()), round_number)
  left = draw(0) - tf.reduce_sum(weights[1:, tf.newaxis] * kept, axis=0)
  noise = _quotient(left, weights[0])
  return noise, tf.concat([noise[tf.newaxis], kept], axis=0)[: strategy.num_vectors]


@next_noise.register
def _tree(
  strategy: TreeNoise,
  round_number: tf.Tensor,
  kept: tf.Tensor,
  draw: Draw,
  denominator: int,
) -> tuple[tf.Tensor, tf.Tensor]:
  """See `TreeNoise`; kept are the estimates of the nodes that wait, one of each level.

  Which levels have one are the bits of the number of rounds that the tree has had.
  """
  del denominator  # It is one.
  place = round_number % strategy.restart
  waits = [tf.equal(place // 2**level % 2, 1) for level in range(strategy.levels)]
  zeros = tf.zeros_like(kept[0])
  before = [
    tf.where(is_there, kept[level], zeros) for level, is_there in enumerate(waits)
  ]
  node, is_carried = draw(0), tf.constant(True)
  after = []
  for level, is_there in enumerate(waits):
    is_stored = is_carried & ~is_there
    after.append(tf.where(is_stored, node, tf.where(is_carried, zeros, before[level])))
    is_carried &= is_there

    def merged(level: int = level, node: tf.Tensor = node) -> tf.Tensor:
      own = strategy.merge_weight(level + 1)
      children = before[level] + node
      weighted = own * draw(level + 1) + (MERGE_DENOMINATOR - own) * children
      return _quotient(weighted, tf.constant(MERGE_DENOMINATOR, tf.int64))

    node = tf.cond(is_carried, merged, lambda node=node: node)
  return tf.add_n(after) - tf.add_n(before), tf.stack(after)


@next_noise.register
def _buffered(
  strategy: BufferedNoise,
  round_number: tf.Tensor,
  kept: tf.Tensor,
  draw: Draw,
  denominator: int,
) -> tuple[tf.Tensor, tf.Tensor]:
  """See `BufferedNoise`; kept are its buffers, on the finer lattice."""
  del round_number  # All rounds are alike.
  scales, decays = strategy.parameters
  left = draw(0) - tf.reduce_sum(_scaled(kept, scales), axis=0)
  finer = tf.constant(denominator, tf.int64)
  noise = _quotient(left, finer)
  return noise, _scaled(kept, decays) + noise * finer


def _scaled(numbers: tf.Tensor, factors: np.ndarray) -> tf.Tensor:
  """Multiplies rows of whole numbers by factors, [rows], and rounds."""
  column = tf.constant(factors[:, np.newaxis], tf.float64)
  return tf.cast(tf.round(tf.cast(numbers, tf.float64) * column), tf.int64)


def _quotient(numbers: tf.Tensor, divisor: tf.Tensor) -> tf.Tensor:
  """Divides whole numbers and rounds; what whole multiples add stays whole."""
  return tf.math.floordiv(numbers + divisor // 2, divisor)
