"""How good users' own models are: on a test for all, and on a test like their own data."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tff_textpriv import randomness
from tff_textpriv.datasets import labelled_batching
from tff_textpriv.iterative_processes import clients, local_training
from tff_textpriv.models import classifiers
from tff_textpriv.training import classifier_evaluation


class UserTest(NamedTuple):
  """The examples that a user's model is tested on: numbers of test examples.

  Attributes:
    common: Those that all users share.
    own: Those that have the class shares of the user's training examples.
  """

  common: np.ndarray
  own: np.ndarray


def make_tests(
  train_labels: dict[str, np.ndarray],
  test_labels: np.ndarray,
  num_examples: int,
  seed: int,
) -> dict[str, UserTest]:
  """Draws the tests of users.

  Args:
    train_labels: The classes of each user's training examples.
    test_labels: The classes of all test examples.
    num_examples: The number of examples of either test, at most.
    seed: Decides what is drawn.
  """
  order = randomness.generator(seed, 'common test').permutation(len(test_labels))
  common = np.sort(order[:num_examples])
  tests = {}
  for user, labels in train_labels.items():
    rng = randomness.generator(seed, 'own test', user)
    shares = np.bincount(labels, minlength=int(test_labels.max()) + 1) / len(labels)
    tests[user] = UserTest(common, _with_shares(shares, test_labels, len(common), rng))
  return tests


def _with_shares(
  shares: np.ndarray, labels: np.ndarray, number: int, rng: np.random.Generator
) -> np.ndarray:
  """Draws about so many examples; where a class has too few, some are drawn twice."""
  chosen = [np.zeros(0, np.int64)]
  for label, wanted in enumerate(np.rint(shares * number).astype(int)):
    members = np.flatnonzero(labels == label)
    if wanted and len(members):
      chosen.append(rng.choice(members, wanted, replace=wanted > len(members)))
  return np.sort(np.concatenate(chosen))


def summary(accuracies: Sequence[tuple[float, float]]) -> dict[str, float]:
  """Returns the geometric mean of global, and the mean of local accuracies.

  Args:
    accuracies: Each user's accuracy on the common test, and on its own; the latter is
      not a number where no test example has a class of the user's.

  Returns:
    `global_accuracy`, and `local_accuracy` of users who have a test of their own.
  """
  common, own = np.array(accuracies).T
  with np.errstate(divide='ignore'):
    figures = {'global_accuracy': float(np.exp(np.mean(np.log(common))))}
  has_own = ~np.isnan(own)
  if has_own.any():
    figures['local_accuracy'] = float(np.mean(own[has_own]))
  return figures


class UserEvaluator:
  """Tests the models of users, one after the other."""

  def __init__(self, model: classifiers.Classifier, client: clients.Client):
    """Traces scoring.

    Args:
      model: The classifier.
      client: Tells which of its weights are local.
    """
    trainer = client.trainer
    self._evaluator = classifier_evaluation.ClassifierEvaluator(
      model, [*trainer.local_specs, *trainer.shared_specs]
    )

  def accuracies(
    self,
    parts: local_training.Parts,
    encode: Callable[[np.ndarray], labelled_batching.EncodedExamples],
    test: UserTest,
  ) -> tuple[float, float]:
    """Returns a model's accuracy on the common test, and on the user's own if any.

    Args:
      parts: The model.
      encode: Gives examples as the model reads them.
      test: The numbers of the examples.
    """
    rows, places = np.unique(np.concatenate(test), return_inverse=True)
    examples = encode(rows)
    logits = self._evaluator.logits([*parts.local, *parts.shared], examples)
    predicted = classifiers.predictions(tf.constant(logits)).numpy()
    is_right = (predicted == examples.labels)[places]
    common, own = np.split(is_right, [len(test.common)])
    return float(np.mean(common)), float(np.mean(own)) if len(own) else float('nan')

  def evaluate(
    self, parts: local_training.Parts, examples: labelled_batching.EncodedExamples
  ) -> dict[str, float]:
    """Returns a model's loss and accuracy on examples."""
    return self._evaluator.evaluate([*parts.local, *parts.shared], examples)
