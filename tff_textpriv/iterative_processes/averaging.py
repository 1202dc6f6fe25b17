"""Averaging, the process that most algorithms are: the four parts stand in `build`.

Who differs only in the client's optimizer, in the weights or in the mechanism between
clients and the server has nothing to add to it.
"""

import numpy as np
import tensorflow_federated as tff

from tff_textpriv.aggregators import of_mechanism
from tff_textpriv.iterative_processes import (
  common_settings,
  optimizers,
  scheduled_work,
  seeded_client_work,
)
from tff_textpriv.privacy import errors
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.settings import IncompatibleSettingsError


def build(
  model: tff.learning.models.FunctionalModel,
  settings: common_settings.LocalTrainingSettings,
  mechanism: Mechanism,
  client_optimizer: tff.learning.optimizers.Optimizer | None = None,
  mean: tff.aggregators.WeightedAggregationFactory | None = None,
) -> tff.learning.templates.LearningProcess:
  """Builds the process.

  Args:
    model: What is trained.
    settings: Both optimizers, weighting and schedule.
    mechanism: Makes the mean; where it randomizes on the device, a client reads a `seed`
      beside its `batches`.
    client_optimizer: Takes the local steps; by default the settings'.
    mean: Averages the updates; by default the mechanism's.
  """
  initial_weights = seeded_client_work.initial_weights(model)
  weights_type = initial_weights.type_signature.result
  work = _client_work(
    model,
    settings,
    mechanism,
    client_optimizer or optimizers.client_optimizer(settings),
    weights_type,
  )
  update_type = work.next.type_signature.result.result.member.update
  # A mechanism that nobody knows is refused, whose ever the mean is.
  own_mean = of_mechanism.mean(mechanism, by_examples=settings.weighs_by_examples)
  if mean is not None and mechanism.no_guarantee_reason is None:
    raise errors.PrivacyError(
      f'a mean of its own does not keep what {type(mechanism).__name__} promises'
    )
  mean = mean or own_mean
  return tff.learning.templates.compose_learning_process(
    initial_weights,
    tff.learning.templates.build_broadcast_process(weights_type),
    work,
    mean.create(update_type, tff.TensorType(np.float32)),
    tff.learning.templates.build_apply_optimizer_finalizer(
      optimizers.server_optimizer(settings), weights_type
    ),
  )


def _client_work(
  model: tff.learning.models.FunctionalModel,
  settings: common_settings.LocalTrainingSettings,
  mechanism: Mechanism,
  optimizer: tff.learning.optimizers.Optimizer,
  weights_type: tff.Type,
) -> tff.learning.templates.ClientWorkProcess:
  """Makes local training: TFF's own, unless the clients' step size falls."""
  weighting = (
    tff.learning.ClientWeighting.NUM_EXAMPLES
    if settings.weighs_by_examples
    else tff.learning.ClientWeighting.UNIFORM
  )
  has_schedule = settings.decay_rounds is not None or settings.decays_within_round
  if mechanism.randomizes_on_device:
    if has_schedule:
      raise IncompatibleSettingsError(
        '--client_decay_rounds and --client_decay_within_round do not go with noise on '
        'the device: the step size of such clients is constant'
      )
    return seeded_client_work.build(model, optimizer, weighting, mechanism)
  if has_schedule:
    return scheduled_work.model_training(
      model,
      optimizer,
      weights_type,
      weighting,
      settings.decay_rounds,
      settings.decays_within_round,
    )
  return tff.learning.templates.build_functional_model_delta_client_work(
    model=model,
    optimizer=optimizer,
    client_weighting=weighting,
    loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
  )
