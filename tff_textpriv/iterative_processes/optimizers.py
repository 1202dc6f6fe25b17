"""TFF optimizers from settings."""

from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.iterative_processes import central, common_settings


def client_optimizer(
  settings: common_settings.LocalTrainingSettings | central.CentralSettings,
) -> tff.learning.optimizers.Optimizer:
  """Makes the optimizer of local training."""
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
