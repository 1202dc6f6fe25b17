"""Parts of a cohort: where it is cut, and what a part is given and gives back.

Importing this module imports TFF.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.types import type_analysis


def slices(num_clients: int, num_parts: int) -> list[slice]:
  """Cuts a cohort into so many parts, or one per client if they are fewer.

  The parts differ by at most one client, the smaller ones come first, and none is
  empty, but for that of no clients.
  """
  return _even(num_clients, max(1, min(num_clients, num_parts)))


def _even(total: int, num_parts: int) -> list[slice]:
  """Cuts `total` things into parts that differ by one at most, the smaller first."""
  size, larger = divmod(total, num_parts)
  sizes = [size] * (num_parts - larger) + [size + 1] * larger
  ends = list(itertools.accumulate(sizes, initial=0))
  return [slice(*both) for both in itertools.pairwise(ends)]


def in_runs(parts: Sequence[slice], num_runs: int) -> list[list[slice]]:
  """Deals parts out in runs, so that those of one size stay together."""
  return [list(parts[run]) for run in _even(len(parts), num_runs)]


def by_weight(num_clients: int, weights: Sequence[int]) -> list[slice]:
  """Cuts a cohort into a part for each weight, as large as it says.

  None is empty, as long as there are as many clients as parts.

  Args:
    num_clients: The clients; at least as many as there are weights.
    weights: Positive numbers.
  """
  left = num_clients - len(weights)
  ends = [
    index + left * total // sum(weights)
    for index, total in enumerate(itertools.accumulate(weights), start=1)
  ]
  return [slice(*both) for both in itertools.pairwise([0, *ends])]


def cut_up(part: slice, most: int) -> list[slice]:
  """Cuts a part into parts of at most so many clients, which differ by one at most."""
  size = part.stop - part.start
  return [
    slice(part.start + each.start, part.start + each.stop)
    for each in _even(size, -(-size // most))
  ]


def is_per_client(type_spec: tff.Type) -> bool:
  """Tells whether values of a type are lists with an element for each client."""
  return (
    isinstance(type_spec, tff.FederatedType)
    and type_spec.placement is tff.CLIENTS
    and not type_spec.all_equal
  )


def cut(value: Any, type_spec: tff.Type, part: slice) -> Any:
  """Cuts a part of the clients out of an argument; the rest of it stays."""
  if is_per_client(type_spec):
    return value[part]
  if isinstance(type_spec, tff.StructType) and type_analysis.contains(
    type_spec, is_per_client
  ):
    elements = tff.structure.from_container(value)
    return tff.structure.Struct(
      (name, cut(elements[i], element_type, part))
      for i, (name, element_type) in enumerate(tff.structure.iter_elements(type_spec))
    )
  return value


def join(values: Sequence[Any], type_spec: tff.Type) -> Any:
  """Puts the results for the parts of a cohort together again."""
  if is_per_client(type_spec):
    return [element for value in values for element in value]
  if isinstance(type_spec, tff.StructType):
    structs = [tff.structure.from_container(value) for value in values]
    return tff.structure.Struct(
      (name, join([struct[i] for struct in structs], element_type))
      for i, (name, element_type) in enumerate(tff.structure.iter_elements(type_spec))
    )
  return values[0]
