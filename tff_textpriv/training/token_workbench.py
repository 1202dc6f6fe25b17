"""What a run makes of labelled texts that are read word by word, users' own words too."""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv import files, randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import labelled, labelled_batching
from tff_textpriv.iterative_processes import (
  algorithm_settings,
  classification_model,
  device_state,
  fed_prox,
  local_training,
  optimizers,
  partially_local,
)
from tff_textpriv.models import classifiers, encoders, sequence_classifiers
from tff_textpriv.models import usage as usage_lib
from tff_textpriv.runtime import device_store
from tff_textpriv.text import tokens
from tff_textpriv.training import (
  classifier_workbench,
  experiment,
  selection,
  token_settings,
  user_evaluation,
  vocabularies,
)

_VOCABULARY = 'vocabulary.txt'
_MEMORY = pathlib.Path('/dev/shm')
# Users on whom a run is watched while it trains, where each has a model of its own.
_VALIDATION_USERS = 10
_CACHED_LOOKUPS = 256


class TokenWorkbench:
  """The clients, the model and the evaluation of a run.

  Attributes:
    model: The classifier; of users with tables of their own, with a table of one row.
    functional: The same as a TFF model, with initial weights.
    partition: The clients and the numbers of their examples.
    devices: What users keep, where the algorithm has them keep something.
  """

  def __init__(
    self,
    chosen: experiment.Experiment,
    data: labelled.LabelledData,
    folder: pathlib.Path,
  ):
    """Deals the examples to clients, encodes all texts and makes vocabularies.

    Args:
      chosen: The experiment.
      data: Its data.
      folder: The run's folder.
    """
    self._chosen = chosen
    self._classes = data.classes
    task: token_settings.TokenSettings = chosen.task_settings
    seed = chosen.run.seed
    train = classifier_workbench.kept_examples(
      data.train, task.max_train_examples, seed
    )
    self.partition = classifier_workbench.deal(chosen, train)
    self._index = tokens.TokenIndex(vocabularies.splitter(task))
    groups = {'train': train, 'validation': data.validation, 'test': data.test}
    encoded = {name: self._index.encode(group.texts) for name, group in groups.items()}
    self._has_own = chosen.algorithm.local_part == 'table'
    settings = chosen.algorithm_settings
    self._start = vocabularies.StartVectors(
      task,
      self._index,
      settings.public_words if self._has_own else task.vocab_size or 0,
      seed,
    )
    self._index.number(tokens.UNKNOWN)
    make_model = functools.partial(
      vocabularies.make_model,
      task,
      num_classes=len(data.classes),
      width=self._start.width,
    )
    self.model: classifiers.Classifier
    if self._has_own:
      self.model = self._whole = make_model(1)
      weights = self._whole.initial_weights(seed)
    else:
      vocabulary = self._vocabulary = vocabularies.common_vocabulary(
        task, self._start.public, train.text_of, encoded['train'], self._index
      )
      self.model = self._whole = make_model(vocabulary.num_rows)
      self._common_lookup = vocabulary.lookup(self._index)
      weights = [
        self._start.table(self._whole, vocabulary),
        *self._whole.initial_shared_weights(seed),
      ]
    if chosen.algorithm.local_part == 'tokens':
      num_private = sum(map(tokens.has_digit, vocabulary.tokens))
      self.model = sequence_classifiers.SplitTableClassifier.of(
        self._whole, num_private
      )
      weights = self.model.split(weights)
    self.functional = classification_model.from_classifier(self.model, weights)
    self._examples = {
      name: labelled_batching.EncodedExamples(
        encoded[name],
        len(self._index),
        group.text_of,
        np.zeros((len(group.texts), 0), np.float32),
        group.dense,
        group.labels,
      )
      for name, group in groups.items()
    }
    self._device = _make_device(chosen, self.functional)
    self._trains_users = isinstance(settings, algorithm_settings.LocalTrainingSettings)
    self._evaluator = user_evaluation.UserEvaluator(self.model, self._device)
    self._lookup = functools.lru_cache(_CACHED_LOOKUPS)(self._make_lookup)
    self.devices = self._open_store(folder) if self._has_own else None

  def client_batches(self, client_ids: Sequence[str], round_number: int) -> list[Any]:
    """Makes the data of a round's clients, as the algorithm wants them."""
    if self.devices is None:
      return [self._batches(client, round_number) for client in client_ids]
    files = self.devices.begin(client_ids, round_number)
    return [
      (
        self._adaptation(client, round_number),
        self._batches(client, round_number),
        [np.array(pair)],
      )
      for client, pair in zip(client_ids, files, strict=True)
    ]

  def evaluate(self, weights: Sequence[np.ndarray], group: str) -> dict[str, float]:
    """Evaluates the received models on the `validation` or the `test` examples.

    Where users have models of their own, those of a few users are evaluated, each on
    as many examples as a user's test has, and the figures are means.
    """
    examples = self._examples[group]
    if not self._chosen.algorithm.local_part:
      everything = user_evaluation.subset(
        examples, np.arange(len(examples)), self._common_lookup
      )
      parts, _ = self._assemble('', weights)
      return self._evaluator.evaluate(parts, everything)
    rng = randomness.generator(self._chosen.run.seed, 'validation rows')
    number = min(len(examples), self._chosen.task_settings.max_eval_examples)
    rows = np.sort(rng.choice(len(examples), number, replace=False))
    figures = []
    for user in self._some_users(_VALIDATION_USERS):
      parts, _ = self._assemble(user, weights)
      own = user_evaluation.subset(examples, rows, self._lookup(user))
      figures.append(self._evaluator.evaluate(parts, own))
    return {name: float(np.mean([f[name] for f in figures])) for name in figures[0]}

  def test(self, weights: Sequence[np.ndarray], total_rounds: int) -> dict[str, float]:
    """Returns the figures of the test.

    Args:
      weights: The weights that the server has.
      total_rounds: The number of rounds behind them, for the step size that users
        train with.

    Returns:
      `global_accuracy` and `local_accuracy` of users' models, after a round's training
      of each; the same with `received_` before, without that training; and, where the
      server has a whole model, that model's figures on all test examples.
    """
    figures = {}
    if not self._chosen.algorithm.local_part:
      figures = self.evaluate(weights, 'test')
    if self._chosen.algorithm.pooled:
      return figures
    users = self._some_users(self._chosen.task_settings.max_eval_users)
    train_labels = self._examples['train'].labels
    tests = user_evaluation.make_tests(
      {user: train_labels[self.partition[user]] for user in users},
      self._examples['test'].labels,
      self._chosen.task_settings.max_eval_examples,
      self._chosen.run.seed,
    )
    received, trained = [], []
    for user in users:
      encode = functools.partial(self._test_examples, user)
      parts, optimizer = self._assemble(user, weights)
      received.append(self._evaluator.accuracies(parts, encode, tests[user]))
      if self._trains_users:
        parts = self._evaluator.train(
          parts,
          optimizer,
          self._adaptation(user, 0),
          self._batches(user, 0),
          self._last_scale(total_rounds),
        )
        trained.append(self._evaluator.accuracies(parts, encode, tests[user]))
    before = user_evaluation.summary(received)
    figures |= {f'received_{name}': value for name, value in before.items()}
    if trained:
      figures |= user_evaluation.summary(trained)
    return {**figures, 'num_users': len(users)}

  def to_keras(self, weights: Sequence[np.ndarray]) -> tf.keras.Model | None:
    """Makes the Keras model of the weights that the server has.

    Returns:
      The whole model, with private tokens as they start; or, where users have tables of
      their own, the model above the table; or `None` if the server has no model.
    """
    if self._chosen.algorithm.local_part == 'tokens':
      return self.model.to_keras([self.functional.initial_weights[0][0], *weights])
    if not self._has_own:
      return self.model.to_keras(weights)
    if len(self._device.trainer.local_specs) > 1:
      return None
    return self._whole.shared_to_keras(weights)

  def usage(self, folder: pathlib.Path) -> usage_lib.ClassifierUsage:
    """Describes what the model reads; keeps the common vocabulary in a folder."""
    encoding = vocabularies.encoding(self._chosen.task_settings)
    if not self._has_own:
      name = usage_lib.VOCABULARY_FILE
      files.write_atomically(folder / name, self._vocabulary.to_bytes())
      encoding = dataclasses.replace(encoding, vocabulary=name)
    whole = self._whole
    return usage_lib.ClassifierUsage(
      self._chosen.task_settings.model,
      self._classes,
      encoding,
      stays_local=self._chosen.algorithm.local_part,
      encoder=whole.size if isinstance(whole, encoders.Encoder) else None,
    )

  def _batches(self, user: str, round_number: int) -> user_evaluation.Batches:
    settings = self._chosen.algorithm_settings
    return self._epochs(
      'batches', user, round_number, getattr(settings, 'client_epochs_per_round', 1)
    )

  def _adaptation(self, user: str, round_number: int) -> user_evaluation.Batches:
    if not self._device.adapts:
      return []
    return self._epochs('adaptation', user, round_number, 1)

  def _epochs(
    self, purpose: str, user: str, round_number: int, number: int
  ) -> user_evaluation.Batches:
    """Makes batches of a user's examples, in the rows of its table."""
    rows = self.partition[user]
    batches = labelled_batching.training_batches(
      self._examples['train'],
      rows,
      batch_size=classifier_workbench.batch_size(self._chosen, len(rows)),
      num_epochs=number,
      rng=randomness.generator(self._chosen.run.seed, purpose, round_number, user),
    )
    return user_evaluation.with_vocabulary(batches, self._lookup(user))

  def _test_examples(
    self, user: str, rows: np.ndarray
  ) -> labelled_batching.EncodedExamples:
    return user_evaluation.subset(self._examples['test'], rows, self._lookup(user))

  def _assemble(
    self, user: str, weights: Sequence[np.ndarray]
  ) -> tuple[local_training.Parts, Any]:
    """Makes a user's model of its own part and the server's."""
    shared = tuple(map(tf.constant, weights))
    if self.devices is not None:
      state = tf.constant(self.devices.state(user))
      return self._device.assemble(
        device_state.unpack(state, self._device.specs), shared
      )
    num_local = len(self._device.trainer.local_specs)
    local = tuple(map(tf.constant, self.functional.initial_weights[0][:num_local]))
    return (
      local_training.Parts(local, shared),
      self._device.trainer.initial_optimizer(local),
    )

  def _make_lookup(self, user: str) -> np.ndarray:
    """Returns the rows of a user's table by the numbers of tokens."""
    if self.devices is None:
      return self._common_lookup
    content = self.devices.kept(user, _VOCABULARY)
    return tokens.Vocabulary.from_bytes(content).lookup(self._index)

  def _set_up(self, user: str) -> dict[str, bytes]:
    """Makes what a user's device keeps from the start."""
    settings: algorithm_settings.PersonalSettings = self._chosen.algorithm_settings
    train = self._examples['train']
    vocabulary = tokens.most_frequent(
      train.ids,
      train.text_of[self.partition[user]],
      self._index,
      settings.user_words,
      self._start.public[: settings.public_words],
    )
    table = self._start.table(
      self._whole, vocabulary, user if settings.different_init else None
    )
    num_local = len(self._device.trainer.local_specs)
    others = self.functional.initial_weights[0][1:num_local]
    return {
      _VOCABULARY: vocabulary.to_bytes(),
      device_store.STATE: self._device.first_state([table, *others]),
    }

  def _open_store(self, folder: pathlib.Path) -> device_store.DeviceStore:
    if self._chosen.task_settings.model_selection != selection.LAST:
      raise settings_lib.IncompatibleSettingsError(
        f'--algo={self._chosen.algorithm.name} goes with --model_selection=last only: '
        'devices keep their parts as they are after the last round'
      )
    place = folder / 'devices'
    if self._chosen.algorithm_settings.device_store == 'disk':
      return device_store.DeviceStore(place, self._set_up)
    if not _MEMORY.is_dir():
      raise settings_lib.SettingsError(
        'device_store', 'memory', f'needs {_MEMORY}, which this machine does not have'
      )
    name = '_'.join(place.absolute().parts[1:])
    return device_store.MemoryDeviceStore(
      place, self._set_up, _MEMORY / f'tff_textpriv_{name}'
    )

  def _some_users(self, number: int) -> list[str]:
    """Returns so many users at most, drawn by the seed."""
    users = list(self.partition)
    rng = randomness.generator(self._chosen.run.seed, 'evaluated users')
    chosen = rng.permutation(len(users))[:number]
    return [users[place] for place in np.sort(chosen)]

  def _last_scale(self, total_rounds: int) -> float:
    """Returns what the step size was multiplied by in the last round."""
    decay = getattr(self._chosen.algorithm_settings, 'client_decay_rounds', None)
    if decay is None:
      return 1.0
    return float(optimizers.linear_decay(total_rounds - 1, decay))


def _make_device(chosen: experiment.Experiment, functional: Any) -> Any:
  """Describes what a user does in a round."""
  settings = chosen.algorithm_settings
  if chosen.algorithm.local_part:
    return chosen.algorithm.make_device(functional, settings)
  if isinstance(settings, algorithm_settings.FedProxSettings):
    optimizer = fed_prox.client_optimizer(settings)
  elif isinstance(settings, algorithm_settings.LocalTrainingSettings):
    optimizer = optimizers.client_optimizer(settings)
  else:  # Users have one gradient to give, or nothing, and are not trained.
    optimizer = tff.learning.optimizers.build_sgdm(1.0)
  return partially_local.Device(
    local_training.LocalTrainer(functional, optimizer, num_local=0)
  )
