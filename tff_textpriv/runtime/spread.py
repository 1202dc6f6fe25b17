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
import time
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff
from tensorflow_federated.python.common_libs import async_utils
from tensorflow_federated.python.core.backends.native import compiler
from tensorflow_federated.python.core.impl.execution_contexts import compiler_pipeline
from tensorflow_federated.python.core.impl.executors import cardinalities_utils
from tensorflow_federated.python.core.impl.types import type_analysis, type_conversions

from tff_textpriv.runtime import client_slices, connection, part_sums, speeds

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
    *,
    balance: bool = False,
  ):
    """Makes the context of some workers; uses all of them.

    Args:
      connections: One for each worker, in the order in which they share a cohort.
      home: That of a worker which is nearer than these and trains nobody: what several
        of them have summed up is merged there, and the round finished. By default the
        first of those in use.
      balance: Whether faster workers get more clients. Then results differ, in their
        last digits, from run to run.
    """
    self._speeds = speeds.Speeds() if balance else None
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
    if not num_clients:
      run = self._finisher.invoke(comp, arg)
    elif num_clients == 1 or num_clients <= most and len(self._workers) == 1:
      run = self._workers[0].invoke(comp, arg)
    else:
      run = self._spread(self._compile(comp), arg, self._shares(num_clients, most))
    return self._runner.run_coro_and_return_result(run)

  def _shares(self, num_clients: int, most: int) -> list[list[slice]]:
    """Returns the parts of a cohort for each worker, of at most so many clients each."""
    if self._speeds is not None and num_clients >= len(self._workers):
      weights = self._speeds.weights(self._workers)
      return [
        client_slices.cut_up(share, most)
        for share in client_slices.by_weight(num_clients, weights)
      ]
    parts = client_slices.slices(
      num_clients, max(len(self._workers), math.ceil(num_clients / most))
    )
    return client_slices.in_runs(parts, len(self._workers))

  def _compile(self, comp: tff.Computation) -> part_sums.InParts:
    try:
      return self._in_parts.compile(comp)
    except (TypeError, ValueError) as error:
      raise UnsplittableError(
        'This computation cannot be done in parts, because it does not come down to one'
        ' aggregation over the clients; use --num_workers=1 or fewer clients a round.'
      ) from error

  async def _spread(
    self, comp: part_sums.InParts, arg: Any, by_worker: Sequence[Sequence[slice]]
  ) -> Any:
    form = comp.form
    arg_type = form.up_to_merge.type_signature.parameter
    result_type = form.after_merge.type_signature.result
    sums = await _all(
      self._timed(worker, comp, arg, mine)
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

  async def _timed(
    self,
    worker: part_sums.Worker,
    comp: part_sums.InParts,
    arg: Any,
    parts: Sequence[slice],
  ) -> list[Any]:
    """Aggregates a worker's parts, and takes note of its speed."""
    started = time.monotonic()
    sums = await worker.partial_sums(comp, arg, parts)
    if self._speeds is not None:
      clients = sum(part.stop - part.start for part in parts)
      self._speeds.note(worker, clients, time.monotonic() - started)
    return sums


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
