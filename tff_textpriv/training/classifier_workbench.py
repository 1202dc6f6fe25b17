"""What a run makes of labelled data: numbers, clients, a model, an evaluator."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv import randomness
from tff_textpriv.datasets import labelled, labelled_batching, partition
from tff_textpriv.iterative_processes import (
  central_training,
  classification_model,
  own_models,
)
from tff_textpriv.models import classifiers
from tff_textpriv.models import usage as usage_lib
from tff_textpriv.text import representations
from tff_textpriv.training import (
  classification_settings,
  classifier_evaluation,
  classifier_texts,
  experiment,
  workbench,
)

_DEFAULT_CLIENTS = 100
# How the model's twin is trained in one place, and up to which size that is a matter of seconds.
_TWIN_STEP, _TWIN_BATCH, _TWIN_EPOCHS = 0.01, 64, 5
_MOST_TWIN_EXAMPLES = 50_000


class LabelledWorkbench(workbench.Workbench):
  """What a run makes of labelled texts, whatever a model reads of them."""

  _examples: dict[str, labelled_batching.EncodedExamples]

  def __init__(
    self,
    chosen: experiment.Experiment,
    data: labelled.LabelledData,
    dealt: partition.Partition,
  ):
    """Takes the data.

    Args:
      chosen: The experiment.
      data: Its data; the training examples are those that were dealt.
      dealt: The clients and the numbers of their examples.
    """
    super().__init__(chosen)
    self._classes = data.classes
    self._partitions = partitions(chosen, data, dealt)

  @property
  def _most_frequent_class(self) -> int:
    """The class of which there are most training examples."""
    return int(np.bincount(self._examples['train'].labels).argmax())

  def clients(self, group: str) -> Sequence[str]:
    """Returns the clients of a group."""
    return list(self._partitions[group])

  def _epochs(
    self, purpose: str, user: str, round_number: int, number: int
  ) -> list[labelled_batching.Batch]:
    """Makes batches of a client's examples."""
    examples, rows = self._training(user)
    return labelled_batching.training_batches(
      examples,
      rows,
      batch_size=_batch_size(self._chosen, len(rows)),
      num_epochs=number,
      rng=randomness.generator(self._chosen.run.seed, purpose, round_number, user),
    )

  def _training(
    self, user: str
  ) -> tuple[labelled_batching.EncodedExamples, np.ndarray]:
    """Returns what a client trains on: examples, and the numbers of its own in them."""
    return self._examples['train'], self._partitions['train'][user]


