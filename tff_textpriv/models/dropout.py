"""Dropout whose masks are functions of a seed.

TFF runs the same graph on every client: masks must come from a seed that is a part
of the data, or all clients would drop the same units.
"""

import tensorflow as tf


class Dropout:
  """Drops units of one pass through a model, each time by a mask of its own."""

  def __init__(self, rate: float, seed: tf.Tensor | None):
    """Starts a pass.

    Args:
      rate: The share of units that is dropped.
      seed: int32 [2]; `None` drops nothing, as in evaluation.
    """
    self._rate = rate
    self._seed = seed
    self._num_masks = 0

  def __call__(self, units: tf.Tensor) -> tf.Tensor:
    """Drops some of the units and scales up the others, so that means stay."""
    if self._seed is None or self._rate == 0:
      return units
    seed = tf.random.experimental.stateless_fold_in(self._seed, self._num_masks)
    self._num_masks += 1
    return tf.nn.experimental.stateless_dropout(units, self._rate, seed)
