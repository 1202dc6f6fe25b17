"""Canary users: clients of an audit whose update is a random direction.

Nothing but the model is touched. A batch carries a mark beside its inputs; the loss of a
marked batch is linear in the weights, with a gradient of +1 or -1, times a number, in
each coordinate. Whatever the algorithm does with a client's gradient, with its update, with
the sum of updates and with the server's model, it does with a canary's too. Under a clip
norm this is the worst case: the gradient is so large that clipping is what bounds the
update, and in high dimension the directions of any two canaries are nearly orthogonal.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv import randomness
from tff_textpriv.iterative_processes import (
  common_settings,
  marked_model,
  stacked_batches,
)

# Sign of the canary's update, 0 for a user who is none; and the seed of its direction.
_MARK_SPEC = tf.TensorSpec([3], tf.int32)
_NO_MARK = np.zeros([3], np.int32)
_INT32 = np.iinfo(np.int32)
# How many times as long as the bound an update should be, to be sure to be bounded.
_EXCESS = 100.0


@dataclasses.dataclass(frozen=True)
class Canaries:
  """The canary users of an audit, with their coins and their directions.

  Attributes:
    number: How many there are.
    seed: Decides coins and directions.
  """

  number: int
  seed: int

  @property
  def ids(self) -> list[str]:
    """Their names among the users."""
    return [f'canary {index}' for index in range(self.number)]

  @functools.cached_property
  def coins(self) -> np.ndarray:
    """Independent fair coins, bool [number]."""
    return randomness.generator(self.seed, 'canary coins').random(self.number) < 0.5

  def direction_seed(self, index: int, round_number: int) -> np.ndarray:
    """Returns what decides a canary's direction in a round, int32 [2]."""
    rng = randomness.generator(self.seed, 'canary direction', round_number, index)
    return rng.integers(_INT32.min, _INT32.max, 2, np.int32, endpoint=True)

  def mark(self, index: int, round_number: int) -> np.ndarray:
    """Returns the mark of a canary's batches in a round: a sign, by its coin, and a seed.

    A canary whose coin shows tails sends the opposite of its direction, if anything.
    """
    sign = 1 if self.coins[index] else -1
    return np.array([sign, *self.direction_seed(index, round_number)], np.int32)


@dataclasses.dataclass(frozen=True)
class Strength:
  """What a canary does in order to be bounded.

  Attributes:
    gradient: The size of its gradient in each coordinate.
    num_steps: The number of its batches.
  """

  gradient: float
  num_steps: int

  @classmethod
  def beyond(
    cls, settings: common_settings.AlgorithmSettings, step: float
  ) -> 'Strength':
    """Returns what moves each weight by more than `step`, in a round.

    Adam's steps are as long as its learning rate, whatever the gradient is: there it
    takes several of them.

    Args:
      settings: Those of the algorithm, with the client's optimizer, if it has one.
      step: By how much to move, at least.
    """
    rate = settings.client_step or 1.0
    if settings.local_optimizer == 'sgd':
      return cls(_EXCESS * step / rate, 1)
    return cls(1.0, math.ceil(2 * step / rate))


def with_canaries(
  model: tff.learning.models.FunctionalModel, gradient: float
) -> tff.learning.models.FunctionalModel:
  """Lets some of a model's clients be canaries.

  Args:
    model: What is trained.
    gradient: The size of a canary's gradient in each coordinate.

  Returns:
    A model of the same weights, whose batches are those of `unmarked` and
    `canary_batches`. Without a mark it is the model.
  """

  def seen(weights: Any, mark: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    # A loss of zero whose gradient is the direction.
    along = tf.cond(
      tf.equal(mark[0], 0),
      lambda: tf.zeros([]),
      lambda: tf.cast(mark[0], tf.float32) * _along(weights[0], mark[1:]),
    )
    return gradient * (along - tf.stop_gradient(along)), mark[0]

  def loss(own: Callable[[], tf.Tensor], seen_of_mark: Any) -> tf.Tensor:
    along, sign = seen_of_mark
    return tf.cond(tf.equal(sign, 0), own, lambda: along)

  return marked_model.with_mark(model, _MARK_SPEC, seen, loss)


def unmarked(batches: Sequence[Any]) -> list[Any]:
  """Returns the batches of a user who is no canary."""
  return [marked_model.batch(inputs, _NO_MARK, labels) for inputs, labels in batches]


def canary_batches(batch_type: tff.Type, strength: Strength, mark: np.ndarray) -> list:
  """Makes the batches of a canary: the smallest that there can be.

  Args:
    batch_type: The type of the batches of a model of `with_canaries`.
    strength: Tells their number.
    mark: That of `Canaries.mark`.
  """
  inputs, labels = stacked_batches.filled(
    batch_type,
    lambda part: np.ones([1 if n is None else n for n in part.shape], part.dtype),
  )
  return [marked_model.batch(inputs['inputs'], mark, labels)] * strength.num_steps


def signs(direction_seed: Any, size: int) -> tf.Tensor:
  """Returns a direction, +1 or -1 in each coordinate, float32 [size]."""
  draws = tf.random.stateless_uniform(
    [size], direction_seed, minval=None, maxval=None, dtype=tf.int32
  )
  return tf.where(draws < 0, -1.0, 1.0)


@tf.function(autograph=False)
def projections(vector: tf.Tensor, direction_seeds: tf.Tensor) -> tf.Tensor:
  """Returns a vector's components along the directions' unit vectors.

  Args:
    vector: float32 [size].
    direction_seeds: int32 [number, 2].

  Returns:
    float32 [number].
  """
  size = vector.shape[0]
  dots = tf.map_fn(
    lambda seed: tf.tensordot(signs(seed, size), vector, 1),
    direction_seeds,
    fn_output_signature=tf.float32,
  )
  return dots / math.sqrt(size)


def released_update(before: Any, after: Any) -> np.ndarray:
  """Returns the aggregate of a round, the server's step undone.

  Whoever sees the server's states, as the guarantee allows, sees this.

  Args:
    before: The state of a learning process before the round.
    after: The state after it.

  Returns:
    float32 [number of weights].
  """
  start, end = (
    state.finalizer.get('optimizer', state.finalizer) for state in (before, after)
  )
  if 'preconditioner' in end:  # Adam: a' = a + (1 - beta) (g - a).
    old, new = _vector(start['accumulator']), _vector(end['accumulator'])
    return old + (new - old) / (1 - np.float32(end['beta_1']))
  if 'accumulator' in end:  # Momentum: a' = momentum a + g.
    old, new = _vector(start['accumulator']), _vector(end['accumulator'])
    return new - np.float32(end['momentum']) * old
  old = _vector(before.global_model_weights.trainable)
  new = _vector(after.global_model_weights.trainable)
  return (old - new) / np.float32(start['learning_rate'])


def _vector(tensors: Any) -> np.ndarray:
  """Concatenates tensors."""
  return np.concatenate([np.ravel(tensor) for tensor in tf.nest.flatten(tensors)])


def _along(weights: Sequence[tf.Tensor], direction_seed: tf.Tensor) -> tf.Tensor:
  """Returns the sum of the weights, each times its sign."""
  sizes = [math.prod(weight.shape) for weight in weights]
  pieces = tf.split(signs(direction_seed, sum(sizes)), sizes)
  return tf.add_n(
    [
      tf.tensordot(piece, tf.reshape(weight, [-1]), 1)
      for piece, weight in zip(pieces, weights, strict=True)
    ]
  )
