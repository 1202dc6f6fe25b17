"""The same training in plain JAX, with no federated framework: the bar for all others.

One compiled program is a round. Clients are spread over one host device for each core
(`XLA_FLAGS`, see `processes.py`), and each device trains its clients one after the other.
A step for each call, the other way to write it, asks the system for its
memory anew at every step, which takes the larger model a quarter of the time.

Shapes are fixed: a batch's rows, its length and the number of its predictions are
rounded up to quarters of the largest, and a step chooses among the programs of the
shapes that occur. Nothing is compiled after the first round.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from benchmarks import workloads
from benchmarks.contenders import server
from benchmarks.contenders.peers import jax_model

# The name of the axis of devices.
_DEVICES = 'devices'
_PARTS = 4


class _Shape(NamedTuple):
  """What a batch is padded to."""

  time: int
  rows: int
  predictions: int

  @property
  def cost(self) -> int:
    """What a step is thought to take, in any unit: LSTM and output cost alike."""
    return self.time * self.rows + self.predictions


class _Cohort(NamedTuple):
  """A round's batches, in the order of their devices and clients.

  Attributes:
    ids: What is read, int32 [devices, steps, time * rows].
    positions: Where predictions are made, int32 [devices, steps, predictions].
    targets: What is to be predicted there, likewise.
    shapes: The number of each step's shape, int32 [devices, steps].
    bounds: Where clients begin, and the last one ends, int32 [devices, clients + 1].
    num_clients: Of each device, int32 [devices].
  """

  ids: np.ndarray
  positions: np.ndarray
  targets: np.ndarray
  shapes: np.ndarray
  bounds: np.ndarray
  num_clients: np.ndarray


class PlainJax:
  """A compiled round, spread over devices."""

  def prepare(self, workload: workloads.Workload) -> None:
    """Makes the round's program; see `server.Contender`."""
    self._workload = workload
    mesh = jax.make_mesh((jax.device_count(),), (_DEVICES,))
    everywhere = NamedSharding(mesh, PartitionSpec())
    self._spread = NamedSharding(mesh, PartitionSpec(_DEVICES))
    self._shapes = sorted(
      {_shape(rows, workload) for batches in workload.batches for rows in batches}
    )
    self._weights = jax.device_put(workload.weights, everywhere)
    self._key = jax.device_put(jax.random.key(workloads.SEED), everywhere)
    self._round = jax.jit(
      jax.shard_map(
        functools.partial(_device_round, workload, self._shapes),
        mesh=mesh,
        in_specs=(PartitionSpec(), PartitionSpec(), PartitionSpec(_DEVICES)),
        out_specs=PartitionSpec(),
        # How often a device loops depends on its clients, which the check cannot follow.
        check_vma=False,
      ),
      donate_argnums=0,
    )

  def run_round(self) -> None:
    """Pads the batches and trains on them."""
    cohort = _pack(self._workload, self._shapes, jax.device_count())
    self._key, key = jax.random.split(self._key)
    self._weights = jax.block_until_ready(
      self._round(self._weights, key, jax.device_put(cohort, self._spread))
    )

  def weights(self) -> list[np.ndarray]:
    """Returns the weights; see `server.Contender`."""
    return [np.asarray(weight) for weight in self._weights]


def _shape(rows: Sequence[np.ndarray], workload: workloads.Workload) -> _Shape:
  lengths = [len(row) - 1 for row in rows]
  time = _round_up(max(lengths), workload.max_length)
  num_rows = _round_up(len(rows), workloads.BATCH_SIZE)
  return _Shape(time, num_rows, _round_up(sum(lengths), time * num_rows))


