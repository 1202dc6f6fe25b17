"""LG-FedAvg: representations are learnt on the device, the layers above are averaged.

Users may take a part of the shared layers from their own last training instead of from
the server (`--interpolation`). With the embedding as the only local layer and without
interpolation it is `fede_vocab` without adaptive updating. Reference: Liang et al., Think
Locally, Act Globally (2020).
"""

import tensorflow_federated as tff

from tff_textpriv.iterative_processes import (
  algorithm_settings,
  local_training,
  optimizers,
  partially_local,
)
from tff_textpriv.models import sequence_classifiers


def build(
  model: tff.learning.models.FunctionalModel,
  settings: algorithm_settings.LgFedAvgSettings,
  plan: None = None,
  seed: int = 0,
) -> tff.learning.templates.LearningProcess:
  """Builds the process; see `registry.Algorithm.build`."""
  del plan, seed  # No mechanism, no random numbers.
  return partially_local.build(model, make_device(model, settings), settings)


def make_device(
  model: tff.learning.models.FunctionalModel,
  settings: algorithm_settings.LgFedAvgSettings,
) -> partially_local.Device:
  """Describes a device: the table and perhaps the layers above it are its own."""
  num_local = 1
  if settings.local_layers == 'representation':
    num_local = len(model.initial_weights[0]) - sequence_classifiers.NUM_OUTPUT_WEIGHTS
  return partially_local.Device(
    local_training.LocalTrainer(
      model, optimizers.client_optimizer(settings), num_local=num_local
    ),
    own_share=settings.interpolation,
  )
