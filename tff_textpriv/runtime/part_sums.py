"""What one worker does of a computation that is done in parts.

The server's state is sent to a worker once, and partial sums stay there: a part costs
the wire its clients' data and nothing else.

Importing this module imports TFF.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow_federated as tff
import tree
from tensorflow_federated.python.core.backends.native import mergeable_comp_compiler
from tensorflow_federated.python.core.environments.tensorflow_frontend import (
  tensorflow_computation,
)
from tensorflow_federated.python.core.impl.executors import (
  executor_base,
  executor_value_base,
)
from tensorflow_federated.python.core.impl.types import type_analysis

from tff_textpriv.runtime import client_slices, connection


class InParts:
  """A computation that can be done in parts.

  Attributes:
    form: Its parts: up to a sum over clients, adding sums up, and what follows.
    merge_at_server: Adds up two sums that a worker still has.
  """

  def __init__(self, comp: tff.Computation):
    self.form = mergeable_comp_compiler.compile_to_mergeable_comp_form(comp)
    sum_type = self.form.up_to_merge.type_signature.result

    @tff.federated_computation(sum_type, sum_type)
    def merge_at_server(first, second):
      return tff.federated_map(self.form.merge, (first, second))

    self.merge_at_server = merge_at_server


class Worker:
  """Runs on one worker what falls to it."""

  def __init__(
    self,
    its_connection: connection.Connection,
    compile_to_native: Callable[[tff.Computation], tff.Computation],
  ):
    self._connection = its_connection
    self._compile = compile_to_native
    self._context = tff.framework.AsyncExecutionContext(
      its_connection,
      compiler_fn=compile_to_native,
      transform_args=tensorflow_computation.transform_args,
      transform_result=tensorflow_computation.transform_result,
    )

  async def invoke(self, comp: tff.Computation, arg: Any) -> Any:
    """Runs a computation."""
    return await self._context.invoke(comp, arg)

  async def invoke_each(self, comp: tff.Computation, args: Sequence[Any]) -> list[Any]:
    """Runs a computation on each of `args`, one after the other."""
    return [await self.invoke(comp, arg) for arg in args]

  async def partial_sums(
    self, comp: InParts, arg: Any, slices: Sequence[slice]
  ) -> list[Any]:
    """Aggregates parts of a cohort, and adds their sums up in the worker.

    What belongs to no client, the server's state, is sent once and stays there, and so
    do the sums. An executor of TFF's has one size of cohort: that holds for the parts of
    one size, of which there are two at most.

    Args:
      comp: The computation.
      arg: What it takes.
      slices: The parts of the clients, in order.

    Returns:
      The sum of the parts of each size.
    """
    sums = []
    for size, parts in itertools.groupby(slices, lambda part: part.stop - part.start):
      cardinalities = {tff.CLIENTS: size}
      executor = self._connection.create_executor(cardinalities)
      try:
        sums.append(await self._sum_of(executor, comp, arg, list(parts)))
      except Exception:
        self._connection.clean_up_executor(cardinalities)
        raise
    return sums

  async def _sum_of(
    self,
    executor: executor_base.Executor,
    comp: InParts,
    arg: Any,
    parts: Sequence[slice],
  ) -> Any:
    """Returns the sum of parts of one size."""
    arg_type = comp.form.up_to_merge.type_signature.parameter
    work = await self._embed(executor, comp.form.up_to_merge)
    merge = await self._embed(executor, comp.merge_at_server)
    arg = await _ingest_shared(executor, arg, arg_type)

    async def sum_of(part: slice) -> Any:
      clients = await _ingest(
        executor, client_slices.cut(arg, arg_type, part), arg_type
      )
      return await executor.create_call(work, clients)

    total = await sum_of(parts[0])
    for part in parts[1:]:
      both = await executor.create_struct(pair(total, await sum_of(part)))
      total = await executor.create_call(merge, both)
    return await total.compute()

  async def _embed(
    self, executor: executor_base.Executor, comp: tff.Computation
  ) -> Any:
    native = self._compile(comp)
    return await executor.create_value(native, native.type_signature)


async def _ingest_shared(
  executor: executor_base.Executor, arg: Any, arg_type: tff.Type
) -> Any:
  """Sends what belongs to no client to the worker, and leaves the rest as it is."""
  if not type_analysis.contains(arg_type, client_slices.is_per_client):
    return await executor.create_value(_as_numpy(arg), arg_type)
  if not isinstance(arg_type, tff.StructType):
    return arg
  elements = tff.structure.from_container(arg)
  return tff.structure.Struct(
    [
      (name, await _ingest_shared(executor, elements[i], element_type))
      for i, (name, element_type) in enumerate(tff.structure.iter_elements(arg_type))
    ]
  )


async def _ingest(
  executor: executor_base.Executor, arg: Any, arg_type: tff.Type
) -> Any:
  """Sends what is not there yet; the argument as a value of the worker's."""
  if isinstance(arg, executor_value_base.ExecutorValue):
    return arg
  if not isinstance(arg_type, tff.StructType):
    return await executor.create_value(_as_numpy(arg), arg_type)
  return await executor.create_struct(
    tff.structure.Struct(
      [
        (name, await _ingest(executor, arg[i], element_type))
        for i, (name, element_type) in enumerate(tff.structure.iter_elements(arg_type))
      ]
    )
  )


def _as_numpy(value: Any) -> Any:
  """Returns a value in Python's containers, with arrays in the place of tensors."""
  containers = tree.traverse(
    lambda part: (
      tff.structure.to_odict_or_tuple(part)
      if isinstance(part, tff.structure.Struct)
      else None
    ),
    value,
  )
  return tensorflow_computation.transform_args(containers)


def pair(first: Any, second: Any) -> tff.structure.Struct:
  """Returns two values as one argument."""
  return tff.structure.Struct.unnamed(first, second)
