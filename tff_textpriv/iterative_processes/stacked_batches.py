"""Clients' data sets handed to TFF as stacked tensors.

TFF sends a client's data set as a serialized tf.data graph, which costs several
milliseconds a client on either side, more than a small model's training step. Here a
client's batches, which all have one shape, travel as tensors with a leading axis of
batches, and become a data set inside the client's own computation. The data set is
marked as needing none of tf.data's optimizations, which take longer than reading it.
"""

import collections
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
import tree

from tff_textpriv.iterative_processes import fused_round


class NextRound:
  """Runs `next` of a learning process on batches; same results, less overhead."""

  def __init__(self, process: tff.learning.templates.LearningProcess):
    """Traces the computation.

    Args:
      process: A process whose clients' data are structures of sequences.
    """
    state_type, data_type = process.next.type_signature.parameter
    self._member_type = data_type.member

    @tff.tensorflow.computation(_stacked_type(data_type.member))
    def unstack(stacked):
      return _datasets(stacked, data_type.member)

    @tff.federated_computation(
      state_type, tff.FederatedType(_stacked_type(data_type.member), tff.CLIENTS)
    )
    def next_round(state, stacked):
      return process.next(state, tff.federated_map(unstack, stacked))

    self._next_round = fused_round.fuse(next_round)

  def __call__(
    self, state: Any, cohort: Sequence[Any]
  ) -> tff.learning.templates.LearningProcessOutput:
    """Runs a round.

    Args:
      state: The server state.
      cohort: What `next` takes: a client's data are lists of batches, in the
        structure of the process's type; the batches of a list have one shape.
    """
    return self._next_round(state, [_stack(data, self._member_type) for data in cohort])


def _stacked_type(data_type: tff.Type) -> tff.Type:
  """Returns a type with tensors [batches, ...] for each sequence of batches."""
  if isinstance(data_type, tff.SequenceType):
    return _stacked_type(data_type.element)
  if isinstance(data_type, tff.TensorType):
    return tff.TensorType(data_type.dtype, [None, *data_type.shape])
  return tff.StructType(
    [
      (name, _stacked_type(part))
      for name, part in tff.structure.iter_elements(data_type)
    ]
  )


def _stack(data: Any, data_type: tff.Type) -> Any:
  """Stacks each list of batches in a client's data; see `_stacked_type`."""
  if isinstance(data_type, tff.SequenceType):
    if not data:
      # Of no batches, axes of unknown length have none either.
      return filled(
        data_type.element,
        lambda part: np.zeros([0, *(length or 0 for length in part.shape)], part.dtype),
      )
    return tree.map_structure(lambda *parts: np.stack(parts), *data)
  return [
    _stack(part, part_type)
    for part, (_, part_type) in zip(
      data, tff.structure.iter_elements(data_type), strict=True
    )
  ]


def filled(type_spec: tff.Type, make: Callable[[tff.TensorType], np.ndarray]) -> Any:
  """Returns a value of a type whose arrays are made of the types of its tensors."""
  if isinstance(type_spec, tff.TensorType):
    return make(type_spec)
  return _container(
    [
      (name, filled(part, make))
      for name, part in tff.structure.iter_elements(type_spec)
    ]
  )


def _datasets(stacked: Any, data_type: tff.Type) -> Any:
  """Turns stacked tensors into the data sets of a type, inside a TFF graph."""
  if isinstance(data_type, tff.SequenceType):
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    tensors = _containers(stacked, data_type.element)
    return tf.data.Dataset.from_tensor_slices(tensors).with_options(options)
  return _container(
    [
      (name, _datasets(stacked[i], part))
      for i, (name, part) in enumerate(tff.structure.iter_elements(data_type))
    ]
  )


def _containers(value: Any, value_type: tff.Type) -> Any:
  """Turns a value in a TFF graph into nested tuples and ordered dictionaries."""
  if isinstance(value_type, tff.TensorType):
    return value
  return _container(
    [
      (name, _containers(value[i] if name is None else value[name], part))
      for i, (name, part) in enumerate(tff.structure.iter_elements(value_type))
    ]
  )


def _container(parts: Sequence[tuple[str | None, Any]]) -> Any:
  """Returns an ordered dictionary of named parts, or a tuple of unnamed ones."""
  if all(name is None for name, _ in parts):
    return tuple(part for _, part in parts)
  return collections.OrderedDict(parts)
