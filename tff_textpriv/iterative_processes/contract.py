"""What the clients of a process read and send, read off the process itself.

Nothing is declared twice: the names of what a client reads are those in the type of the
process's `next`, and what it sends is every value that an operation of the built process
takes from clients to the server.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import tensorflow_federated as tff

from tff_textpriv.aggregators import messages

BATCHES = 'batches'


class Item(NamedTuple):
  """Something that crosses between the server and one client in a round.

  Attributes:
    name: Its name in the process; where it has none, its type.
    num_bytes: Its size: tensors only, without framing or compression.
  """

  name: str
  num_bytes: int


def reads(process: Any) -> tuple[str, ...]:
  """Returns the names of what a client reads in a round, in order."""
  if not isinstance(process, tff.learning.templates.LearningProcess):
    return (BATCHES,)
  data_type = process.next.type_signature.parameter[1].member
  if isinstance(data_type, tff.SequenceType):
    return (BATCHES,)
  return tuple(tff.structure.name_list(data_type))


def batch_type(process: tff.learning.templates.LearningProcess) -> tff.Type:
  """Returns the type of one of the batches that clients read."""
  data_type = process.next.type_signature.parameter[1].member
  if not isinstance(data_type, tff.SequenceType):
    data_type = data_type[BATCHES]
  return data_type.element


def sends(process: Any) -> list[Item]:
  """Returns everything that a client sends in a round; nothing if there are no clients."""
  return _items_to(tff.SERVER, process)


def receives(process: Any) -> list[Item]:
  """Returns everything that a client receives in a round."""
  return _items_to(tff.CLIENTS, process)


def _items_to(placement: Any, process: Any) -> list[Item]:
  """Returns what crosses to a placement, without what has no bytes."""
  return [
    item
    for source, target in _crossings(process)
    if target is placement
    for item in _items(source)
    if item.num_bytes
  ]


def _crossings(process: Any) -> Iterator[tuple[tff.Type, Any]]:
  """Yields the types that cross between placements, and where to."""
  if not isinstance(process, tff.learning.templates.LearningProcess):
    return
  for block in _blocks(process.next.to_building_block()):
    if not isinstance(block, tff.framework.Call) or not isinstance(
      block.function, tff.framework.Intrinsic
    ):
      continue
    result = block.type_signature
    if isinstance(result, tff.FederatedType) and block.argument is not None:
      for argument in _federated(block.argument.type_signature):
        if argument.placement is not result.placement:
          yield argument.member, result.placement


def _blocks(block: Any) -> Iterator[Any]:
  yield block
  for child in block.children():
    yield from _blocks(child)


def _federated(type_spec: tff.Type) -> Iterator[tff.FederatedType]:
  """Yields the federated values of an argument."""
  if isinstance(type_spec, tff.FederatedType):
    yield type_spec
  elif isinstance(type_spec, tff.StructType):
    for _, part in tff.structure.iter_elements(type_spec):
      yield from _federated(part)


def _items(member: tff.Type) -> Iterator[Item]:
  """Splits a value by the names of its parts."""
  if isinstance(member, tff.StructType):
    parts = list(tff.structure.iter_elements(member))
    if parts and all(name is not None for name, _ in parts):
      for name, part in parts:
        yield Item(name, messages.num_bytes(part))
      return
  yield Item(str(member), messages.num_bytes(member))
