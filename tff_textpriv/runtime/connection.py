"""The connection to one TFF worker: its channel, its executors, its errors.

Importing this module imports TFF.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import grpc
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import executor_pb2, executor_pb2_grpc
from tensorflow_federated.python.core.impl.executors import (
  executor_base,
  value_serialization,
)

from tff_textpriv.runtime import worker_process

# Executors kept per worker, each for one size of cohort: as many as Poisson cohorts of a
# few clients have sizes. One that is made anew loads its graphs again.
MAX_EXECUTORS = 16

_CHANNEL_OPTIONS = (
  ('grpc.max_receive_message_length', -1),
  ('grpc.max_send_message_length', -1),
  # Workers are on this machine or a private network; a proxy knows neither.
  ('grpc.enable_http_proxy', 0),
  ('grpc.initial_reconnect_backoff_ms', 50),
  ('grpc.min_reconnect_backoff_ms', 50),
  ('grpc.max_reconnect_backoff_ms', 1000),
)
_DISPOSE_SECONDS = 5.0
# Values that the worker may keep although nobody needs them; some are as large as models.
_DISPOSE_BATCH = 4


class ComputationError(RuntimeError):
  """The worker answered that it could not carry out a computation."""


class Connection(tff.framework.ExecutorFactory):
  """A worker's executors, one for each size of cohort, made when asked for.

  TFF's own factory forgets the executors it has no room for without telling the
  worker, where each keeps its loaded graphs: with cohorts of ever new sizes the
  worker grows without end. This one closes what it lets go.
  """

  def __init__(
    self, address: str, lost_error: Callable[[], worker_process.WorkerDiedError]
  ):
    """Begins to connect; `wait_until_ready` waits for the worker's answer.

    Args:
      address: The worker's host and port.
      lost_error: Makes the error to raise when the worker stops answering.
    """
    self._lost_error = lost_error
    self._channel = grpc.insecure_channel(address, _CHANNEL_OPTIONS)
    self._stub = _Stub(self._channel)
    # One thread: the calls to one worker keep their order, those to several overlap.
    self._thread = concurrent.futures.ThreadPoolExecutor(1, f'tff-{address}')
    self._executors: collections.OrderedDict[int, _ThreadedExecutor] = (
      collections.OrderedDict()
    )

  @property
  def executor_sizes(self) -> tuple[int, ...]:
    """The cohort sizes that have an executor, the least recently used first."""
    return tuple(self._executors)

  def wait_until_ready(self, timeout: float) -> None:
    """Waits for the worker to answer; `ConnectionError` if it does not in time."""
    try:
      self._stub.wait_until_ready(timeout)
    except grpc.RpcError as error:
      raise ConnectionError from error

  def create_executor(self, cardinalities: dict) -> executor_base.Executor:
    """Returns the executor for `cardinalities`; no entry means no clients."""
    num_clients = cardinalities.get(tff.CLIENTS, 0)
    if num_clients not in self._executors:
      while len(self._executors) >= MAX_EXECUTORS:
        _, oldest = self._executors.popitem(last=False)
        oldest.close()
      executor = _ThreadedExecutor(self._stub, self._thread, self._clear_errors)
      with self._clear_errors():
        executor.set_cardinalities({tff.CLIENTS: num_clients})
      self._executors[num_clients] = executor
    self._executors.move_to_end(num_clients)
    return self._executors[num_clients]

  def clean_up_executor(self, cardinalities: dict) -> None:
    """Closes the executor for `cardinalities`, as TFF asks after a failure."""
    executor = self._executors.pop(cardinalities.get(tff.CLIENTS, 0), None)
    if executor is not None:
      executor.close()

  def close_executors(self) -> None:
    """Closes all executors; the connection can still be used."""
    while self._executors:
      _, executor = self._executors.popitem()
      executor.close()

  def close(self) -> None:
    """Closes all executors and the channel, which ends calls under way."""
    self.close_executors()
    self._channel.close()
    self._thread.shutdown()

  @contextlib.contextmanager
  def _clear_errors(self) -> Iterator[None]:
    """Turns gRPC's errors into ours, which say what matters in one sentence.

    The errors of a worker that is gone, or new and does not know its executors,
    must not get out for another reason: TFF would repeat the call for ever.
    """
    try:
      yield
    except tff.framework.RetryableError as error:
      raise self._lost_error() from error
    except grpc.RpcError as error:
      details = error.details() if isinstance(error, grpc.Call) else str(error)
      raise ComputationError(details) from error


class _Stub(tff.framework.RemoteExecutorGrpcStub):
  """TFF's stub, except that no call for set-up or clean-up waits for ever."""

  def __init__(self, channel: grpc.Channel):
    # TFF's own also watches the channel's state, unused here, in a thread that
    # prints a stack trace when the channel is closed.
    self._stub = executor_pb2_grpc.ExecutorGroupStub(channel)

  def wait_until_ready(self, timeout: float) -> None:
    """Makes a worker answer, or an `RpcError`."""
    request = executor_pb2.GetExecutorRequest(
      cardinalities=value_serialization.serialize_cardinalities({tff.CLIENTS: 0})
    )
    answer = self._stub.GetExecutor(request, timeout=timeout, wait_for_ready=True)
    self.dispose_executor(executor_pb2.DisposeExecutorRequest(executor=answer.executor))

  def dispose_executor(
    self, request: executor_pb2.DisposeExecutorRequest
  ) -> executor_pb2.DisposeExecutorResponse:
    """Lets the worker forget an executor."""
    return self._stub.DisposeExecutor(request, timeout=_DISPOSE_SECONDS)


class _ThreadedExecutor(tff.framework.RemoteExecutor):
  """TFF's remote executor with its calls, which block, moved to a thread.

  Otherwise several workers would be waited for one after the other. A computation, whose
  graphs are long, is sent once.
  """

  def __init__(
    self,
    stub: tff.framework.RemoteExecutorGrpcStub,
    thread: concurrent.futures.Executor,
    clear_errors: Callable[[], contextlib.AbstractContextManager[None]],
  ):
    super().__init__(stub, dispose_batch_size=_DISPOSE_BATCH)
    self._thread = thread
    self._clear_errors = clear_errors
    # By identity, since comparing computations takes longer than sending them.
    self._sent: dict[int, tuple[tff.Computation, Any]] = {}

  async def create_value(self, value, type_spec=None):
    if not isinstance(value, tff.framework.ConcreteComputation):
      return await self._in_thread(super().create_value(value, type_spec))
    if id(value) not in self._sent:
      sent = await self._in_thread(super().create_value(value, type_spec))
      self._sent[id(value)] = value, sent
    return self._sent[id(value)][1]

  async def create_call(self, comp, arg=None):
    return await self._in_thread(super().create_call(comp, arg))

  async def create_struct(self, elements):
    return await self._in_thread(super().create_struct(elements))

  async def create_selection(self, source, index):
    return await self._in_thread(super().create_selection(source, index))

  async def _compute(self, value_ref, type_spec):
    return await self._in_thread(super()._compute(value_ref, type_spec))

  async def _in_thread(self, call: Coroutine[Any, Any, Any]) -> Any:
    loop = asyncio.get_running_loop()
    with self._clear_errors():
      return await loop.run_in_executor(self._thread, asyncio.run, call)
