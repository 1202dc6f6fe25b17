"""Evaluation of classifiers: AUC by its definition, and order-free scoring."""

import math

import numpy as np
import pytest
from sklearn import metrics

from tff_textpriv.datasets import labelled, labelled_batching
from tff_textpriv.models import classifiers
from tff_textpriv.text import representations, rolling_hash
from tff_textpriv.training import classifier_evaluation


def test_auc_is_scikit_learns_also_with_ties():
  rng = np.random.default_rng(0)
  for decimals in (0, 1, 6):
    scores = np.round(rng.normal(size=500), decimals)
    labels = (rng.random(500) < 0.3).astype(np.int32)
    ours = classifier_evaluation.auc(scores, labels)
    assert ours == pytest.approx(metrics.roc_auc_score(labels, scores))


def test_auc_is_not_a_number_where_it_has_no_meaning():
  assert math.isnan(classifier_evaluation.auc(np.array([1.0, 2.0]), np.array([1, 1])))
  diverged = np.array([np.nan, 2.0])
  assert math.isnan(classifier_evaluation.auc(diverged, np.array([0, 1])))


@pytest.mark.parametrize('num_classes', [2, 3])
def test_examples_are_scored_in_their_own_order(num_classes):
  texts = [' '.join(['dog', 'cat', 'cow', 'hen'][: i % 5]) for i in range(40)]
  labels = np.arange(40) % num_classes
  examples = labelled.Examples.of_texts(texts, labels)
  bag = representations.HashedBag(rolling_hash.RollingHasher(31, 50))
  encoded = labelled_batching.encode(examples, bag.encode(texts), bag)
  model = classifiers.build('logistic', num_ids=50, width=0, num_classes=num_classes)
  rng = np.random.default_rng(0)
  weights = [
    rng.normal(size=weight.shape).astype(np.float32)
    for weight in model.initial_weights(0)
  ]
  evaluator = classifier_evaluation.ClassifierEvaluator(model)
  logits = evaluator.logits(weights, encoded)
  kernel, bias = weights
  vectors = rolling_hash.binary_vectors(bag.encode(texts).ids, range(40), 50)
  np.testing.assert_allclose(logits, vectors @ kernel + bias, rtol=1e-4, atol=1e-5)
  figures = evaluator.evaluate(weights, encoded)
  predicted = logits[:, 0] > 0 if num_classes == 2 else logits.argmax(axis=1)
  assert figures['accuracy'] == pytest.approx(np.mean(predicted == labels))
  assert ('auc' in figures) == (num_classes == 2)
  assert figures['num_examples'] == 40 and figures['loss'] > 0
