"""The noise of rounds, made of new draws and of what is kept of earlier ones.

All of it is arithmetic of whole numbers, without overflow: `lattice.fitting` leaves draws
2^44 standard deviations' room, and none is larger than 2^53. So a resumed round repeats
its noise exactly.
"""

import functools
from collections.abc import Callable

import tensorflow as tf

from tff_textpriv.privacy import errors
from tff_textpriv.privacy.banded_noise import BandedNoise
from tff_textpriv.privacy.correlated_noise import Strategy
from tff_textpriv.privacy.tree_noise import MERGE_DENOMINATOR, TreeNoise

# Draws a vector of the round's independent noise, int64 [size]; each number another one.
Draw = Callable[[int], tf.Tensor]


@functools.singledispatch
def next_noise(
  strategy: Strategy, round_number: tf.Tensor, kept: tf.Tensor, draw: Draw
) -> tuple[tf.Tensor, tf.Tensor]:
  """Makes the noise of a round.

  Args:
    strategy: How it hangs together with that of other rounds.
    round_number: The round, from 0.
    kept: What is kept of earlier rounds, int64 [strategy.num_vectors, size]; zeros before
      the first one.
    draw: Draws independent noise, on the finer lattice of the strategy.

  Returns:
    The noise, whole numbers on the lattice of updates, int64 [size]; and what to keep.
  """
  raise errors.PrivacyError(f'{type(strategy).__name__} has no noise of rounds')


@next_noise.register
def _banded(
  strategy: BandedNoise, round_number: tf.Tensor, kept: tf.Tensor, draw: Draw
) -> tuple[tf.Tensor, tf.Tensor]:
  """See `BandedNoise`; kept are the noises of earlier rounds, the last one first."""
  weights = tf.gather(tf.constant(strategy.weights()), round_number)
  left = draw(0) - tf.reduce_sum(weights[1:, tf.newaxis] * kept, axis=0)
  noise = _quotient(left, weights[0])
  return noise, tf.concat([noise[tf.newaxis], kept], axis=0)[: strategy.num_vectors]


@next_noise.register
def _tree(
  strategy: TreeNoise, round_number: tf.Tensor, kept: tf.Tensor, draw: Draw
) -> tuple[tf.Tensor, tf.Tensor]:
  """See `TreeNoise`; kept are the estimates of the nodes that wait, one of each level.

  Which levels have one are the bits of the number of rounds that the tree has had.
  """
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


def _quotient(numbers: tf.Tensor, divisor: tf.Tensor) -> tf.Tensor:
  """Divides whole numbers and rounds; what whole multiples add stays whole."""
  return tf.math.floordiv(numbers + divisor // 2, divisor)
