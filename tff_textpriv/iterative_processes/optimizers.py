"""TFF optimizers from settings."""

import tensorflow_federated as tff

from tff_textpriv.iterative_processes import registry


def client_optimizer(
  settings: registry.LocalTrainingSettings | registry.CentralSettings,
) -> tff.learning.optimizers.Optimizer:
  """Makes the optimizer of local training."""
  if settings.client_optimizer == 'adam':
    return tff.learning.optimizers.build_adam(settings.client_learning_rate)
  return tff.learning.optimizers.build_sgdm(
    settings.client_learning_rate, momentum=settings.client_momentum or None
  )


def server_optimizer(
  settings: registry.ServerSettings,
) -> tff.learning.optimizers.Optimizer:
  """Makes the optimizer of the server step."""
  if settings.server_optimizer == 'adam':
    return tff.learning.optimizers.build_adam(
      settings.server_learning_rate, epsilon=settings.server_adam_epsilon
    )
  return tff.learning.optimizers.build_sgdm(
    settings.server_learning_rate, momentum=settings.server_momentum or None
  )
