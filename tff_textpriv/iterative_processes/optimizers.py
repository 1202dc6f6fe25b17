"""TFF optimizers from settings."""

from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.iterative_processes import central, common_settings


def client_optimizer(
  settings: common_settings.LocalTrainingSettings | central.CentralSettings,
) -> tff.learning.optimizers.Optimizer:
  """Makes the optimizer of local training."""
  return clipped(_unclipped(settings), settings.client_clip_norm)


def _unclipped(
  settings: common_settings.LocalTrainingSettings | central.CentralSettings,
) -> tff.learning.optimizers.Optimizer:
  learning_rate = settings.client_learning_rate
  if settings.client_optimizer == 'adam':
    return tff.learning.optimizers.build_adam(learning_rate)
  if settings.client_optimizer == 'adamw':
    return tff.learning.optimizers.build_adamw(
      learning_rate, weight_decay=settings.client_weight_decay
    )
  return tff.learning.optimizers.build_sgdm(
    learning_rate, momentum=settings.client_momentum or None
  )


class ClippingOptimizer(tff.learning.optimizers.Optimizer):
  """Scales gradients down to an L2 norm, over all tensors, before another optimizer."""

  def __init__(self, inner: tff.learning.optimizers.Optimizer, clip_norm: float):
    """Wraps an optimizer.

    Args:
      inner: What applies the gradients.
      clip_norm: The largest norm.
    """
    self._inner = inner
    self._clip_norm = clip_norm

  def initialize(self, specs):
    """See the base class."""
    return self._inner.initialize(specs)

  def next(self, state, weights, gradients):
    """See the base class."""
    clipped_leaves, _ = tf.clip_by_global_norm(
      tf.nest.flatten(gradients), self._clip_norm
    )
    bounded = tf.nest.pack_sequence_as(gradients, clipped_leaves)
    return self._inner.next(state, weights, bounded)

  def get_hparams(self, state):
    """See the base class."""
    return self._inner.get_hparams(state)

  def set_hparams(self, state, hparams):
    """See the base class."""
    return self._inner.set_hparams(state, hparams)


def clipped(
  optimizer: tff.learning.optimizers.Optimizer, clip_norm: float | None
) -> tff.learning.optimizers.Optimizer:
  """Returns an optimizer that clips gradients first, if a norm is given."""
  return optimizer if clip_norm is None else ClippingOptimizer(optimizer, clip_norm)


def server_optimizer(
  settings: common_settings.ServerSettings,
) -> tff.learning.optimizers.Optimizer:
  """Makes the optimizer of the server step."""
  step = settings.server_learning_rate
  if settings.server_optimizer == 'adam':
    optimizer = tff.learning.optimizers.build_adam(
      step, epsilon=settings.server_adam_epsilon
    )
  else:
    optimizer = tff.learning.optimizers.build_sgdm(
      step, momentum=settings.server_momentum or None
    )
  decay_rounds = settings.server_decay_rounds
  if decay_rounds is None:
    return optimizer
  return tff.learning.optimizers.schedule_learning_rate(
    optimizer, lambda round_number: step * linear_decay(round_number, decay_rounds)
  )


def linear_decay(round_number: Any, num_rounds: int) -> tf.Tensor:
  """Returns what a step size is multiplied by: 1 in round 0, then less, in a line."""
  done = tf.cast(round_number, tf.float32) / num_rounds
  return tf.maximum(0.0, 1.0 - done)
