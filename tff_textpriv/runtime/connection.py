"""The connection to one TFF worker: its channel, its executors, its errors.

Importing this module imports TFF.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import grpc
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import executor_pb2, executor_pb2_grpc
from tensorflow_federated.python.core.impl.executors import (
  executor_base,
  value_serialization,
)

from tff_textpriv.runtime import certificates, worker_process

# Executors kept per worker, each for one size of cohort: as many as Poisson cohorts of a
# few clients have sizes. One that is made anew loads its graphs again.
MAX_EXECUTORS = 16

_CHANNEL_OPTIONS = (
  ('grpc.max_receive_message_length', -1),
  ('grpc.max_send_message_length', -1),
  # Workers are on this machine or a private network; a proxy knows neither.
  ('grpc.enable_http_proxy', 0),
  # A connection of one's own for each channel, or a heartbeat would share the one of
  # those calls that it watches over.
  ('grpc.use_local_subchannel_pool', 1),
)
# A worker that takes another one's place on this machine is there at once. These are
# also the times within which somebody must have answered.
_HERE = (
  ('grpc.initial_reconnect_backoff_ms', 50),
  ('grpc.min_reconnect_backoff_ms', 50),
  ('grpc.max_reconnect_backoff_ms', 1000),
)
_DISPOSE_SECONDS = 5.0
# Values that the worker may keep although nobody needs them; some are as large as models.
_DISPOSE_BATCH = 4


def channel_here(address: str) -> grpc.Channel:
  """Returns a channel to a worker of this machine."""
  return grpc.insecure_channel(address, (*_CHANNEL_OPTIONS, *_HERE))


def channel_elsewhere(
  address: str, keys: certificates.Keys | None, name: str
) -> grpc.Channel:
  """Returns a channel to a worker of another machine.

  Args:
    address: Its host and port.
    keys: By which both sides know each other; `None`: neither asks.
    name: By which it is called, with keys.
  """
  if keys is None:
    return grpc.insecure_channel(address, _CHANNEL_OPTIONS)
  return grpc.secure_channel(
    address,
    grpc.ssl_channel_credentials(keys.authority, keys.key, keys.certificate),
    (*_CHANNEL_OPTIONS, ('grpc.ssl_target_name_override', name)),
  )


class ComputationError(RuntimeError):
  """The worker answered that it could not carry out a computation."""


class Connection(tff.framework.ExecutorFactory):
  """A worker's executors, one for each size of cohort, made when asked for.

  TFF's own factory forgets the executors it has no room for without telling the
  worker, where each keeps its loaded graphs: with cohorts of ever new sizes the
  worker grows without end. This one closes what it lets go.
  """

  def __init__(
    self,
    name: str,
    lost_error: Callable[[], worker_process.WorkerDiedError],
  ):
    """Connects to nobody; `open` does.

    Args:
      name: The worker's name, for those who look at threads.
      lost_error: Makes the error to raise when the worker stops answering.
    """
    self._lost_error = lost_error
    self._channel: grpc.Channel | None = None
    # The channel may be cut by a thread that watches over the worker.
    self._lock = threading.Lock()
    # One thread: the calls to one worker keep their order, those to several overlap.
    self._thread = concurrent.futures.ThreadPoolExecutor(1, f'tff-{name}')
    self._executors: collections.OrderedDict[int, _ThreadedExecutor] = (
      collections.OrderedDict()
    )

  def open(self, channel: grpc.Channel) -> None:
    """Goes on through a channel; nothing is left of what was before it."""
    self.cut()
    with self._lock:
      self._stub = Stub(channel)
      self._channel = channel

  def cut(self) -> None:
    """Closes the channel: calls under way, and those to come, find the worker lost."""
    channel, self._channel = self._channel, None
    if channel is not None:
      channel.close()  # Whoever holds the lock may wait for an answer.
    with self._lock:
      while self._executors:
        _, executor = self._executors.popitem()
        executor.forget()

  @property
  def executor_sizes(self) -> tuple[int, ...]:
    """The cohort sizes that have an executor, the least recently used first."""
    return tuple(self._executors)

  def wait_until_ready(self, timeout: float) -> None:
    """Waits for the worker to answer; `ConnectionError` if it does not in time."""
    try:
      self._stub.give_back(self._stub.reserve(timeout, wait_for_ready=True))
    except grpc.RpcError as error:
      raise ConnectionError from error

  def create_executor(self, cardinalities: dict) -> executor_base.Executor:
    """Returns the executor for `cardinalities`; no entry means no clients."""
    num_clients = cardinalities.get(tff.CLIENTS, 0)
    with self._lock:
      if num_clients not in self._executors:
        while len(self._executors) >= MAX_EXECUTORS:
          _, oldest = self._executors.popitem(last=False)
          oldest.close()
        clear_errors = functools.partial(self._clear_errors, self._channel)
        with clear_errors():
          executor = _ThreadedExecutor(self._stub, self._thread, clear_errors)
          executor.set_cardinalities({tff.CLIENTS: num_clients})
        self._executors[num_clients] = executor
      self._executors.move_to_end(num_clients)
      return self._executors[num_clients]

  def clean_up_executor(self, cardinalities: dict) -> None:
    """Closes the executor for `cardinalities`, as TFF asks after a failure."""
    with self._lock:
      executor = self._executors.pop(cardinalities.get(tff.CLIENTS, 0), None)
    if executor is not None:
      executor.close()

  def close_executors(self) -> None:
    """Closes all executors; the connection can still be used."""
    with self._lock:
      while self._executors:
        _, executor = self._executors.popitem()
        executor.close()

  def close(self) -> None:
    """Closes all executors and the channel, which ends calls under way."""
    self.close_executors()
    self.cut()
    self._thread.shutdown()

  @contextlib.contextmanager
  def _clear_errors(self, channel: grpc.Channel | None) -> Iterator[None]:
    """Turns gRPC's errors into ours, which say what matters in one sentence.

    The errors of a worker that is gone, or new and does not know its executors,
    must not get out for another reason: TFF would repeat the call for ever. After a cut
    calls are cancelled or refused, in ways of gRPC's and of TFF's.

    Args:
      channel: That of the call.
    """
    if channel is None or channel is not self._channel:
      raise self._lost_error()
    try:
      yield
    except tff.framework.RetryableError as error:
      raise self._lost_error() from error
    except (grpc.RpcError, ValueError) as error:
      if channel is not self._channel:
        raise self._lost_error() from error
      if isinstance(error, ValueError):
        raise
      details = error.details() if isinstance(error, grpc.Call) else str(error)
      raise ComputationError(details) from error


class Stub(tff.framework.RemoteExecutorGrpcStub):
  """TFF's stub, except that no call for set-up or clean-up waits for ever."""

  def __init__(self, channel: grpc.Channel):
    # TFF's own also watches the channel's state, unused here, in a thread that
    # prints a stack trace when the channel is closed.
    self._stub = executor_pb2_grpc.ExecutorGroupStub(channel)
    self._is_silent = False

  def reserve(self, timeout: float, *, wait_for_ready: bool = False) -> Any:
    """Makes a worker answer, or an `RpcError`: it reserves an executor for no clients.

    Args:
      timeout: How long it may take.
      wait_for_ready: Whether to wait for a worker where nobody listens yet.

    Returns:
      The executor's id, the same as long as nobody disposes of all that were reserved,
      and another one in another process.
    """
    request = executor_pb2.GetExecutorRequest(
      cardinalities=value_serialization.serialize_cardinalities({tff.CLIENTS: 0})
    )
    return self._stub.GetExecutor(
      request, timeout=timeout, wait_for_ready=wait_for_ready
    ).executor

  def give_back(self, executor: Any) -> None:
    """Gives back what was reserved."""
    self.dispose_executor(executor_pb2.DisposeExecutorRequest(executor=executor))

  def dispose_executor(
    self, request: executor_pb2.DisposeExecutorRequest
  ) -> executor_pb2.DisposeExecutorResponse:
    """Lets the worker forget an executor; one that was silent once is not asked again."""
    if self._is_silent:
      return executor_pb2.DisposeExecutorResponse()
    try:
      return self._stub.DisposeExecutor(request, timeout=_DISPOSE_SECONDS)
    except grpc.RpcError:
      self._is_silent = True
      raise


class _ThreadedExecutor(tff.framework.RemoteExecutor):
  """TFF's remote executor with its calls, which block, moved to a thread.

  Otherwise several workers would be waited for one after the other. A computation, whose
  graphs are long, is sent once.
  """

  def __init__(
    self,
    stub: Stub,
    thread: concurrent.futures.Executor,
    clear_errors: Callable[[], contextlib.AbstractContextManager[None]],
  ):
    super().__init__(stub, dispose_batch_size=_DISPOSE_BATCH)
    self._thread = thread
    self._clear_errors = clear_errors
    # By identity, since comparing computations takes longer than sending them.
    self._sent: dict[int, tuple[tff.Computation, Any]] = {}

  def forget(self) -> None:
    """Counts as closed; the worker, which cannot be reached, is not told."""
    self._executor_id = None
    self._dispose_request = None

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
