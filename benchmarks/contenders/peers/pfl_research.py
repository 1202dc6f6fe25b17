"""The same round in pfl-research: FedAvg of a PyTorch model.

In one process, or in several, as its guide describes: pfl finds the others by the variables
that it asks for (see `processes.py`), and shares users out among them.
"""

import itertools

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.model.pytorch import PyTorchModel
from pfl.privacy.gaussian_mechanism import GaussianMechanism
from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism

from benchmarks import workloads
from benchmarks.contenders import server
from benchmarks.contenders.peers import torch_model


class _Batches(Dataset):
  """A user whose batches are padded when they are read."""

  def __len__(self) -> int:
    return sum(map(len, self.raw_data))

  def iter(self, batch_size):
    """Yields the batches of the workload."""
    yield from torch_model.batches(self.raw_data)


class PflResearch:
  """Federated averaging by pfl-research."""

  def prepare(self, workload: workloads.Workload) -> None:
    """Makes model, data and algorithm; see `server.Contender`."""
    self._network = torch_model.LanguageModel(workload.weights)
    self._model = PyTorchModel(
      self._network,
      local_optimizer_create=torch.optim.SGD,
      central_optimizer=torch.optim.SGD(self._network.parameters(), lr=1.0),
    )
    num_clients = len(workload.batches)
    users = itertools.cycle(range(num_clients))
    data = FederatedDataset(
      lambda user: _Batches(workload.batches[user], str(user)), lambda: next(users)
    )
    mechanism = CentrallyAppliedPrivacyMechanism(
      GaussianMechanism(workloads.CLIP, workloads.NOISE_MULTIPLIER)
    )
    self._backend = SimulatedBackend(
      data, data, postprocessors=[mechanism] if workload.private else []
    )
    self._cohort_size = num_clients
    self._algorithm = FederatedAveraging()
    # pfl evaluates in round 0, before and after training: not what is compared.
    self._algorithm._current_central_iteration = 1

  def run_round(self) -> None:
    """Runs the algorithm for one iteration more."""
    round_number = self._algorithm._current_central_iteration
    self._algorithm.run(
      NNAlgorithmParams(
        central_num_iterations=round_number + 1,
        evaluation_frequency=10**9,
        train_cohort_size=self._cohort_size,
        val_cohort_size=None,
      ),
      self._backend,
      self._model,
      NNTrainHyperParams(
        local_num_epochs=1,
        local_learning_rate=workloads.CLIENT_LEARNING_RATE,
        local_batch_size=workloads.BATCH_SIZE,
      ),
      send_metrics_to_platform=False,
    )

  def weights(self) -> list[np.ndarray]:
    """Returns the weights; see `server.Contender`."""
    return self._network.weights()


if __name__ == '__main__':
  server.serve(PflResearch())
