"""Checkpoints are SavedModels, which are programs: only those that give back numbers."""

import pathlib

from google.protobuf import message
from tensorflow.core.protobuf import saved_model_pb2

# What TFF's state manager writes: variables, and a function that returns their values.
_KINDS = {'bare_concrete_function', 'function', 'user_object', 'variable'}
_OPS = {'Const', 'Identity', 'NoOp', 'ReadVariableOp'}


def check(folder: pathlib.Path) -> None:
  """Refuses a checkpoint that would do more than give back its numbers.

  Loading a SavedModel and asking for its values runs the functions in it, which could
  read and write any file. A run's folder may come from somebody else.

  Raises:
    ValueError: If it is damaged, or has something else in it than a checkpoint has.
  """
  try:
    content = saved_model_pb2.SavedModel.FromString(
      (folder / 'saved_model.pb').read_bytes()
    )
  except (OSError, message.DecodeError) as error:
    raise ValueError(f'saved_model.pb cannot be read ({error})') from error
  for graph in content.meta_graphs:
    for node in graph.object_graph_def.nodes:
      if node.WhichOneof('kind') not in _KINDS or node.saveable_objects:
        raise ValueError('there is something else in it than variables')
    functions = {each.signature.name: each for each in graph.graph_def.library.function}
    for name in graph.object_graph_def.concrete_functions:
      used = (
        {node.op for node in functions[name].node_def} if name in functions else {''}
      )
      if not used <= _OPS:
        raise ValueError(f'a function in it uses {", ".join(sorted(used - _OPS))}')
