"""The server's step, where its gradient is made of more than a mean of updates."""

from collections.abc import Callable
from typing import Any

import tensorflow_federated as tff


def finalizer(
  optimizer: tff.learning.optimizers.Optimizer,
  weights_type: tff.Type,
  aggregate_type: tff.Type,
  gradient: Callable[[tff.learning.models.ModelWeights, Any], Any],
) -> tff.learning.templates.FinalizerProcess:
  """Makes the server step: an optimizer's, on a gradient made of the aggregate.

  Args:
    optimizer: That of the server.
    weights_type: The type of the model's weights.
    aggregate_type: That of what comes of the aggregation.
    gradient: Makes the gradient, of the type of the trainable weights, of the weights
      and the aggregate.
  """
  step = tff.learning.templates.build_apply_optimizer_finalizer(optimizer, weights_type)
  state_type = step.next.type_signature.parameter[0]
  to_gradient = tff.tensorflow.computation(gradient, (weights_type, aggregate_type))

  @tff.federated_computation(
    state_type,
    tff.FederatedType(weights_type, tff.SERVER),
    tff.FederatedType(aggregate_type, tff.SERVER),
  )
  def next_round(state, weights, aggregate):
    update = tff.federated_map(to_gradient, (weights, aggregate))
    return step.next(state, weights, update)

  return tff.learning.templates.FinalizerProcess(
    step.initialize,
    next_round,
    get_hparams_fn=step.get_hparams,
    set_hparams_fn=step.set_hparams,
  )
