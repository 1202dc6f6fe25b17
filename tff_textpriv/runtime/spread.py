"""Running one computation on a cohort in parts: on several workers, or one by one.

TFF can split a computation at its aggregation ("mergeable" form): every worker
runs the part before it on its own clients, the partial sums are merged, and the
part after it runs once. A worker keeps what its clients have computed until all of
them are done, several times the model for each client; a cohort for which that would
be too much is cut into more parts than there are workers.

TFF's context for this has four faults that matter here: partial sums are merged, and
clients' results returned, in the order in which the workers finish; all workers get the
same clients if the last argument is not placed at clients; the clients' data are sent a
second time for the part that no longer needs them; and every part is sent the server's
state and returns a sum. So the compiler is TFF's and the few lines that use it are our
own.

Importing this module imports TFF.
"""

import asyncio
import math
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff
from tensorflow_federated.python.common_libs import async_utils
from tensorflow_federated.python.core.backends.native import compiler
from tensorflow_federated.python.core.impl.execution_contexts import compiler_pipeline
from tensorflow_federated.python.core.impl.executors import cardinalities_utils
from tensorflow_federated.python.core.impl.types import type_analysis, type_conversions

from tff_textpriv.runtime import client_slices, connection, part_sums

# What a worker may keep of its clients at a time, and how many times the model that is for
# each of them: itself, the update, and the same after clipping and after weighting.
_BYTES_OF_CLIENTS = 4 * 2**30
_MODELS_PER_CLIENT = 4
# Where a learning process's state has it.
_MODEL = 'global_model_weights'


class UnsplittableError(ValueError):
  """A computation that several workers cannot share."""


class SpreadContext(tff.framework.SyncContext):
  """Executes computations on workers; results do not depend on timing."""

  def __init__(
    self,
    connections: Sequence[connection.Connection],
    home: connection.Connection | None = None,
  ):
    """Makes the context of some workers; uses all of them.

    Args:
      connections: One for each worker, in the order in which they share a cohort.
      home: That of a worker which is nearer than these and trains nobody: what several
        of them have summed up is merged there, and the round finished. By default the
        first of those in use.
    """
    native = compiler_pipeline.CompilerPipeline(
      compiler.desugar_and_transform_to_native
    )
    self._all = {each: part_sums.Worker(each, native.compile) for each in connections}
    self._home = None if home is None else part_sums.Worker(home, native.compile)
    self.use(connections)
    self._runner = async_utils.AsyncThreadRunner()
    self._in_parts = compiler_pipeline.CompilerPipeline(part_sums.InParts)

  def use(self, connections: Sequence[connection.Connection]) -> None:
    """Spreads what follows over some of the connections only."""
    self._workers = tuple(self._all[each] for each in connections)
    self._finisher = self._home or self._workers[0]

  def invoke(self, comp: tff.Computation, arg: Any) -> Any:
    """Runs `comp` on `arg`: as it is if one part will do, else spread out."""
    num_clients = cardinalities_utils.infer_cardinalities(
      arg, comp.type_signature.parameter
    ).get(tff.CLIENTS, 0)
    most = _clients_in_memory(comp.type_signature.parameter)
    parts = client_slices.slices(
      num_clients, max(len(self._workers), math.ceil(num_clients / most))
    )
    if not num_clients:
      run = self._finisher.invoke(comp, arg)
    elif len(parts) == 1:
      run = self._workers[0].invoke(comp, arg)
    else:
      run = self._spread(self._compile(comp), arg, parts)
    return self._runner.run_coro_and_return_result(run)

  def _compile(self, comp: tff.Computation) -> part_sums.InParts:
    try:
      return self._in_parts.compile(comp)
    except (TypeError, ValueError) as error:
      raise UnsplittableError(
        'This computation cannot be done in parts, because it does not come down to one'
        ' aggregation over the clients; use --num_workers=1 or fewer clients a round.'
      ) from error

  async def _spread(
    self, comp: part_sums.InParts, arg: Any, slices: Sequence[slice]
  ) -> Any:
    form = comp.form
    arg_type = form.up_to_merge.type_signature.parameter
    result_type = form.after_merge.type_signature.result
    by_worker = client_slices.in_runs(slices, len(self._workers))
    sums = await _all(
      worker.partial_sums(comp, arg, mine)
      for worker, mine in zip(self._workers, by_worker, strict=True)
    )
    merged, *others = [partial for of_worker in sums for partial in of_worker]
    for partial in others:
      merged = await self._finisher.invoke(form.merge, part_sums.pair(merged, partial))

    if not type_analysis.contains(result_type, client_slices.is_per_client):
      # What is left of the computation cannot depend on any client's data.
      no_clients = client_slices.cut(arg, arg_type, slice(0, 0))
      return await self._finisher.invoke(
        form.after_merge, part_sums.pair(no_clients, merged)
      )
    results = await _all(
      worker.invoke_each(
        form.after_merge,
        [
          part_sums.pair(client_slices.cut(arg, arg_type, part), merged)
          for part in mine
        ],
      )
      for worker, mine in zip(self._workers, by_worker, strict=True)
    )
    return type_conversions.type_to_py_container(
      client_slices.join(
        [part for of_worker in results for part in of_worker], result_type
      ),
      result_type,
    )


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
  bytes_per_client = _MODELS_PER_CLIENT * type_bytes(_model_type(parameter))
  return max(1, _BYTES_OF_CLIENTS // max(1, bytes_per_client))


def _model_type(parameter: tff.Type | None) -> tff.Type | None:
  """Returns the type of the model in a learning process's state, or all there is.

  Clients have a model each. What else the server keeps, moments or noise, is not theirs.
  """
  pending = [] if parameter is None else [parameter]
  while pending:
    current = pending.pop()
    if isinstance(current, tff.StructType) and _MODEL in dir(current):
      return current[_MODEL]
    pending += current.children()
  return parameter


async def _all(runs: Iterable[Awaitable[Any]]) -> list[Any]:
  """Awaits all of `runs`, also when one fails, so that none goes on unseen."""
  results = await asyncio.gather(*runs, return_exceptions=True)
  for result in results:
    if isinstance(result, BaseException):
      raise result
  return results
