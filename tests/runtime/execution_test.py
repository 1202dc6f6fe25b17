"""Tests of executing TFF computations on one, several and other machines' workers."""

import asyncio
import os
import signal
import threading
import time

import numpy as np
import psutil
import pytest
import small_models
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.runtime import client_slices, connection, part_sums, spread
from tff_textpriv.runtime.execution import execution
from tff_textpriv.runtime.worker_process import WorkerDiedError
from tff_textpriv.settings import IncompatibleSettingsError, SettingsError

_AT_CLIENTS = tff.FederatedType(np.int32, tff.CLIENTS)
_AT_SERVER = tff.FederatedType(np.int32, tff.SERVER)


@tff.federated_computation(_AT_CLIENTS)
def _total(values):
  return tff.federated_sum(values)


@tff.tensorflow.computation(np.int32)
def _multiply(steps):
  """Multiplies matrices `steps` times; returns its start, end and `steps`."""
  with tf.control_dependencies([steps]):
    start = tf.timestamp()
  with tf.control_dependencies([start]):
    matrix = tf.eye(200)
  _, matrix = tf.while_loop(
    lambda step, _: step < steps,
    lambda step, matrix: (step + 1, tf.matmul(matrix, matrix)),
    (0, matrix),
  )
  with tf.control_dependencies([matrix]):
    return start, tf.timestamp(), tf.identity(steps)


@tff.federated_computation(_AT_CLIENTS)
def _multiply_at_clients(steps):
  return tff.federated_map(_multiply, steps)


@tff.federated_computation(_AT_CLIENTS, _AT_SERVER)
def _total_and_factor(values, factor):
  return tff.federated_sum(values), factor


@tff.federated_computation(_AT_CLIENTS)
def _total_of_differences_to_the_total(values):
  total = tff.federated_broadcast(tff.federated_sum(values))
  subtract = tff.tensorflow.computation(lambda x, y: x - y, (np.int32, np.int32))
  return tff.federated_sum(tff.federated_map(subtract, (values, total)))


def _linear_regression() -> tff.learning.templates.LearningProcess:
  return tff.learning.algorithms.build_weighted_fed_avg(
    small_models.linear(1),
    client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.1),
    server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0, 0.9),
  )


def _cohort(num_clients: int, seed: int) -> list:
  rng = np.random.default_rng(seed)

  def batch() -> tuple[np.ndarray, np.ndarray]:
    size = rng.integers(1, 6)
    return (
      rng.normal(size=[size, 3]).astype(np.float32),
      rng.normal(size=[size, 1]).astype(np.float32),
    )

  return [[batch(), batch()] for _ in range(num_clients)]


def _train(process) -> np.ndarray:
  """Weights after rounds of sizes that are odd, below two, zero, and even."""
  state = process.initialize()
  for seed, size in enumerate([5, 1, 0, 4, 7]):
    state = process.next(state, _cohort(size, seed)).state
  (weights,) = process.get_model_weights(state).trainable
  return weights


def test_two_workers_train_the_same_model_as_one(tmp_path):
  process = _linear_regression()
  with execution(log_dir=tmp_path):
    expected = _train(process)
  assert np.abs(expected - 1).max() > 0.1
  with execution(num_workers=2, log_dir=tmp_path):
    np.testing.assert_allclose(_train(process), expected, atol=1e-5)


@pytest.mark.parametrize('num_workers', [1, 2])
def test_a_cohort_too_large_for_the_memory_is_trained_part_by_part(
  tmp_path, monkeypatch, num_workers
):
  process = _linear_regression()
  with execution(log_dir=tmp_path):
    expected = _train(process)
  # Room for two clients at a time, so that seven are four parts. What the server keeps
  # besides the model does not count.
  state_type = process.next.type_signature.parameter[0].member
  model_bytes = spread.type_bytes(state_type.global_model_weights)
  assert spread.type_bytes(state_type) > model_bytes
  monkeypatch.setattr(
    spread, '_BYTES_OF_CLIENTS', 2 * spread._MODELS_PER_CLIENT * model_bytes
  )
  sizes = []
  slices = client_slices.slices
  monkeypatch.setattr(
    client_slices,
    'slices',
    lambda *args: (
      sizes.append([s.stop - s.start for s in slices(*args)]) or slices(*args)
    ),
  )
  with execution(num_workers, log_dir=tmp_path):
    np.testing.assert_allclose(_train(process), expected, atol=1e-5)
  assert [each for each in sizes if len(each) > 1] == [[1, 2, 2], [2, 2], [1, 2, 2, 2]]


