"""The same round in Flower: its simulation on Ray, `FedAvg`, and clients in PyTorch.

A simulation lasts from one workload to the next; its server waits for rounds to be asked
for. Ray has an actor of one thread for each core.
"""

import pathlib
import queue
import tempfile
import threading

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import (
  DifferentialPrivacyServerSideFixedClipping,
  FedAvg,
  Strategy,
)
from flwr.simulation import run_simulation

from benchmarks import workloads
from benchmarks.contenders import server
from benchmarks.contenders.peers import flower_client


class Flower:
  """A simulation in a thread of its own."""

  def __init__(self):
    """Starts with no simulation."""
    self._simulation: threading.Thread | None = None

  def prepare(self, workload: workloads.Workload) -> None:
    """Starts a simulation of the workload's clients; see `server.Contender`."""
    self.close()
    self._requests: queue.Queue[bool] = queue.Queue()
    self._replies: queue.Queue[list[Message]] = queue.Queue()
    self._folder = tempfile.TemporaryDirectory()
    workload.save(pathlib.Path(self._folder.name))
    self._arrays = ArrayRecord(list(workload.weights))
    self._strategy = _strategy(workload)
    server_app = ServerApp()
    server_app.main()(self._serve)
    self._simulation = threading.Thread(
      target=run_simulation,
      args=(server_app, flower_client.app, len(workload.batches)),
      kwargs={'backend_config': {'client_resources': {'num_cpus': 1, 'num_gpus': 0.0}}},
      daemon=True,
    )
    self._simulation.start()

  def run_round(self) -> None:
    """Has the server make one round."""
    self._requests.put(True)
    for reply in self._replies.get():
      if reply.has_error():
        raise RuntimeError(f'a client failed: {reply.error}')

  def weights(self) -> list[np.ndarray]:
    """Returns the weights; see `server.Contender`."""
    return self._arrays.to_numpy_ndarrays()

  def close(self) -> None:
    """Ends the simulation, if there is one."""
    if self._simulation is not None:
      self._requests.put(False)
      self._simulation.join()

  def _serve(self, grid: Grid, context: Context) -> None:
    """Makes rounds as `Strategy.start` does, when they are asked for."""
    config = ConfigRecord({'folder': self._folder.name})
    number = 0
    while self._requests.get():
      number += 1
      messages = self._strategy.configure_train(number, self._arrays, config, grid)
      replies = list(grid.send_and_receive(messages))
      self._arrays, _ = self._strategy.aggregate_train(number, replies)
      self._replies.put(replies)


def _strategy(workload: workloads.Workload) -> Strategy:
  """Makes federated averaging over all clients, private or not."""
  num_clients = len(workload.batches)
  averaging = FedAvg(min_train_nodes=num_clients, min_available_nodes=num_clients)
  if not workload.private:
    return averaging
  return DifferentialPrivacyServerSideFixedClipping(
    averaging, workloads.NOISE_MULTIPLIER, workloads.CLIP, num_clients
  )


if __name__ == '__main__':
  flower = Flower()
  try:
    server.serve(flower)
  finally:
    flower.close()
