"""Clients that have trained together for rounds, each on its own texts, before an attack.

What devices keep is theirs from round to round, as in training. The server takes its own
step on the plain mean of what it sees, whatever weights an algorithm would give to clients.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tff_textpriv.attacks import observations, rounds
from tff_textpriv.iterative_processes import optimizers


class Federation:
  """Clients of one algorithm and their server.

  Attributes:
    weights: The model as the server hands it out; what devices keep of it, as it started.
    devices: What each client's device keeps.
  """

  def __init__(
    self,
    client: observations.Client,
    weights: Sequence[np.ndarray],
    num_clients: int,
  ):
    """Begins before the first round.

    Args:
      client: How clients answer.
      weights: The model that training starts from.
      num_clients: How many there are.
    """
    self.weights = list(weights)
    self.devices: list[observations.Device | None] = [None] * num_clients
    self._client = client
    self._optimizer = optimizers.server_optimizer(client.settings)
    specs = [tf.TensorSpec(one.shape, tf.float32) for one in client.shared(weights)]
    self._state = self._optimizer.initialize(specs)

  def train(
    self, data: Sequence[rounds.RoundData], seeds: Sequence[np.ndarray]
  ) -> None:
    """Trains for a round.

    Args:
      data: What each client trains on.
      seeds: Decide each client's randomness, int64 [2].
    """
    total = [np.zeros_like(one) for one in self._client.shared(self.weights)]
    for number, (own, seed) in enumerate(zip(data, seeds, strict=True)):
      message = self._client.message(self.weights, own, seed, self.devices[number])
      self.devices[number] = message.device
      total = [before + sent for before, sent in zip(total, message.sent, strict=True)]
    if not total:
      return  # Nobody sends anything.
    shared = [tf.constant(one) for one in self._client.shared(self.weights)]
    mean = [tf.constant(one / len(data)) for one in total]
    self._state, shared = self._optimizer.next(self._state, shared, mean)
    self.weights = self._client.served(self.weights, [one.numpy() for one in shared])
