"""What a run makes of labelled data: numbers, clients, a model, an evaluator."""

import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tff_textpriv import files, randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import labelled, labelled_batching, partition
from tff_textpriv.iterative_processes import classification_model
from tff_textpriv.models import classifiers
from tff_textpriv.models import usage as usage_lib
from tff_textpriv.text import representations, rolling_hash
from tff_textpriv.training import (
  classification_settings,
  classifier_evaluation,
  experiment,
)

_DEFAULT_CLIENTS = 100


class ClassifierWorkbench:
  """The clients, the model and the evaluation of a run.

  Attributes:
    model: The classifier.
    functional: The same as a TFF model, with initial weights.
    partition: The clients and the numbers of their examples.
    devices: `None`: clients keep nothing.
  """

  devices = None

  def __init__(self, chosen: experiment.Experiment, data: labelled.LabelledData):
    """Deals the examples to clients, and encodes all texts.

    Args:
      chosen: The experiment.
      data: Its data.
    """
    task: classification_settings.ClassificationSettings = chosen.task_settings
    seed = chosen.run.seed
    train = kept_examples(data.train, task.max_train_examples, seed)
    self.partition = deal(chosen, train)
    representation = self._representation = make_representation(task, train, seed)
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
    self.model = classifiers.build(
      task.model,
      num_ids=representation.num_ids,
      width=representation.width + train.dense.shape[1],
      num_classes=len(data.classes),
      embedding_size=task.embedding_size if representation.is_sequence else 0,
      dropout=task.dropout,
    )
    self.functional = classification_model.from_classifier(
      self.model, self.model.initial_weights(seed)
    )
    self._chosen = chosen
    self._classes = data.classes
    self._evaluator = classifier_evaluation.ClassifierEvaluator(self.model)

  def client_batches(
    self, client_ids: Sequence[str], round_number: int
  ) -> list[list[labelled_batching.Batch]]:
    """Makes the batches of a round's clients."""
    return [
      labelled_batching.training_batches(
        self._examples['train'],
        self.partition[client_id],
        batch_size=batch_size(self._chosen, len(self.partition[client_id])),
        num_epochs=getattr(
          self._chosen.algorithm_settings, 'client_epochs_per_round', 1
        ),
        rng=randomness.generator(
          self._chosen.run.seed, 'batches', round_number, client_id
        ),
      )
      for client_id in client_ids
    ]

  def evaluate(self, weights: Sequence[np.ndarray], group: str) -> dict[str, float]:
    """Evaluates weights on the `validation` or the `test` examples."""
    return self._evaluator.evaluate(weights, self._examples[group])

  def test(self, weights: Sequence[np.ndarray], total_rounds: int) -> dict[str, float]:
    """Returns the figures of the test."""
    del total_rounds  # All clients have the same model, whenever that was made.
    return self.evaluate(weights, 'test')

  def to_keras(self, weights: Sequence[np.ndarray]) -> tf.keras.Model:
    """Makes the Keras model of weights."""
    return self.model.to_keras(weights)

  def usage(self, folder: pathlib.Path) -> usage_lib.ClassifierUsage:
    """Describes what the model reads; keeps in a folder what was fitted for it."""
    task: classification_settings.ClassificationSettings = self._chosen.task_settings
    made = self._representation
    if isinstance(made, representations.TermFrequency):
      files.write_atomically(folder / usage_lib.VOCABULARY_FILE, made.to_bytes())
      encoding = usage_lib.Encoding(
        task.representation, vocabulary=usage_lib.VOCABULARY_FILE
      )
    elif isinstance(made, representations.MeanVectors):
      if task.representation == 'vectors' and task.vectors_file is not None:
        vectors = str(pathlib.Path(task.vectors_file).absolute())
      else:
        vectors = usage_lib.VECTORS_FILE
        files.write_atomically(folder / vectors, made.to_bytes())
      encoding = usage_lib.Encoding('vectors', vectors=vectors)
    else:
      encoding = usage_lib.Encoding(
        task.representation,
        max_tokens=task.max_words if made.is_sequence else None,
        hash_base=task.hash_base,
        hash_buckets=task.hash_buckets,
      )
    return usage_lib.ClassifierUsage(
      task.model,
      self._classes,
      encoding,
      dense_width=self.model.width - made.width,
    )


def batch_size(chosen: experiment.Experiment, num_examples: int) -> int:
  """Returns the batch size of a client with so many examples."""
  updates = chosen.task_settings.updates_per_epoch
  if updates is None or chosen.algorithm.pooled:
    return chosen.algorithm_settings.client_batch_size
  return labelled_batching.size_for_updates(num_examples, updates)


def kept_examples(
  train: labelled.Examples, number: int | None, seed: int
) -> labelled.Examples:
  """Returns so many training examples, drawn by the seed; all if `None`."""
  if number is None or number >= len(train):
    return train
  rng = randomness.generator(seed, 'kept examples')
  return train.take(np.sort(rng.choice(len(train), number, replace=False)))


def make_representation(
  task: classification_settings.ClassificationSettings,
  train: labelled.Examples,
  seed: int,
) -> representations.Representation:
  """Makes the representation that the settings name.

  Args:
    task: The settings.
    train: The training examples, for representations that are fitted.
    seed: Decides trained vectors.

  Raises:
    SettingsError: If a file of vectors is needed and none is given.
  """
  hasher = rolling_hash.RollingHasher(task.hash_base, task.hash_buckets)
  if task.representation == 'hash':
    return representations.HashedBag(hasher)
  if task.representation == 'hash_words':
    return representations.HashedWords(hasher, task.max_words)
  if task.representation == 'vectors':
    if task.vectors_file is None:
      raise settings_lib.SettingsError(
        'vectors_file', None, 'is needed with --representation=vectors'
      )
    return representations.read_vectors(task.vectors_file)
  texts = [train.texts[number] for number in np.unique(train.text_of)]
  if task.representation == 'term_frequency':
    return representations.fit_term_frequency(texts, task.vocab_size)
  return representations.fit_word2vec(texts, task.embedding_size, seed, task.vocab_size)


def deal(
  chosen: experiment.Experiment, train: labelled.Examples
) -> partition.Partition:
  """Deals the training examples as `--federation` says."""
  task = chosen.task_settings
  seed = chosen.run.seed
  if chosen.algorithm.pooled:
    return partition.pooled(len(train))
  if task.federation == 'users':
    assert train.users is not None  # Only tasks that have users offer it.
    return partition.by_user(train.users, task.num_clients, seed)
  num_clients = task.num_clients or _DEFAULT_CLIENTS
  if task.federation == 'dirichlet':
    return partition.dirichlet(train.labels, num_clients, task.dirichlet_alpha, seed)
  return partition.equal_shards(len(train), num_clients, seed)
