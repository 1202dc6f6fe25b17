"""Carrying a server state over a change of tokenizer."""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff

from tff_textpriv.models import language_models


def carry_over(
  state: tff.learning.templates.LearningAlgorithmState,
  fresh: tff.learning.templates.LearningAlgorithmState,
  model: language_models.LanguageModel,
  weights: Sequence[np.ndarray],
  remapped: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]],
) -> tff.learning.templates.LearningAlgorithmState:
  """Carries a server state over to the process of a new tokenizer.

  The server optimizer's moments of embedding, output layer and output bias are remapped.
  They are whatever in the optimizer's state is a list of arrays of the weights' shapes,
  in order. All else, the private mean's round and clip included, stays.

  Args:
    state: The state under the old tokenizer.
    fresh: An initial state of the new process, for its structure.
    model: The model under the old tokenizer.
    weights: The weights under the new one.
    remapped: Carries arrays of the shapes of the model's weights over.
  """
  shapes = [tuple(shape) for shape in model.weight_shapes]

  def carried(value: Any) -> Any:
    if isinstance(value, Mapping):
      return collections.OrderedDict(
        (name, carried(part)) for name, part in value.items()
      )
    if not isinstance(value, tuple | list):
      return value
    if [tuple(getattr(part, 'shape', ())) for part in value] == shapes:
      return tuple(remapped(value))
    parts = map(carried, value)
    return value._make(parts) if hasattr(value, '_make') else type(value)(parts)

  return fresh._replace(
    global_model_weights=fresh.global_model_weights._replace(trainable=tuple(weights)),
    distributor=state.distributor,
    client_work=state.client_work,
    aggregator=state.aggregator,
    finalizer=carried(state.finalizer),
  )
