"""What a run makes of labelled texts that are read word by word, users' own words too."""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tff_textpriv import files, randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import labelled, labelled_batching, partition
from tff_textpriv.iterative_processes import (
  algorithm,
  classification_model,
  clients,
  local_training,
  own_models,
)
from tff_textpriv.models import classifiers, encoders, sequence_classifiers
from tff_textpriv.models import usage as usage_lib
from tff_textpriv.text import tokens
from tff_textpriv.training import (
  experiment,
  reading,
  token_settings,
  user_evaluation,
  user_reading,
  user_training,
  vocabularies,
  workbench,
)

# Users on whom a run is watched while it trains, where each has a model of its own.
_VALIDATION_USERS = 10
# What model.json says of the embedding that the server does not have.
_STAYS_LOCAL = {
  algorithm.Keeps.NOTHING: '',
  algorithm.Keeps.STATE: '',
  algorithm.Keeps.MODEL_PART: 'table',
  algorithm.Keeps.PRIVATE_ROWS: 'tokens',
}


class TokenWorkbench(user_reading.UserReading):
  """The clients, the model and the evaluation of a run.

  Where users have tables of their own, `model` has a table of one row.
  """

  def __init__(
    self,
    chosen: experiment.Experiment,
    data: labelled.LabelledData,
    dealt: partition.Partition,
    folder: pathlib.Path,
  ):
    """Encodes all texts and makes vocabularies; see the base class."""
    super().__init__(chosen, data, dealt)
    task: token_settings.TokenSettings = chosen.task_settings
    seed, train = chosen.run.seed, data.train
    self._index = tokens.TokenIndex(vocabularies.splitter(task))
    groups = {'train': train, 'validation': data.validation, 'test': data.test}
    encoded = {name: self._index.encode(group.texts) for name, group in groups.items()}
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
    self._whole: Any
    if self._has_own:
      self.model = self._whole = make_model(1)
      weights = self._whole.initial_weights(seed)
    else:
      vocabulary = self._vocabulary = vocabularies.common_vocabulary(
        task, self._start.public, train.text_of, encoded['train'], self._index
      )
      self._common_reading = self._start.reader(vocabulary, task.max_words)
      if chosen.own.model is None:
        self.model = self._whole = make_model(vocabulary.num_rows)
        weights = [
          self._start.table(self._whole, vocabulary),
          *self._whole.initial_shared_weights(seed),
        ]
      else:
        _check_own_model(task)
        self.model = self._whole = own_models.classifier(
          chosen.own.model, vocabulary.num_rows, 0, len(data.classes)
        )
        weights = self.model.initial_weights(seed)
    if chosen.algorithm.keeps is algorithm.Keeps.PRIVATE_ROWS:
      num_private = sum(map(tokens.has_digit, vocabulary.tokens))
      self.model = sequence_classifiers.SplitTableClassifier.of(
        self._whole, num_private
      )
      weights = self.model.split(weights)
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
    self._prepare_clients(classification_model.from_classifier(self.model, weights))
    self.devices = workbench.open_devices(chosen, folder, self._set_up)
    self._evaluator = user_evaluation.UserEvaluator(self.model, self._client)

  def examples(self, group: str, client: str) -> tuple[Any, np.ndarray]:
    """Returns a client's features and labels, in rows of the common table."""
    rows = self._partitions[group][client]
    features, labels = labelled_batching.whole(self._examples, group, rows)
    features['ids'] = self._common_reading.lookup[features['ids']]
    return features, labels

  def evaluate(self, weights: Sequence[np.ndarray], group: str) -> dict[str, float]:
    """Evaluates the received models on the `validation` or the `test` examples.

    Where users have models of their own, those of a few users are evaluated, each on
    as many examples as a user's test has, and the figures are means.
    """
    examples = self._examples[group]
    if self._chosen.algorithm.has_whole_model:
      everything = self._common_reading.examples(examples, np.arange(len(examples)))
      parts = local_training.Parts((), tuple(map(tf.constant, weights)))
      return self._evaluator.evaluate(parts, everything)
    rng = randomness.generator(self._chosen.run.seed, 'validation rows')
    number = min(len(examples), self._chosen.task_settings.max_eval_examples)
    rows = np.sort(rng.choice(len(examples), number, replace=False))
    figures = []
    for user in self._some_users(_VALIDATION_USERS):
      parts = self._receive(user, weights)
      own = self._reading(user).examples(examples, rows)
      figures.append(self._evaluator.evaluate(parts, own))
    return {name: float(np.mean([f[name] for f in figures])) for name in figures[0]}

  def test(self, weights: Sequence[np.ndarray], rounds_done: int) -> dict[str, float]:
    """Returns the figures of the test.

    Args:
      weights: The weights that the server has.
      rounds_done: The number of rounds behind them, for the step size that users
        train with.

    Returns:
      `global_accuracy` and `local_accuracy` of users' models, after a round's training
      of each; the same with `received_` before, without that training; and, where the
      server has a whole model, that model's figures on all test examples. `oov_share` is
      the share of the words of a test that are not in a vocabulary, `unknown_row_share`
      of those that are read as the unknown word; of users, the mean.
    """
    figures = {}
    if self._chosen.algorithm.has_whole_model:
      figures = self.evaluate(weights, 'test')
    if self._chosen.algorithm.gathers_data:
      every = np.arange(len(self._examples['test']))
      return figures | self._unknown_words([(self._common_reading, [every])])
    users, tests = self._tests
    scale = self._chosen.algorithm_settings.step_scale(rounds_done - 1)
    received, trained = [], []
    for user in users:
      encode = functools.partial(self._test_examples, user)
      parts = self._receive(user, weights)
      received.append(self._evaluator.accuracies(parts, encode, tests[user]))
      if self._client.trains:
        parts = self._train(user, weights, scale)
        trained.append(self._evaluator.accuracies(parts, encode, tests[user]))
    before = user_evaluation.summary(received)
    figures |= {f'received_{name}': value for name, value in before.items()}
    if trained:
      figures |= user_evaluation.summary(trained)
    return figures | {
      **self._unknown_words([(self._reading(user), tests[user]) for user in users]),
      'num_users': len(users),
    }

  @functools.cached_property
  def _tests(self) -> tuple[list[str], dict[str, user_evaluation.UserTest]]:
    """The users whose models are tested, and the examples of each one's test."""
    users = self._some_users(self._chosen.task_settings.max_eval_users)
    tests = user_evaluation.make_tests(
      {user: self._labels_of(user) for user in users},
      self._examples['test'].labels,
      self._chosen.task_settings.max_eval_examples,
      self._chosen.run.seed,
    )
    return users, tests

  def _labels_of(self, user: str) -> np.ndarray:
    """Returns the classes of a user's training examples."""
    return self._examples['train'].labels[self._partitions['train'][user]]

  def guesses(self) -> dict[str, float]:
    """Returns the accuracies of the most frequent class, and of each user's own."""
    labels, most = self._examples['test'].labels, self._most_frequent_class
    figures = {}
    if self._chosen.algorithm.has_whole_model:
      figures['majority_accuracy'] = float(np.mean(labels == most))
    if self._chosen.algorithm.gathers_data:
      return figures
    users, tests = self._tests
    accuracies = []
    for user in users:
      own, test = np.bincount(self._labels_of(user)).argmax(), tests[user]
      on_own = np.mean(labels[test.own] == own) if len(test.own) else np.nan
      accuracies.append((float(np.mean(labels[test.common] == most)), float(on_own)))
    summary = user_evaluation.summary(accuracies)
    return figures | {
      name.replace('accuracy', 'majority_accuracy'): value
      for name, value in summary.items()
    }

  def _receive(self, user: str, weights: Sequence[np.ndarray]) -> local_training.Parts:
    """Makes a user's model of what the server has, its own part reconstructed if need be."""
    parts, optimizer = self._user_trainer.assemble(user, weights)
    if not self._client.reconstructs:
      return parts
    own_data, _ = self._client.dealt([], self.batches(user, 0))
    return self._user_trainer.train(parts, optimizer, own_data, [], 1.0)

  def _train(
    self, user: str, weights: Sequence[np.ndarray], scale: float
  ) -> local_training.Parts:
    """Trains a user's model, or its output layer only, before it is tested."""
    adaptation, batches = self._client.dealt(
      self.adaptation(user, 0), self.batches(user, 0)
    )
    if self._chosen.task_settings.last_training == token_settings.OUTPUT_LAYER:
      parts = self._receive(user, weights)
      parts, optimizer = self._output_trainer.split([*parts.local, *parts.shared])
      return self._output_trainer.train(parts, optimizer, [], batches, scale)
    parts, optimizer = self._user_trainer.assemble(user, weights)
    return self._user_trainer.train(parts, optimizer, adaptation, batches, scale)

  @functools.cached_property
  def _output_trainer(self) -> user_training.UserTrainer:
    """What trains the output layer of users' models."""
    client = clients.output_layer(self.functional, self._chosen.algorithm_settings)
    return user_training.UserTrainer(client, None, ())

  def _unknown_words(
    self, tests: Sequence[tuple[reading.Reading, Sequence[np.ndarray]]]
  ) -> dict[str, float]:
    """Returns how many words of tests are unknown, given who reads which examples."""
    test = self._examples['test']
    shares = []
    for reader, parts in tests:
      texts = test.text_of[np.unique(np.concatenate(parts))]
      shares.append(reader.shares([test.ids.row(text) for text in texts]))
    outside, unknown = np.mean(shares, axis=0)
    return {'oov_share': float(outside), 'unknown_row_share': float(unknown)}

  def to_keras(self, weights: Sequence[np.ndarray]) -> tf.keras.Model | None:
    """Makes the Keras model of the weights that the server has.

    Returns:
      The whole model, with private tokens as they start; or, where users have tables of
      their own, the model above the table; or `None` if the server has no model.
    """
    if self._chosen.algorithm.keeps is algorithm.Keeps.PRIVATE_ROWS:
      return self.model.to_keras([self.functional.initial_weights[0][0], *weights])
    if not self._has_own:
      return self.model.to_keras(weights)
    if self._client.num_local > 1:
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
      self._chosen.model_name,
      self._classes,
      encoding,
      stays_local=_STAYS_LOCAL[self._chosen.algorithm.keeps],
      encoder=whole.size if isinstance(whole, encoders.Encoder) else None,
    )

  def _some_users(self, number: int) -> list[str]:
    """Returns so many users at most, drawn by the seed."""
    users = list(self._partitions['train'])
    rng = randomness.generator(self._chosen.run.seed, 'evaluated users')
    chosen = rng.permutation(len(users))[:number]
    return [users[place] for place in np.sort(chosen)]


def _check_own_model(task: token_settings.TokenSettings) -> None:
  """Refuses what can be asked only of a model of this package."""
  if task.out_of_vocabulary not in (token_settings.RANDOM, token_settings.TRAINED):
    raise settings_lib.SettingsError(
      'out_of_vocabulary',
      task.out_of_vocabulary,
      'does not go with a model of your own; random and trained do',
    )
  if task.last_training == token_settings.OUTPUT_LAYER:
    raise settings_lib.SettingsError(
      'last_training',
      task.last_training,
      'does not go with a model of your own, the layers of which have no names',
    )
