"""Every user for itself: the whole model stays on the device, and nothing is sent.

The reference that says what a federation is worth.
"""

import tensorflow_federated as tff

from tff_textpriv.iterative_processes import (
  algorithm_settings,
  local_training,
  optimizers,
  partially_local,
)


def build(
  model: tff.learning.models.FunctionalModel,
  settings: algorithm_settings.LocalOnlySettings,
  plan: None = None,
  seed: int = 0,
) -> tff.learning.templates.LearningProcess:
  """Builds the process; see `registry.Algorithm.build`. It has no shared weights."""
  del plan, seed  # No mechanism, no random numbers.
  return partially_local.build(model, make_device(model, settings), settings)


def make_device(
  model: tff.learning.models.FunctionalModel,
  settings: algorithm_settings.LocalOnlySettings,
) -> partially_local.Device:
  """Describes a device: all weights are its own."""
  return partially_local.Device(
    local_training.LocalTrainer(
      model,
      optimizers.client_optimizer(settings),
      num_local=len(model.initial_weights[0]),
    )
  )
