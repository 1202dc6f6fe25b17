"""The workload's model in PyTorch, for all contenders that train with it."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from benchmarks import workloads


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


def batches(client: Sequence[Sequence[np.ndarray]]) -> Iterator[list[torch.Tensor]]:
  """Yields a client's inputs and targets, each batch padded to its longest row."""
  for rows in client:
    yield [torch.from_numpy(tokens).long() for tokens in workloads.pad(rows)]
