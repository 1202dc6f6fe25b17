"""Running one computation on several workers, each with a part of the cohort.

TFF can split a computation at its aggregation ("mergeable" form): every worker
runs the part before it on its own clients, the partial sums are merged, and the
part after it runs once. TFF's context for this has three faults that matter here:
partial sums are merged, and clients' results returned, in the order in which the
workers finish; all workers get the same clients if the last argument is not placed
at clients; and the clients' data are sent a second time for the part that no longer
needs them. So the compiler is TFF's and the few lines that use it are our own.

Importing this module imports TFF.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any

import tensorflow_federated as tff
from tensorflow_federated.python.common_libs import async_utils
from tensorflow_federated.python.core.backends.native import mergeable_comp_compiler
from tensorflow_federated.python.core.impl.execution_contexts import compiler_pipeline
from tensorflow_federated.python.core.impl.executors import cardinalities_utils
from tensorflow_federated.python.core.impl.types import type_analysis, type_conversions


class UnsplittableError(ValueError):
  """A computation that several workers cannot share."""


class SpreadContext(tff.framework.SyncContext):
  """Executes computations on several workers; results do not depend on timing."""

  def __init__(self, contexts: Sequence[tff.framework.AsyncContext]):
    """Makes the context of `contexts`, one for each worker."""
    self._contexts = tuple(contexts)
    self._runner = async_utils.AsyncThreadRunner()
    self._compiler = compiler_pipeline.CompilerPipeline(
      mergeable_comp_compiler.compile_to_mergeable_comp_form
    )

  def invoke(self, comp: tff.Computation, arg: Any) -> Any:
    """Runs `comp` on `arg`: spread out if `arg` has clients, else on one worker."""
    num_clients = cardinalities_utils.infer_cardinalities(
      arg, comp.type_signature.parameter
    ).get(tff.CLIENTS, 0)
    if num_clients == 0:
      run = self._contexts[0].invoke(comp, arg)
    else:
      run = self._spread(self._compile(comp), arg, num_clients)
    return self._runner.run_coro_and_return_result(run)

  def _compile(self, comp: tff.Computation) -> tff.framework.MergeableCompForm:
    try:
      return self._compiler.compile(comp)
    except (TypeError, ValueError) as error:
      raise UnsplittableError(
        'This computation cannot be spread over several workers, because it does not'
        ' come down to one aggregation over the clients; use --num_workers=1.'
      ) from error

  async def _spread(
    self, form: tff.framework.MergeableCompForm, arg: Any, num_clients: int
  ) -> Any:
    first = self._contexts[0]
    arg_type = form.up_to_merge.type_signature.parameter
    result_type = form.after_merge.type_signature.result
    parts = [
      _slice_clients(arg, arg_type, part)
      for part in _slices(num_clients, len(self._contexts))
    ]
    partial_results = await _all(
      context.invoke(form.up_to_merge, part)
      for context, part in zip(self._contexts, parts, strict=False)
    )
    merged = partial_results[0]
    for partial in partial_results[1:]:
      merged = await first.invoke(form.merge, _pair(merged, partial))

    if not type_analysis.contains(result_type, _is_per_client):
      # What is left of the computation cannot depend on any client's data.
      no_clients = _slice_clients(arg, arg_type, slice(0, 0))
      return await first.invoke(form.after_merge, _pair(no_clients, merged))
    results = await _all(
      context.invoke(form.after_merge, _pair(part, merged))
      for context, part in zip(self._contexts, parts, strict=False)
    )
    return type_conversions.type_to_py_container(
      _join_clients(results, result_type), result_type
    )


def _pair(first: Any, second: Any) -> tff.structure.Struct:
  return tff.structure.Struct.unnamed(first, second)


async def _all(runs: Iterable[Awaitable[Any]]) -> list[Any]:
  """Awaits all of `runs`, also when one fails, so that none goes on unseen."""
  results = await asyncio.gather(*runs, return_exceptions=True)
  for result in results:
    if isinstance(result, BaseException):
      raise result
  return results


def _slices(num_clients: int, num_workers: int) -> list[slice]:
  """Cuts a cohort into one part per worker, or per client if they are fewer.

  The parts differ by at most one client and none is empty.
  """
  num_parts = min(num_clients, num_workers)
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
