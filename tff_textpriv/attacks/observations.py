"""What of a client's batch an attacker gets to see, under an algorithm.

Clients run the code that they run in training: the algorithm's own client, and the
functions by which its mechanism clips, noises and randomizes. What leaves the device is
turned into an estimate of the gradient, weight by weight, which is what all attacks start
from. A mechanism that does not say what is seen of it is not attacked.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tff_textpriv.aggregators import of_mechanism
from tff_textpriv.attacks import rounds, targets
from tff_textpriv.datasets import labelled_batching
from tff_textpriv.iterative_processes import (
  algorithm,
  classification_model,
  clients,
)
from tff_textpriv.models import classifiers, sequence_classifiers
from tff_textpriv.privacy.mechanism import Mechanism

# What Adam adds to a gradient's size in its first step: 1e-7 over the root of 1 - 0.999.
_ADAM_OFFSET = 1e-7 / math.sqrt(1 - 0.999)
# The least distance of such a step from 1 that is more than a rounding error.
_LEAST_REST = 1e-6

# The tensors that a device keeps from round to round.
Device = Sequence[tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Message:
  """What a client has made of its data in a round.

  Attributes:
    sent: What an observer reads of the update, or of the gradient, of each shared weight.
    trained: All weights after training.
    device: What the device keeps for the next round.
    num_steps: The steps behind it.
  """

  sent: list[np.ndarray]
  trained: list[np.ndarray]
  device: Device
  num_steps: int


@dataclasses.dataclass(frozen=True)
class Observation:
  """What is seen of one client in one round.

  Attributes:
    gradients: For each weight of the model, in order, what is known of its gradient;
      `None` if it stayed on the device.
    table: The client's embedding table after training. Not seen, unless it is shared.
  """

  gradients: tuple[np.ndarray | None, ...]
  table: np.ndarray

  @property
  def table_gradient(self) -> np.ndarray | None:
    """That of the embedding, if it is shared."""
    return self.gradients[0]

  @property
  def shared_gradients(self) -> tuple[np.ndarray | None, ...]:
    """Those of all weights above the embedding."""
    return self.gradients[1:]

  @property
  def num_bytes(self) -> int:
    """What the gradients take, as 32-bit floats."""
    return sum(4 * one.size for one in self.gradients if one is not None)


@dataclasses.dataclass(frozen=True)
class Client:
  """How a client answers under one algorithm.

  Attributes:
    algorithm: The algorithm, one that trains classifiers and has clients.
    settings: Its settings.
    mechanism: What stands between the client and who looks.
    model: The classifier.
    view: Who looks, one of `of_mechanism.VIEWS`. They differ only where the server adds
      the noise.
    num_private: How many of the table's first rows are those of private tokens.
  """

  algorithm: algorithm.Algorithm
  settings: Any
  mechanism: Mechanism
  model: targets.Target
  view: str = 'server'
  num_private: int = 0

  def observe(
    self,
    weights: Sequence[np.ndarray],
    data: rounds.RoundData,
    seed: np.ndarray,
    device: Device | None = None,
  ) -> Observation:
    """Trains a client on its data and looks at its message.

    Args:
      weights: The model as the server hands it out; where the device keeps a part of
        it, as that part started.
      data: The client's data in this round.
      seed: Decides the client's randomness, int64 [2].
      device: What the device has kept from rounds before; by default it is new.
    """
    message = self.message(weights, data, seed, device)
    num_local = self._client.num_local
    sent: list[np.ndarray | None] = list(message.sent)
    if self._client.trains:
      before = self._trained_weights(weights)[num_local:]
      sent = list(self._gradients(message.sent, before, message.num_steps))
    split = self._trained
    if not isinstance(split, sequence_classifiers.SplitTableClassifier):
      return Observation((*[None] * num_local, *sent), message.trained[0])
    # Of rows that are never sent it is seen that they do not move.
    kept = np.zeros((self.num_private, self.model.embedding_size), np.float32)
    joined = split.join([kept, *sent])
    return Observation(
      tuple(map(np.asarray, joined)), np.concatenate(message.trained[:2])
    )

  def message(
    self,
    weights: Sequence[np.ndarray],
    data: rounds.RoundData,
    seed: np.ndarray,
    device: Device | None = None,
  ) -> Message:
    """Trains a client on its data; see `observe`."""
    whole = self._trained_weights(weights)
    adaptation, batches = map(_tensors, data)
    client, number = self._client, self._client.num_local
    kept = client.first_leaves(whole[:number]) if device is None else device
    if client.trains:
      update, trained = client.train_round(
        kept, tuple(map(tf.constant, whole[number:])), adaptation, batches
      )
      after = [*trained.parts.local, *trained.parts.shared]
      kept = client.new_state(trained)
    else:
      update, after = client.answer(whole, batches)
    seen = of_mechanism.seen(self.mechanism, update, tf.constant(seed), self.view)
    return Message(
      [one.numpy() for one in seen],
      [weight.numpy() for weight in after],
      kept,
      max(1, len(client.dealt(adaptation, batches)[1])),
    )

  def served(
    self, weights: Sequence[np.ndarray], shared: Sequence[np.ndarray]
  ) -> list[np.ndarray]:
    """Returns the model as handed out, with other weights in place of the shared ones."""
    whole = [*self._trained_weights(weights)[: self._client.num_local], *shared]
    if isinstance(self._trained, sequence_classifiers.SplitTableClassifier):
      return [np.asarray(weight) for weight in self._trained.join(whole)]
    return whole

  def shared(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns those weights of the model that the server has."""
    return self._trained_weights(weights)[self._client.num_local :]

  @functools.cached_property
  def _trained(self) -> classifiers.Classifier:
    """What clients train: the model, its private rows apart where these are local."""
    if self.algorithm.keeps is not algorithm.Keeps.PRIVATE_ROWS:
      return self.model
    assert isinstance(self.model, sequence_classifiers.SequenceClassifier)
    return sequence_classifiers.SplitTableClassifier.of(self.model, self.num_private)

  def _trained_weights(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns the model's weights in the order in which clients train them."""
    if isinstance(self._trained, sequence_classifiers.SplitTableClassifier):
      return self._trained.split(weights)
    return list(weights)

  @functools.cached_property
  def _client(self) -> clients.Client:
    functional = classification_model.from_classifier(
      self._trained, self._trained.initial_weights(0)
    )
    return self.algorithm.client(functional, self.settings)

  def _gradients(
    self, sent: list[np.ndarray], weights: Sequence[np.ndarray], num_steps: int
  ) -> list[np.ndarray]:
    """Estimates gradients from updates, as someone would who knows the optimizer."""
    steps = [one / (self.settings.client_learning_rate * num_steps) for one in sent]
    kind = self.settings.local_optimizer
    is_clear = not self.mechanism.covered
    if num_steps > 1 or kind == 'sgd' or not is_clear:
      return steps
    if kind == 'adamw':
      decay = self.settings.client_weight_decay
      steps = [one - decay * weight for one, weight in zip(steps, weights, strict=True)]
    return [undo_adam(one) for one in steps]


def undo_adam(step: np.ndarray) -> np.ndarray:
  """Finds the gradient behind Adam's first step.

  That step is g / (|g| + e), e about 3e-6. It looks like the sign of g, but how far it
  is from 1 tells the size of g, as far as 32-bit floats can tell it.

  Args:
    step: The update over the step size.
  """
  exact = np.asarray(step, np.float64)
  rest = np.maximum(1 - np.abs(exact), _LEAST_REST)
  return (_ADAM_OFFSET * exact / rest).astype(np.float32)


def _tensors(batches: Sequence[labelled_batching.Batch]) -> list[Any]:
  return [tf.nest.map_structure(tf.constant, batch) for batch in batches]
