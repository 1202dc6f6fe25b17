"""The same training in a plain PyTorch loop, with no federated framework.

One of as many processes as there are cores, of one thread each, which share the clients
out and add their updates up (`WORLD_SIZE` and `RANK`, see `processes.py`). One process
with a thread for each core was slower with every workload that was tried.
"""

import os

import numpy as np
import torch
from torch import distributed

from benchmarks import workloads
from benchmarks.contenders import server
from benchmarks.contenders.peers import torch_model


class PlainTorch:
  """A loop over clients."""

  def __init__(self):
    """Finds the other processes, if there are any."""
    self._rank = int(os.environ.get('RANK', 0))
    self._num_processes = int(os.environ.get('WORLD_SIZE', 1))
    if self._num_processes > 1:
      distributed.init_process_group('gloo')

  def prepare(self, workload: workloads.Workload) -> None:
    """Makes the model; see `server.Contender`."""
    self._workload = workload
    self._network = torch_model.LanguageModel(workload.weights)
    self._parameters = [p for p in self._network.parameters() if p.requires_grad]
    self._generator = torch.Generator().manual_seed(workloads.SEED)
    # The weights of the server, in one vector.
    self._global = torch.nn.utils.parameters_to_vector(self._parameters).detach()
    # As many tokens for one process as for another.
    sizes = [sum(len(row) for rows in c for row in rows) for c in workload.batches]
    order = np.argsort(sizes)[::-1]
    self._clients = [
      workload.batches[i] for i in order[self._rank :: self._num_processes]
    ]

  @torch.no_grad()
  def run_round(self) -> None:
    """Trains the clients of this process one after the other."""
    total = torch.zeros_like(self._global)
    for client in self._clients:
      torch.nn.utils.vector_to_parameters(self._global.clone(), self._parameters)
      self._train(client)
      update = torch.nn.utils.parameters_to_vector(self._parameters) - self._global
      if self._workload.private:
        update *= min(1.0, workloads.CLIP / float(update.norm()))
      total += update
    if self._num_processes > 1:
      distributed.all_reduce(total)
    if self._workload.private:
      # All processes draw the same noise, from the same seed.
      stddev = workloads.CLIP * workloads.NOISE_MULTIPLIER
      total += torch.empty_like(total).normal_(0, stddev, generator=self._generator)
    self._global += total / len(self._workload.batches)

  def weights(self) -> list[np.ndarray]:
    """Returns the weights; see `server.Contender`."""
    torch.nn.utils.vector_to_parameters(self._global.clone(), self._parameters)
    return self._network.weights()

  @torch.enable_grad()
  def _train(self, client: list[list[np.ndarray]]) -> None:
    for inputs, targets in torch_model.batches(client):
      loss = self._network.loss(inputs, targets)
      gradients = torch.autograd.grad(loss, self._parameters)
      with torch.no_grad():
        torch._foreach_add_(
          self._parameters, gradients, alpha=-workloads.CLIENT_LEARNING_RATE
        )


if __name__ == '__main__':
  server.serve(PlainTorch())
