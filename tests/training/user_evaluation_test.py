"""Tests of users' own models: what they are tested on, and what is averaged."""

import numpy as np
import pytest

from tff_textpriv.training import user_evaluation


def test_a_user_s_own_test_has_the_class_shares_of_its_training():
  test_labels = np.tile([0, 1, 2, 3], 200)
  train = {'a': np.array([0] * 9 + [1]), 'b': np.array([2, 3])}
  tests = user_evaluation.make_tests(train, test_labels, 100, seed=0)
  shares = {
    user: np.bincount(test_labels[test.own], minlength=4).tolist()
    for user, test in tests.items()
  }
  assert shares == {'a': [90, 10, 0, 0], 'b': [0, 0, 50, 50]}
  np.testing.assert_array_equal(tests['a'].common, tests['b'].common)
  assert len(np.unique(tests['a'].common)) == 100
  assert len(np.unique(tests['a'].own)) == 100  # No example twice if there are enough.


def test_where_a_class_has_too_few_examples_some_are_drawn_twice():
  test_labels = np.array([0] * 95 + [1] * 5)
  tests = user_evaluation.make_tests({'a': np.array([1])}, test_labels, 50, seed=0)
  assert len(tests['a'].own) == 50
  assert set(test_labels[tests['a'].own]) == {1}


def test_global_accuracy_is_a_geometric_and_local_accuracy_a_plain_mean():
  assert user_evaluation.summary([(0.9, 0.5), (0.4, 1.0)]) == {
    'global_accuracy': pytest.approx(0.6),
    'local_accuracy': pytest.approx(0.75),
  }
  assert user_evaluation.summary([(0.0, 0.5), (0.4, 1.0)])['global_accuracy'] == 0


def test_users_whose_classes_nobody_is_tested_on_have_no_local_accuracy():
  tests = user_evaluation.make_tests({'a': np.array([2])}, np.array([0, 1]), 2, seed=0)
  assert len(tests['a'].own) == 0
  nothing = float('nan')
  both = user_evaluation.summary([(0.5, nothing), (0.5, 0.25)])
  assert both['local_accuracy'] == pytest.approx(0.25)
  assert user_evaluation.summary([(0.5, nothing)]).keys() == {'global_accuracy'}
