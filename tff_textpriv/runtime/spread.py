"""Running one computation on a cohort in parts: on several workers, or one by one.

TFF can split a computation at its aggregation ("mergeable" form): every worker
runs the part before it on its own clients, the partial sums are merged, and the
part after it runs once. A worker keeps what its clients have computed until all of
them are done, several times the model for each client; a cohort for which that would
be too much is cut into more parts than there are workers. TFF's context for this has three faults that matter here:
partial sums are merged, and clients' results returned, in the order in which the
workers finish; all workers get the same clients if the last argument is not placed
at clients; and the clients' data are sent a second time for the part that no longer
needs them. So the compiler is TFF's and the few lines that use it are our own.

Importing this module imports TFF.
"""

import asyncio
import math
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff
from tensorflow_federated.python.common_libs import async_utils
from tensorflow_federated.python.core.backends.native import mergeable_comp_compiler
from tensorflow_federated.python.core.impl.execution_contexts import compiler_pipeline
from tensorflow_federated.python.core.impl.executors import cardinalities_utils
from tensorflow_federated.python.core.impl.types import type_analysis, type_conversions

# What a worker may keep of its clients at a time, and how many times the server's state
# that is for each of them: the update, and the same after clipping and after weighting.
_BYTES_OF_CLIENTS = 4 * 2**30
_STATES_PER_CLIENT = 4


class UnsplittableError(ValueError):
  """A computation that several workers cannot share."""


class SpreadContext(tff.framework.SyncContext):
  """Executes computations on workers; results do not depend on timing."""

  def __init__(self, contexts: Sequence[tff.framework.AsyncContext]):
    """Makes the context of `contexts`, one for each worker."""
    self._contexts = tuple(contexts)
    self._runner = async_utils.AsyncThreadRunner()
    self._compiler = compiler_pipeline.CompilerPipeline(
      mergeable_comp_compiler.compile_to_mergeable_comp_form
    )

  def invoke(self, comp: tff.Computation, arg: Any) -> Any:
    """Runs `comp` on `arg`: as it is if one part will do, else spread out."""
    num_clients = cardinalities_utils.infer_cardinalities(
      arg, comp.type_signature.parameter
    ).get(tff.CLIENTS, 0)
    most = _clients_in_memory(comp.type_signature.parameter)
    parts = _slices(
      num_clients, max(len(self._contexts), math.ceil(num_clients / most))
    )
    if len(parts) == 1:
      run = self._contexts[0].invoke(comp, arg)
    else:
      run = self._spread(self._compile(comp), arg, parts)
    return self._runner.run_coro_and_return_result(run)

  def _compile(self, comp: tff.Computation) -> tff.framework.MergeableCompForm:
    try:
      return self._compiler.compile(comp)
    except (TypeError, ValueError) as error:
      raise UnsplittableError(
        'This computation cannot be done in parts, because it does not come down to one'
        ' aggregation over the clients; use --num_workers=1 or fewer clients a round.'
      ) from error

  async def _spread(
    self, form: tff.framework.MergeableCompForm, arg: Any, slices: Sequence[slice]
  ) -> Any:
    first = self._contexts[0]
    arg_type = form.up_to_merge.type_signature.parameter
    result_type = form.after_merge.type_signature.result
    parts = [_slice_clients(arg, arg_type, part) for part in slices]
    partial_results = await self._each(form.up_to_merge, parts)
    merged = partial_results[0]
    for partial in partial_results[1:]:
      merged = await first.invoke(form.merge, _pair(merged, partial))

    if not type_analysis.contains(result_type, _is_per_client):
      # What is left of the computation cannot depend on any client's data.
      no_clients = _slice_clients(arg, arg_type, slice(0, 0))
      return await first.invoke(form.after_merge, _pair(no_clients, merged))
    results = await self._each(
      form.after_merge, [_pair(part, merged) for part in parts]
    )
    return type_conversions.type_to_py_container(
      _join_clients(results, result_type), result_type
    )

  async def _each(self, comp: tff.Computation, args: Sequence[Any]) -> list[Any]:
    """Runs `comp` on each of `args`, one at a time on each worker, in turn."""
    num_workers = len(self._contexts)

    async def work(
      context: tff.framework.AsyncContext, mine: Sequence[Any]
    ) -> list[Any]:
      return [await context.invoke(comp, arg) for arg in mine]

    by_worker = await _all(
      work(context, args[index::num_workers])
      for index, context in enumerate(self._contexts)
    )
    return [by_worker[i % num_workers][i // num_workers] for i in range(len(args))]


def type_bytes(type_spec: tff.Type | None) -> int:
  """Returns the bytes of a value of a type; what is a client's own counts nothing."""
  match type_spec:
    case None | tff.FederatedType(placement=tff.CLIENTS):
      return 0
    case tff.TensorType():
      if type_spec.shape is None or None in type_spec.shape:
        return 0  # Of no known size: no server's state is like that.
      return math.prod(type_spec.shape) * np.dtype(type_spec.dtype).itemsize
  return sum(map(type_bytes, type_spec.children()))


def _clients_in_memory(parameter: tff.Type | None) -> int:
  """Returns how many clients a worker may be given at a time."""
  bytes_per_client = _STATES_PER_CLIENT * type_bytes(parameter)
  return max(1, _BYTES_OF_CLIENTS // max(1, bytes_per_client))


def _pair(first: Any, second: Any) -> tff.structure.Struct:
  return tff.structure.Struct.unnamed(first, second)


async def _all(runs: Iterable[Awaitable[Any]]) -> list[Any]:
  """Awaits all of `runs`, also when one fails, so that none goes on unseen."""
  results = await asyncio.gather(*runs, return_exceptions=True)
  for result in results:
    if isinstance(result, BaseException):
      raise result
  return results


def _slices(num_clients: int, num_parts: int) -> list[slice]:
  """Cuts a cohort into so many parts, or one per client if they are fewer.

  The parts differ by at most one client and none is empty, but for that of no clients.
  """
  num_parts = max(1, min(num_clients, num_parts))
  cuts = [num_clients * part // num_parts for part in range(num_parts + 1)]
  return [slice(*ends) for ends in zip(cuts[:-1], cuts[1:], strict=True)]


def _is_per_client(type_spec: tff.Type) -> bool:
  """Tells whether values of a type are lists with an element for each client."""
  return (
    isinstance(type_spec, tff.FederatedType)
    and type_spec.placement is tff.CLIENTS
    and not type_spec.all_equal
  )


def _slice_clients(value: Any, type_spec: tff.Type, part: slice) -> Any:
  """Cuts a part of the clients out of an argument; the rest of it stays."""
  if _is_per_client(type_spec):
    return value[part]
  if isinstance(type_spec, tff.StructType) and type_analysis.contains(
    type_spec, _is_per_client
  ):
    elements = tff.structure.from_container(value)
    return tff.structure.Struct(
      (name, _slice_clients(elements[i], element_type, part))
      for i, (name, element_type) in enumerate(tff.structure.iter_elements(type_spec))
    )
  return value


def _join_clients(values: Sequence[Any], type_spec: tff.Type) -> Any:
  """Puts the results for the parts of a cohort together again."""
  if _is_per_client(type_spec):
    return [element for value in values for element in value]
  if isinstance(type_spec, tff.StructType):
    structs = [tff.structure.from_container(value) for value in values]
    return tff.structure.Struct(
      (name, _join_clients([struct[i] for struct in structs], element_type))
      for i, (name, element_type) in enumerate(tff.structure.iter_elements(type_spec))
    )
  return values[0]
