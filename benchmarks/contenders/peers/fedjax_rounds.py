"""The same round in FedJAX: federated averaging by its `for_each_client`.

With its back end `pmap` and one host device for each core (`XLA_FLAGS`, see
`processes.py`); the other one, `jit`, was slower. The step is that of plain JAX.
"""

import fedjax
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import workloads
from benchmarks.contenders import server
from benchmarks.contenders.peers import jax_model


class FedJax:
  """A loop of FedJAX over clients; batches have one shape, as it wants them."""

  def prepare(self, workload: workloads.Workload) -> None:
    """Makes the functions of clients and server; see `server.Contender`."""
    self._workload = workload
    self._weights = [jnp.asarray(weight) for weight in workload.weights]
    self._key = jax.random.PRNGKey(workloads.SEED)
    num_clients = len(workload.batches)

    def start(weights, client_input):
      return weights

    def step(weights, batch):
      ids = batch['inputs'].T
      positions = jnp.arange(ids.size)
      return jax_model.sgd_step(weights, ids, positions, batch['targets'].T.ravel())

    def finish(weights, trained):
      update = fedjax.tree_util.tree_add(
        trained, fedjax.tree_util.tree_weight(weights, -1)
      )
      if workload.private:
        return fedjax.tree_util.tree_clip_by_global_norm(update, workloads.CLIP)
      return update

    @jax.jit
    def apply(weights, total, key):
      if workload.private:
        stddev = workloads.CLIP * workloads.NOISE_MULTIPLIER
        keys = jax.random.split(key, len(total))
        total = [
          t + stddev * jax.random.normal(k, t.shape)
          for t, k in zip(total, keys, strict=True)
        ]
      return [w + t / num_clients for w, t in zip(weights, total, strict=True)]

    self._train = fedjax.for_each_client(start, step, finish)
    self._apply = apply

  def run_round(self) -> None:
    """Pads the batches, trains on them and adds the updates up."""
    clients = [
      (number, [self._padded(rows) for rows in batches], ())
      for number, batches in enumerate(self._workload.batches)
    ]
    updates = (update for _, update in self._train(self._weights, clients))
    self._key, key = jax.random.split(self._key)
    self._weights = self._apply(self._weights, fedjax.tree_util.tree_sum(updates), key)
    jax.block_until_ready(self._weights)

  def weights(self) -> list[np.ndarray]:
    """Returns the weights; see `server.Contender`."""
    return [np.asarray(weight) for weight in self._weights]

  def _padded(self, rows: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Pads a batch to the largest shape, with rows that have nothing to predict."""
    missing = workloads.BATCH_SIZE - len(rows)
    inputs, targets = (
      np.pad(tokens, [(0, missing), (0, 0)], constant_values=workloads.PAD_ID)
      for tokens in workloads.pad(rows, self._workload.max_length)
    )
    return {'inputs': inputs, 'targets': targets}


if __name__ == '__main__':
  fedjax.set_for_each_client_backend('pmap')
  server.serve(FedJax())