class ClassifierWorkbench(LabelledWorkbench):
  """The clients, the model and the evaluation of a run."""

  def __init__(
    self,
    chosen: experiment.Experiment,
    data: labelled.LabelledData,
    dealt: partition.Partition,
    folder: pathlib.Path,
  ):
    """Encodes all texts; see the base class. `folder` is the run's."""
    super().__init__(chosen, data, dealt)
    task: classification_settings.ClassificationSettings = chosen.task_settings
    seed, train = chosen.run.seed, data.train
    representation = self._representation = classifier_texts.make(
      task, train, seed, (data.validation, data.test)
    )
    # Examples of several groups may share one list of texts: it is encoded once.
    groups = {'train': train, 'validation': data.validation, 'test': data.test}
    encoded_texts: dict[int, representations.Encoded] = {}
    self._examples = {}
    for name, examples in groups.items():
      key = id(examples.texts)
      if key not in encoded_texts:
        encoded_texts[key] = representation.encode(examples.texts)
      self._examples[name] = labelled_batching.encode(
        examples, encoded_texts[key], representation
      )
    self.model: classifiers.Classifier
    shape = (
      representation.num_ids,
      representation.width + train.dense.shape[1],
      len(data.classes),
    )
    if chosen.own.model is None:
      self.model = classifiers.build(
        task.model,
        *shape,
        embedding_size=task.embedding_size if representation.is_sequence else 0,
        dropout=task.dropout,
      )
    else:
      self.model = own_models.classifier(chosen.own.model, *shape)
    initial_weights = self.model.initial_weights(seed)
    self._prepare_clients(
      classification_model.from_classifier(self.model, initial_weights)
    )
    self.devices = workbench.open_devices(chosen, folder, self._set_up)
    self._evaluator = classifier_evaluation.ClassifierEvaluator(self.model)

  def examples(self, group: str, client: str) -> tuple[Any, np.ndarray]:
    """Returns a client's features and labels, ids padded as those of all clients."""
    rows = self._partitions[group][client]
    return labelled_batching.whole(self._examples, group, rows)

  def evaluate(self, weights: Sequence[np.ndarray], group: str) -> dict[str, float]:
    """Evaluates weights on the `validation` or the `test` examples."""
    return self._evaluator.evaluate(weights, self._examples[group])

  def test(self, weights: Sequence[np.ndarray], rounds_done: int) -> dict[str, float]:
    """Returns the figures of the test."""
    del rounds_done  # All clients have the same model, whenever that was made.
    return self.evaluate(weights, 'test')

  def guesses(self) -> dict[str, float]:
    """Returns the accuracy of the most frequent class, and that of the model's twin."""
    labels = self._examples['test'].labels
    figures = {'majority_accuracy': float(np.mean(labels == self._most_frequent_class))}
    if self._chosen.privacy_settings.claims and self._twin_is_cheap:
      figures['twin_accuracy'] = self._twin_accuracy()
    return figures

  @property
  def _twin_is_cheap(self) -> bool:
    """Whether the model can be trained in one place in seconds."""
    is_small = len(self._examples['train']) <= _MOST_TWIN_EXAMPLES
    return is_small and self._chosen.model_name == 'logistic'

  def _twin_accuracy(self) -> float:
    """Trains the same model on all training examples in one place, and tests it."""
    adam = tff.learning.optimizers.build_adam(_TWIN_STEP)
    process = central_training.CentralProcess(self.functional, adam)
    examples = self._examples['train']
    batches = labelled_batching.training_batches(
      examples,
      np.arange(len(examples)),
      batch_size=_TWIN_BATCH,
      num_epochs=_TWIN_EPOCHS,
      rng=randomness.generator(self._chosen.run.seed, 'twin'),
    )
    state = process.next(process.initialize(), [batches]).state
    weights = process.get_model_weights(state).trainable
    return self.evaluate([np.asarray(weight) for weight in weights], 'test')['accuracy']

  def to_keras(self, weights: Sequence[np.ndarray]) -> tf.keras.Model:
    """Makes the Keras model of weights."""
    return self.model.to_keras(weights)

  def usage(self, folder: pathlib.Path) -> usage_lib.ClassifierUsage:
    """Describes what the model reads; keeps in a folder what was fitted for it."""
    task: classification_settings.ClassificationSettings = self._chosen.task_settings
    made = self._representation
    encoding = classifier_texts.describe(task, made, folder)
    return usage_lib.ClassifierUsage(
      self._chosen.model_name,
      self._classes,
      encoding,
      dense_width=self.model.width - made.width,
    )


def _batch_size(chosen: experiment.Experiment, num_examples: int) -> int:
  """Returns the batch size of a client with so many examples."""
  updates = chosen.task_settings.updates_per_epoch
  if updates is None or chosen.algorithm.gathers_data:
    return chosen.algorithm_settings.client_batch_size
  return labelled_batching.size_for_updates(num_examples, updates)


def kept_examples(
  train: labelled.Examples, number: int | None, seed: int
) -> labelled.Examples:
  """Returns about so many training examples, drawn by the seed; all if `None`.

  Whether one is kept is a matter of that example, or of its user, alone.
  """
  if number is None or number >= len(train):
    return train
  places = randomness.Stream.of_seed(seed).shares('kept examples', train.owners())
  return train.take(np.flatnonzero(places < number / len(train)))


def deal(
  chosen: experiment.Experiment, train: labelled.Examples
) -> partition.Partition:
  """Deals the training examples as `--federation` says."""
  task = chosen.task_settings
  seed = chosen.run.seed
  if chosen.algorithm.gathers_data:
    return partition.pooled(len(train))
  if task.federation == 'users':
    assert train.users is not None  # Only tasks that have users offer it.
    return partition.by_user(train.users, task.num_clients, seed)
  if task.federation == 'examples':
    return partition.one_each(train.keys(), task.num_clients, seed)
  num_clients = task.num_clients or _DEFAULT_CLIENTS
  if task.federation == 'dirichlet':
    return partition.dirichlet(
      train.keys(),
      train.labels,
      num_clients,
      task.dirichlet_alpha,
      seed,
      follows_classes=task.dirichlet_prior == 'classes',
    )
  return partition.shards(train.keys(), num_clients, seed)


def partitions(
  chosen: experiment.Experiment,
  data: labelled.LabelledData,
  dealt: partition.Partition,
) -> Mapping[str, partition.Partition]:
  """Returns the clients of all groups and the numbers of their examples.

  Held-out examples are their users' where training examples are; otherwise nobody's, and
  all in one place that has the group's name.
  """
  parts = {'train': dealt}
  for group in ('validation', 'test'):
    users = getattr(data, group).users
    if users is None or chosen.task_settings.federation != 'users':
      parts[group] = {group: np.arange(len(getattr(data, group)))}
    else:
      parts[group] = partition.by_user(users, None, chosen.run.seed)
  return parts
