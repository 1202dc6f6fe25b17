"""The same round in pfl-research: FedAvg of a PyTorch model, one process.

Runs in the peers' environment, which has neither TensorFlow nor our package.
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


class LanguageModel(torch.nn.Module):
  """The workload's model in PyTorch."""

  def __init__(self, weights: list[np.ndarray]):
    super().__init__()
    embedding, kernel, recurrent, bias, projection, p_bias, output, o_bias = (
      torch.from_numpy(weight) for weight in weights
    )
    width, units = embedding.shape[1], recurrent.shape[0]
    self.embedding = torch.nn.Embedding.from_pretrained(embedding, freeze=False)
    self.lstm = torch.nn.LSTM(width, units, batch_first=True)
    self.projection = torch.nn.Linear(units, width)
    self.output = torch.nn.Linear(width, embedding.shape[0])
    with torch.no_grad():
      self.lstm.weight_ih_l0.copy_(kernel.T)
      self.lstm.weight_hh_l0.copy_(recurrent.T)
      self.lstm.bias_ih_l0.copy_(bias)
      self.projection.weight.copy_(projection.T)
      self.projection.bias.copy_(p_bias)
      self.output.weight.copy_(output.T)
      self.output.bias.copy_(o_bias)
    # PyTorch has a second bias; trained, it would double the steps of the first.
    self.lstm.bias_hh_l0.requires_grad_(False).zero_()

  def loss(self, inputs, targets):
    """Mean negative log-likelihood of the targets that are not padding."""
    hidden, _ = self.lstm(self.embedding(inputs))
    logits = self.output(self.projection(hidden))
    return torch.nn.functional.cross_entropy(
      logits.flatten(0, 1), targets.flatten(), ignore_index=workloads.PAD_ID
    )

  def metrics(self, inputs, targets):
    """What pfl asks for; rounds that are timed do not evaluate."""
    return {}

  def weights(self) -> list[np.ndarray]:
    """Returns the weights in our order."""
    tensors = [
      self.embedding.weight,
      self.lstm.weight_ih_l0.T,
      self.lstm.weight_hh_l0.T,
      self.lstm.bias_ih_l0,
      self.projection.weight.T,
      self.projection.bias,
      self.output.weight.T,
      self.output.bias,
    ]
    return [tensor.detach().numpy().copy() for tensor in tensors]


class _Batches(Dataset):
  """A user whose batches are padded to their own longest row when they are read."""

  def __len__(self) -> int:
    return sum(map(len, self.raw_data))

  def iter(self, batch_size):
    """Yields the batches of the workload."""
    for rows in self.raw_data:
      yield [torch.from_numpy(tokens).long() for tokens in workloads.pad(rows)]


class PflResearch:
  """Federated averaging by pfl-research."""

  def prepare(self, workload: workloads.Workload) -> None:
    """Makes model, data and algorithm; see `server.Contender`."""
    self._network = LanguageModel(workload.weights)
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