def _round_up(number: int, largest: int) -> int:
  """Rounds up to a multiple of a part of the largest, but not beyond it."""
  part = -(-largest // _PARTS)
  return min(-(-number // part) * part, largest)


def _pack(
  workload: workloads.Workload, shapes: Sequence[_Shape], num_devices: int
) -> _Cohort:
  """Gives each device its clients, about as much work as the others, and pads."""
  clients = [
    [(rows, _shape(rows, workload)) for rows in batches] for batches in workload.batches
  ]
  devices: list[list] = [[] for _ in range(num_devices)]
  loads = [0] * num_devices
  costs = [sum(shape.cost for _, shape in client) for client in clients]
  for number in np.argsort(costs)[::-1]:
    device = int(np.argmin(loads))
    devices[device].append(clients[number])
    loads[device] += costs[number]

  most_steps = max(sum(map(len, device)) for device in devices)
  size = workloads.BATCH_SIZE * workload.max_length
  cohort = _Cohort(
    *np.zeros([3, num_devices, most_steps, size], np.int32),
    np.zeros([num_devices, most_steps], np.int32),
    np.zeros([num_devices, len(clients) + 1], np.int32),
    np.array([len(device) for device in devices], np.int32),
  )
  for device, own in enumerate(devices):
    steps = [step for client in own for step in client]
    cohort.bounds[device, 1 : len(own) + 1] = np.cumsum([len(client) for client in own])
    for step, (rows, shape) in enumerate(steps):
      inputs, targets = workloads.pad(rows, shape.time)
      ids = cohort.ids[device, step, : shape.time * shape.rows]
      ids.reshape(shape.time, shape.rows)[:, : len(rows)] = inputs.T
      times, numbers = np.nonzero(targets.T != workloads.PAD_ID)
      cohort.positions[device, step, : len(times)] = times * shape.rows + numbers
      cohort.targets[device, step, : len(times)] = targets[numbers, times]
      cohort.shapes[device, step] = shapes.index(shape)
  return cohort


def _device_round(
  workload: workloads.Workload,
  shapes: Sequence[_Shape],
  weights: jax_model.Weights,
  key: jax.Array,
  cohort: _Cohort,
) -> jax_model.Weights:
  """Trains a device's clients; returns the new weights, the same on all devices."""
  own = jax.tree.map(lambda array: array[0], cohort)
  steps = [_step_of(shape) for shape in shapes]

  def train_step(step, trained):
    batch = own.ids[step], own.positions[step], own.targets[step]
    return lax.switch(own.shapes[step], steps, trained, *batch)

  def add_client(client, total):
    start, end = own.bounds[client], own.bounds[client + 1]
    trained = lax.fori_loop(start, end, train_step, weights)
    update = [a - b for a, b in zip(trained, weights, strict=True)]
    if workload.private:
      norm = jnp.sqrt(sum(jnp.vdot(u, u) for u in update))
      update = [u * jnp.minimum(1, workloads.CLIP / norm) for u in update]
    return [t + u for t, u in zip(total, update, strict=True)]

  zeros = [jnp.zeros_like(weight) for weight in weights]
  total = lax.psum(lax.fori_loop(0, own.num_clients, add_client, zeros), _DEVICES)
  if workload.private:
    keys = jax.random.split(key, len(total))
    total = [t + _noise(k, t.shape) for t, k in zip(total, keys, strict=True)]
  return [w + t / len(workload.batches) for w, t in zip(weights, total, strict=True)]


def _step_of(shape: _Shape) -> Callable[..., jax_model.Weights]:
  """Makes the step of batches of a shape, which stand at the beginning of the arrays."""

  def step(weights, ids, positions, targets):
    return jax_model.sgd_step(
      weights,
      ids[: shape.time * shape.rows].reshape(shape.time, shape.rows),
      positions[: shape.predictions],
      targets[: shape.predictions],
    )

  return step


def _noise(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
  """Draws the noise of a weight, each device its part."""
  size = int(np.prod(shape))
  num_devices = lax.axis_size(_DEVICES)
  own_key = jax.random.fold_in(key, lax.axis_index(_DEVICES))
  part = jax.random.normal(own_key, [-(-size // num_devices)])
  whole = lax.all_gather(part, _DEVICES, tiled=True)[:size].reshape(shape)
  return workloads.CLIP * workloads.NOISE_MULTIPLIER * whole


if __name__ == '__main__':
  server.serve(PlainJax())
