"""Rounds of any algorithm of the registry, without a run around them."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv import randomness
from tff_textpriv.iterative_processes import device_state, stacked_batches
from tff_textpriv.privacy.central_settings import (
  CentralPrivacySettings,
  NoisySumSettings,
)
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.runtime import device_store
from tff_textpriv.training import cohort_data

# Other algorithms but for a few lines of theirs, which have tests of their own.
_VARIANTS = ('fed_prox', 'fed_nova', 'fed_sgd', 'lg_fedavg', 'local_only', 'scaffold')


def with_variants_on_request(names):
  """Marks the names of variants as slow, where every algorithm is tested alike."""
  return [
    pytest.param(name, marks=pytest.mark.slow) if name in _VARIANTS else name
    for name in names
  ]


def mechanism(algorithm, model, cohort=5, **flags):
  """Makes the mechanism of an algorithm, which can be run with any clients."""
  privacy = algorithm.privacy
  if issubclass(privacy, CentralPrivacySettings):
    # Those derived from it only start from other numbers.
    privacy = CentralPrivacySettings
  if issubclass(privacy, NoisySumSettings):
    flags = {'noise_multiplier': 1.0} | flags
  sizes = [np.size(weight) for weight in model.initial_weights[0]]
  settings = privacy(**flags)
  sampling = settings.cohort_sampling or 'fixed'
  return settings.mechanism(
    Deployment(sampling, cohort, cohort, rounds=3, num_coordinates=sum(sizes))
  )


@functools.cache
def built(build, model, settings, its_mechanism):
  """Builds a process and what runs its rounds; the same ones only once."""
  process = build(model, settings, its_mechanism)
  if isinstance(process, tff.learning.templates.LearningProcess):
    return process, stacked_batches.NextRound(process)
  return process, process.next


class Rounds:
  """An algorithm's process and, where its clients keep something, their devices."""

  def __init__(
    self, algorithm, model, settings, its_mechanism, folder, local_weights=None
  ):
    """Builds the process; `local_weights` gives those that a user starts with."""
    self.process, self._next = built(algorithm.build, model, settings, its_mechanism)
    self.client = algorithm.client(model, settings)
    self.store = None
    if algorithm.keeps_state:
      start = model.initial_weights[0][: self.client.num_local]
      local_weights = local_weights or (lambda _: start)
      self.store = device_store.DeviceStore(
        folder, lambda user: {'state': self.client.first_state(local_weights(user))}
      )
    self._data = cohort_data.CohortData(
      self.process, self, randomness.Stream.of_seed(0), self.store
    )
    self._batches_of = {}
    self._number = 0

  def round(self, state, batches_of):
    """Runs the next round, of users by name with their batches, from a state."""
    self._batches_of = batches_of
    self._number += 1
    output = self._next(state, self._data(list(batches_of), self._number))
    if self.store is not None:
      self.store.commit(self._number)
    return output

  def batches(self, user, round_number):
    del round_number
    return self._batches_of[user]

  def adaptation(self, user, round_number):
    return self.batches(user, round_number) if self.client.adapts else []

  def weights(self, state):
    """The server's weights."""
    weights = self.process.get_model_weights(state).trainable
    return [np.asarray(weight) for weight in weights]

  def kept(self, user):
    """The tensors that a device keeps."""
    content = tf.constant(self.store.state(user))
    return [leaf.numpy() for leaf in device_state.unpack(content, self.client.specs)]