@pytest.mark.parametrize('num_workers', [1, 2])
def test_the_state_is_sent_once_to_a_worker_however_many_parts_it_gets(
  tmp_path, monkeypatch, num_workers
):
  state_type = tff.FederatedType(tff.TensorType(np.float32, [1000]), tff.SERVER)

  @tff.tensorflow.computation(tff.TensorType(np.float32, [1000]), np.float32)
  def scale(state, value):
    return state * value

  @tff.federated_computation(state_type, tff.FederatedType(np.float32, tff.CLIENTS))
  def scaled_sum(state, values):
    received = tff.federated_broadcast(state)
    return tff.federated_sum(tff.federated_map(scale, (received, values)))

  state_bytes = spread.type_bytes(scaled_sum.type_signature.parameter)
  monkeypatch.setattr(
    spread, '_BYTES_OF_CLIENTS', 2 * spread._MODELS_PER_CLIENT * state_bytes
  )
  sent, returned = [], []
  create_value, compute = connection.Stub.create_value, connection.Stub.compute

  def counting_create_value(self, request):
    sent.append(request.value.ByteSize())
    return create_value(self, request)

  def counting_compute(self, request):
    answer = compute(self, request)
    returned.append(answer.ByteSize())
    return answer

  monkeypatch.setattr(connection.Stub, 'create_value', counting_create_value)
  monkeypatch.setattr(connection.Stub, 'compute', counting_compute)
  state, values = np.ones(1000, np.float32), list(np.arange(16, dtype=np.float32))
  with execution(num_workers, log_dir=tmp_path):
    scaled_sum(state, values)
    sent.clear(), returned.clear()
    # Eight parts; computations have been sent by now.
    np.testing.assert_allclose(scaled_sum(state, values), 120 * state)
  large = [size for size in sent if size >= state_bytes]
  if num_workers == 1:
    # To the worker; then, for what follows the sum, state and sum together.
    assert len(large) == 3 and sum(sent) < 3.2 * state_bytes
    assert sum(returned) < 2.2 * state_bytes
  else:
    # Two sums are added up by the first worker.
    assert len(large) == 6 and sum(sent) < 6.2 * state_bytes
    assert sum(returned) < 4.2 * state_bytes


def test_clients_results_keep_their_order_whoever_finishes_first(tmp_path):
  steps = [3000, 1, 2]
  with execution(num_workers=3, log_dir=tmp_path):
    results = _multiply_at_clients(steps)
  assert [int(each) for _, _, each in results] == steps
  assert results[0][1] > results[1][1]


@pytest.mark.parametrize('num_workers', [2, 3])
def test_every_client_counts_once_wherever_it_stands_in_the_arguments(
  tmp_path, num_workers
):
  with execution(num_workers=num_workers, log_dir=tmp_path):
    for values in ([1, 2, 3, 4, 5], [4, 5], [6], []):
      assert _total(values) == sum(values)
      assert _total_and_factor(values, 7) == (sum(values), 7)


def test_a_worker_that_is_faster_gets_more_clients_and_the_sum_is_of_all(
  tmp_path, monkeypatch
):
  sizes = []
  partial_sums = part_sums.Worker.partial_sums

  async def noted(worker, comp, arg, parts):
    sizes.append(sum(part.stop - part.start for part in parts))
    await asyncio.sleep(0.4 * (len(sizes) % 2))  # The first one takes longer.
    return await partial_sums(worker, comp, arg, parts)

  monkeypatch.setattr(part_sums.Worker, 'partial_sums', noted)
  with execution(2, balance_workers=True, log_dir=tmp_path):
    for _ in range(6):
      assert _total(list(range(20))) == 190
  assert sizes[:2] == [10, 10]
  assert sum(sizes[-2:]) == 20 and min(sizes) >= 1
  assert sizes[-2] < sizes[-1]


def test_workers_work_at_the_same_time(tmp_path):
  with execution(num_workers=2, log_dir=tmp_path):
    _multiply_at_clients([1, 1])
    (start_0, end_0, _), (start_1, end_1, _) = _multiply_at_clients([2000, 2000])
  assert min(end_0, end_1) > max(start_0, start_1)


def test_a_computation_of_dependent_sums_needs_one_worker(tmp_path):
  with execution(log_dir=tmp_path):
    assert _total_of_differences_to_the_total([1, 2]) == -3
  with (
    execution(num_workers=2, log_dir=tmp_path),
    pytest.raises(spread.UnsplittableError, match='--num_workers=1'),
  ):
    _total_of_differences_to_the_total([1, 2])


