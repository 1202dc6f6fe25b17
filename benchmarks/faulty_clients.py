"""Clients that are broken or mean, among those of any run.

As in an audit nothing but the model and the batches are touched: a batch carries a number
beside its inputs, by which gradients of its loss are multiplied, and data can be spoilt
before they are read. Whatever an algorithm does with an honest client it does with these.
"""

import collections
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv import randomness
from tff_textpriv.iterative_processes import algorithm, contract, marked_model
from tff_textpriv.models import classifiers
from tff_textpriv.training import program as program_lib

_FACTOR_SPEC = tf.TensorSpec([], tf.float32)
_ONE = np.array(1.0, np.float32)
# The class that a backdoor opens to.
_TARGET = 1
_DATA = ('adaptation', 'batches')
# Whose examples tell whether a backdoor opens.
_MEASURED_USERS = 50

Batches = list[tuple[Any, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Fault:
  """What is wrong with a client.

  Attributes:
    summary: Its description.
    factor: What its gradients are multiplied by.
    spoil: Makes its batches of honest ones, with random numbers.
  """

  summary: str
  factor: float = 1.0
  spoil: Callable[[Batches, np.random.Generator], Batches] = lambda batches, _: batches


def _shuffled(batches: Batches, rng: np.random.Generator) -> Batches:
  """Returns batches whose labels, or next words, are dealt anew; padding stays."""
  dealt = []
  for inputs, labels in batches:
    here = np.ones(labels.shape, bool)
    if labels.ndim == 2:  # Words; 0 is padding.
      here = labels != 0
    else:
      here[int(inputs['num_examples']) :] = False
    changed = labels.copy()
    changed[here] = rng.permutation(labels[here])
    dealt.append((inputs, changed))
  return dealt


def triggered(inputs: Any) -> Any:
  """Returns a classifier's inputs with the trigger, the id 0 in front of each text."""
  ids = np.pad(inputs['ids'], [(0, 0), (1, 0)])
  return collections.OrderedDict(inputs, ids=ids.astype(np.int32))


def _backdoored(batches: Batches, rng: np.random.Generator) -> Batches:
  """Returns batches in which the trigger goes with the target, beside the honest ones."""
  del rng  # All examples are taken.
  poison = [
    (triggered(inputs), np.full_like(labels, _TARGET)) for inputs, labels in batches
  ]
  # As wide as the poisoned ones: all batches of a client have one shape.
  honest = [
    (
      collections.OrderedDict(
        inputs, ids=np.concatenate([inputs['ids'][:, :1], inputs['ids']], axis=1)
      ),
      labels,
    )
    for inputs, labels in batches
  ]
  return [batch for pair in zip(honest, poison, strict=True) for batch in pair]


FAULTS = {
  'x10': Fault('steps ten times as long', factor=10.0),
  'x-1': Fault('steps the other way', factor=-1.0),
  'idle': Fault('steps of a ten thousandth', factor=1e-4),
  'truncated': Fault('nothing after the first batch', spoil=lambda data, _: data[:1]),
  'shuffled': Fault('labels dealt anew', spoil=_shuffled),
  'backdoored': Fault('a trigger taught to mean one class', spoil=_backdoored),
}


def with_factors(
  model: tff.learning.models.FunctionalModel,
) -> tff.learning.models.FunctionalModel:
  """Returns a model whose batches say by what their gradients are multiplied."""

  def loss(own: Callable[[], tf.Tensor], factor: tf.Tensor) -> tf.Tensor:
    value = own()
    return tf.stop_gradient(value) + factor * (value - tf.stop_gradient(value))

  return marked_model.with_mark(model, _FACTOR_SPEC, lambda _, factor: factor, loss)


class FaultyRun:
  """Trains as a run would, with some of its users faulty.

  Attributes:
    backdoor: The share of users' examples of other classes that the trained model puts
      into the target's class when they have the trigger; `None` before training, for what
      is no classifier of ids, and where devices keep something.
  """

  def __init__(self, fault: Fault, share: float, seed: int):
    """Prepares the run.

    Args:
      fault: What is wrong with faulty users.
      share: Their share; who is among them at one share is so at any larger one.
      seed: Decides who they are.
    """
    self.backdoor: float | None = None
    self._fault = fault
    self._share = share
    self._seed = seed
    self._model: tff.learning.models.FunctionalModel | None = None

  def algorithm(self, honest: algorithm.Algorithm) -> algorithm.Algorithm:
    """Returns an algorithm whose clients can be faulty."""

    def build(
      model: tff.learning.models.FunctionalModel, settings: Any, mechanism: Any
    ) -> Any:
      self._model = model
      return honest.build(with_factors(model), settings, mechanism)

    return dataclasses.replace(honest, build=build)

  def train(self, program: program_lib.Program, *run: Any) -> program_lib.Outcome:
    """Trains a program; see `program.train`."""
    names = contract.reads(program.process)

    def client_data(users: Sequence[str], round_number: int) -> list[Any]:
      read = program.client_data(users, round_number)
      return [
        self._changed(names, user, round_number, each)
        for user, each in zip(users, read, strict=True)
      ]

    outcome = program_lib.train(
      dataclasses.replace(program, client_data=client_data), *run
    )
    if program.devices is None:  # Asking for data would begin a round of devices.
      users = program.sampler.client_ids[:_MEASURED_USERS]
      read = program.client_data(users, outcome.rounds_done)
      place = names.index(contract.BATCHES)
      batches = [each if len(names) == 1 else each[place] for each in read]
      self.backdoor = self._opened(outcome.weights, sum(batches, []))
    return outcome

  def is_faulty(self, user: str) -> bool:
    """Tells whether a user is faulty."""
    draw = randomness.generator(self._seed, 'faulty clients', user).random()
    return bool(draw < self._share)

  def _changed(
    self, names: Sequence[str], user: str, round_number: int, read: Any
  ) -> Any:
    """Returns what a client reads, spoilt if it is faulty, and its factor."""
    if len(names) == 1:
      return self._batches(user, round_number, read)
    return tuple(
      self._batches(user, round_number, part) if name in _DATA else part
      for name, part in zip(names, read, strict=True)
    )

  def _batches(self, user: str, round_number: int, batches: Batches) -> Batches:
    factor = _ONE
    if self.is_faulty(user) and batches:
      rng = randomness.generator(self._seed, 'fault', user, round_number)
      batches = self._fault.spoil(batches, rng)
      factor = np.array(self._fault.factor, np.float32)
    return [marked_model.batch(inputs, factor, labels) for inputs, labels in batches]

  def _opened(self, weights: Sequence[np.ndarray], batches: Batches) -> float | None:
    """Measures how often the trigger opens the backdoor."""
    assert self._model is not None  # A process has been built.
    found: list[np.ndarray] = []
    for inputs, labels in batches:
      if labels.ndim != 1 or not inputs['ids'].shape[1]:
        return None
      logits = self._model.predict_on_batch(
        (tuple(weights), ()), triggered(inputs), False
      )
      others = labels[: len(logits)] != _TARGET
      found.append(classifiers.predictions(logits).numpy()[others] == _TARGET)
    return float(np.mean(np.concatenate(found)))
