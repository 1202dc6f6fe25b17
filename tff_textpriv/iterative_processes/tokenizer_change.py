"""Carrying a server state over a change of tokenizer."""

import collections
from collections.abc import Mapping
from typing import Any

import scipy.sparse
import tensorflow_federated as tff

from tff_textpriv.models import language_models
from tff_textpriv.text import remap


def carry_over(
  state: tff.learning.templates.LearningAlgorithmState,
  fresh: tff.learning.templates.LearningAlgorithmState,
  model: language_models.LanguageModel,
  matrix: scipy.sparse.csr_matrix,
) -> tff.learning.templates.LearningAlgorithmState:
  """Carries a server state over to the process of a new tokenizer.

  Embedding, output layer and output bias are remapped, and so are the server
  optimizer's moments of these rows. All else, the private mean's round and clip
  included, stays.

  Args:
    state: The state under the old tokenizer.
    fresh: An initial state of the new process, for its structure.
    model: The model under the old tokenizer.
    matrix: The matrix of `remap.remap_matrix`.
  """

  def remapped(leaves: Any) -> tuple:
    return tuple(remap.remap_weights(leaves, model.vocabulary_axes, matrix))

  num_weights = len(state.global_model_weights.trainable)

  def moments(optimizer_state: Mapping[str, Any]) -> collections.OrderedDict[str, Any]:
    result = collections.OrderedDict(optimizer_state)
    for name, value in optimizer_state.items():
      if isinstance(value, Mapping):
        result[name] = moments(value)
      elif isinstance(value, tuple | list) and len(value) == num_weights:
        result[name] = remapped(value)
    return result

  return fresh._replace(
    global_model_weights=fresh.global_model_weights._replace(
      trainable=remapped(state.global_model_weights.trainable)
    ),
    distributor=state.distributor,
    client_work=state.client_work,
    aggregator=state.aggregator,
    finalizer=moments(state.finalizer),
  )