@pytest.mark.parametrize('num_clients', [1, 2, 3, 7, 12])
@pytest.mark.parametrize('num_workers', [2, 3, 5])
def test_a_cohort_is_cut_into_even_parts_none_of_them_empty(num_clients, num_workers):
  cohort = list(range(num_clients))
  parts = [cohort[part] for part in client_slices.slices(num_clients, num_workers)]
  sizes = [len(part) for part in parts]
  assert [client for part in parts for client in part] == cohort
  assert len(parts) == min(num_clients, num_workers)
  assert max(sizes) - min(sizes) <= 1


def test_executors_of_ever_new_cohort_sizes_do_not_pile_up(tmp_path, monkeypatch):
  held = set()
  stub = connection.Stub

  def get_executor(self, request):
    answer = tff.framework.RemoteExecutorGrpcStub.get_executor(self, request)
    held.add(answer.executor.id)
    return answer

  def dispose_executor(self, request, dispose=stub.dispose_executor):
    answer = dispose(self, request)
    held.discard(request.executor.id)
    return answer

  monkeypatch.setattr(stub, 'get_executor', get_executor)
  monkeypatch.setattr(stub, 'dispose_executor', dispose_executor)
  with execution(log_dir=tmp_path) as runtime:
    for call in range(60):
      size = 1 + call % 20
      assert _total([1] * size) == size
      assert len(held) <= connection.MAX_EXECUTORS
    (worker,) = runtime.workers
    newest = range(21 - connection.MAX_EXECUTORS, 21)
    assert worker.connection.executor_sizes == tuple(newest)
    assert len(held) == connection.MAX_EXECUTORS


@pytest.mark.parametrize('error', [RuntimeError, KeyboardInterrupt, SystemExit])
def test_leaving_by_an_error_stops_workers_and_restores_the_context(tmp_path, error):
  before = tff.framework.get_context_stack().current
  with pytest.raises(error), execution(num_workers=2, log_dir=tmp_path) as runtime:
    pids = [worker.process.pid for worker in runtime.workers]
    assert all(psutil.pid_exists(pid) for pid in pids)
    assert tff.framework.get_context_stack().current is not before
    raise error
  assert not any(psutil.pid_exists(pid) for pid in pids)
  assert tff.framework.get_context_stack().current is before


@pytest.mark.parametrize('num_workers', [1, 2])
def test_ctrl_c_ends_a_long_computation_at_once(tmp_path, num_workers):
  interrupt = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
  start = time.monotonic()
  with (
    pytest.raises(KeyboardInterrupt),
    execution(num_workers=num_workers, log_dir=tmp_path) as runtime,
  ):
    pids = [worker.process.pid for worker in runtime.workers]
    interrupt.start()
    _multiply_at_clients([10**6] * 2)
  assert time.monotonic() - start < 10
  assert not any(psutil.pid_exists(pid) for pid in pids)


def test_after_ctrl_c_a_restart_makes_the_workers_free(tmp_path):
  interrupt = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
  with execution(num_workers=2, log_dir=tmp_path) as runtime:
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
      _multiply_at_clients([10**6] * 2)
    runtime.restart()
    assert _total([1, 2, 3]) == 6


@pytest.mark.parametrize('num_workers', [1, 2])
def test_a_worker_that_dies_at_work_is_reported_and_can_be_replaced(
  tmp_path, num_workers
):
  with execution(num_workers=num_workers, log_dir=tmp_path) as runtime:
    pid = runtime.workers[-1].process.pid
    threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.raises(WorkerDiedError, match=f'{pid}.*SIGKILL(.|\n)*listening on'):
      for _ in range(1000):
        _multiply_at_clients([300] * 2)
    runtime.restart()
    assert runtime.workers[-1].process.pid != pid
    assert _total([1, 2, 3]) == 6


def test_an_error_inside_a_computation_says_what_went_wrong(tmp_path):
  @tff.tensorflow.computation()
  def read_a_folder():
    return tf.io.read_file(str(tmp_path))

  with (
    execution(log_dir=tmp_path),
    pytest.raises(connection.ComputationError, match='Is a directory'),
  ):
    read_a_folder()


@pytest.mark.parametrize('address', ['localhost', ':10000', 'host:', 'host:0', 'a:b'])
def test_an_address_without_host_or_port_is_refused(tmp_path, address):
  with (
    pytest.raises(SettingsError, match='must be host:port'),
    execution(workers=[address], insecure_workers=True, log_dir=tmp_path),
  ):
    pass


def test_local_and_other_workers_are_not_mixed(tmp_path):
  with (
    pytest.raises(IncompatibleSettingsError, match='--num_workers'),
    execution(num_workers=2, workers=['localhost:1'], log_dir=tmp_path),
  ):
    pass
