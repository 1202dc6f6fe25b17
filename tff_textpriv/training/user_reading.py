"""What users read of their texts, each with its own vocabulary or with that of all."""

import functools
from typing import Any

import numpy as np

from tff_textpriv import randomness
from tff_textpriv.datasets import labelled, labelled_batching, partition
from tff_textpriv.iterative_processes import common_settings
from tff_textpriv.runtime import device_store
from tff_textpriv.text import tokens
from tff_textpriv.training import (
  classifier_workbench,
  experiment,
  reading,
  vocabularies,
)

_VOCABULARY = 'vocabulary.txt'
_CACHED = 256


class UserReading(classifier_workbench.LabelledWorkbench):
  """The batches of users, and what their devices start with.

  A class that derives from it makes the attributes that are declared here.
  """

  _index: tokens.TokenIndex
  _start: vocabularies.StartVectors
  _common_reading: reading.Reading
  _whole: Any  # A sequence classifier, or the caller's own.

  def __init__(
    self,
    chosen: experiment.Experiment,
    data: labelled.LabelledData,
    dealt: partition.Partition,
  ):
    """Takes the data; see the base class."""
    super().__init__(chosen, data, dealt)
    self._reading = functools.lru_cache(_CACHED)(self._make_reading)
    self._own_examples = functools.lru_cache(_CACHED)(self._make_own_examples)

  def _epochs(
    self, purpose: str, user: str, round_number: int, number: int
  ) -> list[labelled_batching.Batch]:
    """Makes batches of a user's examples, some of their words dropped."""
    batches = super()._epochs(purpose, user, round_number, number)
    share = self._chosen.task_settings.share_of_dropped_words
    if not share:
      return batches
    return reading.with_dropped_words(
      batches,
      share,
      self._reading(user),
      self._own_examples(user).pad_id,
      # Batches are the same as without.
      randomness.generator(
        self._chosen.run.seed, 'word dropout', purpose, round_number, user
      ),
    )

  def _training(
    self, user: str
  ) -> tuple[labelled_batching.EncodedExamples, np.ndarray]:
    """Returns a user's examples as its model reads them; see the base class."""
    own = self._own_examples(user)
    return own, np.arange(len(own))

  def _make_own_examples(self, user: str) -> labelled_batching.EncodedExamples:
    rows = self._partitions['train'][user]
    return self._reading(user).examples(self._examples['train'], rows)

  def _test_examples(
    self, user: str, rows: np.ndarray
  ) -> labelled_batching.EncodedExamples:
    return self._reading(user).examples(self._examples['test'], rows)

  def _make_reading(self, user: str) -> reading.Reading:
    """Returns what reads texts with a user's vocabulary."""
    if not self._has_own:
      return self._common_reading
    assert self.devices is not None  # Since users have tables of their own.
    content = self.devices.kept(user, _VOCABULARY)
    return self._start.reader(
      tokens.Vocabulary.from_bytes(content),
      self._chosen.task_settings.max_words,
      self._different_for(user),
    )

  def _different_for(self, user: str) -> str | None:
    """Names a user whose start vectors are to be different."""
    return user if self._chosen.algorithm_settings.different_init else None

  def _set_up(self, user: str) -> dict[str, bytes]:
    """Makes what a user's device keeps from the start."""
    if not self._has_own:
      return super()._set_up(user)
    settings: common_settings.PersonalSettings = self._chosen.algorithm_settings
    train = self._examples['train']
    vocabulary = tokens.most_frequent(
      train.ids,
      train.text_of[self._partitions['train'][user]],
      self._index,
      settings.user_words,
      self._start.public[: settings.public_words],
    )
    table = self._start.table(self._whole, vocabulary, self._different_for(user))
    first = [table, *self._first_local[1:]]
    return {
      _VOCABULARY: vocabulary.to_bytes(),
      device_store.STATE: self._client.first_state(first),
    }
