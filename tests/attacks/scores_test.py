"""Scores of reconstructions, and the closed-form attacks, on numbers one can check."""

import math

import numpy as np
import pytest

from tff_textpriv.attacks import embedding_rows, kernel_span, scores
from tff_textpriv.text import tokens


def test_shares_count_tokens_of_the_text_and_of_the_reconstruction():
  text = ['the', 'price', 'of', 'the', '3', 'shares', 'fell', 'to', '20']
  found = ['the', 'the', 'shares', 'price', '3', 'of', 'oil']
  result = scores.score(text, found, tokens.has_digit)
  assert result.precision == pytest.approx(6 / 7)
  assert result.recall == pytest.approx(6 / 9)
  assert result.private_recall == pytest.approx(1 / 2)
  assert result.f1 == pytest.approx(2 * (6 / 7) * (2 / 3) / (6 / 7 + 2 / 3))


def test_a_text_without_private_tokens_has_no_leakage_ratio_and_is_left_out_of_means():
  without = scores.score(['a', 'b'], [], tokens.has_digit)
  assert math.isnan(without.private_recall)
  assert (without.precision, without.recall, without.f1) == (0, 0, 0)
  with_one = scores.score(['1', 'b'], ['1'], tokens.has_digit)
  average = scores.mean([without, with_one])
  assert average == scores.Score(0.5, 0.25, 1.0)


def test_the_rows_that_moved_are_the_bag_of_words():
  gradient = np.zeros((9, 3))
  gradient[4] = [1e-20, 0, 0]
  gradient[7] = [0, -2, 0]
  np.testing.assert_array_equal(embedding_rows.read_tokens(gradient), [7, 4])


def test_with_noise_the_rows_that_moved_most_are_taken():
  gradient = np.random.default_rng(0).normal(scale=0.01, size=(9, 3))
  gradient[[2, 5]] += 1
  found = embedding_rows.read_tokens(gradient, num_tokens=2)
  assert sorted(found) == [2, 5]


def test_rows_that_moved_alike_are_drawn_and_not_taken_in_the_table_s_order():
  bits = np.random.default_rng(0).choice([-0.5, 0.5], (1000, 7))
  found = embedding_rows.read_tokens(bits, 100, np.random.default_rng(1))
  # A uniform draw's mean rank: 500, give or take 289 / sqrt(100).
  assert np.mean(found) == pytest.approx(500, abs=4 * 29)


def test_rows_in_the_span_of_a_kernel_s_gradient_are_the_tokens():
  rng = np.random.default_rng(1)
  table = rng.normal(size=(500, 20))
  table[0] = 0  # A row of zeros is in every space.
  read = [3, 70, 70, 499, 120]
  gradients = [table[read].T @ rng.normal(size=(5, 16)) for _ in range(2)]
  span = kernel_span.of_gradients(gradients, num_tokens=5)
  assert not span.is_everything
  assert sorted(kernel_span.read_tokens(span, table)) == [3, 70, 120, 499]
  unrelated = rng.permutation(table)
  assert not np.isclose(span.residuals(unrelated)[read], 0, atol=1e-3).any()


def test_more_tokens_than_numbers_in_an_embedding_stand_out_by_their_leverage():
  rng = np.random.default_rng(2)
  table = rng.normal(size=(500, 20))
  read = np.arange(30)
  gradient = table[read].T @ rng.normal(size=(30, 64))
  span = kernel_span.of_gradients([gradient], num_tokens=30)
  assert span.is_everything
  found = kernel_span.read_tokens(span, table)
  # Drawn at random, 30 of 500 rows would have 1.8 of them, and hardly ever 7.
  assert len(found) == 30 and len(set(found) & set(read)) >= 10
  unrelated = kernel_span.read_tokens(span, rng.permutation(table))
  assert len(set(unrelated) & set(read)) < 7


def test_noise_behind_what_was_read_is_told_apart_by_the_gap():
  rng = np.random.default_rng(3)
  table = rng.normal(size=(500, 20))
  read = [3, 70, 499]
  gradient = table[read].T @ rng.normal(size=(3, 40))
  noisy = gradient + 1e-3 * rng.normal(size=gradient.shape)
  # The attacker knows that there are ten tokens, and not how many differ.
  span = kernel_span.of_gradients([noisy], num_tokens=10)
  assert len(span.basis) == 3
  assert sorted(kernel_span.read_tokens(span, table)) == read
  # Noise as large as what was read leaves no gap.
  drowned = gradient + 5 * rng.normal(size=gradient.shape)
  assert len(kernel_span.of_gradients([drowned], num_tokens=10).basis) == 10
  nothing = kernel_span.of_gradients([np.zeros((20, 5))], num_tokens=3)
  assert len(nothing.basis) == 0
  np.testing.assert_array_equal(nothing.residuals(table), 1)


def test_an_advantage_is_paired_and_has_an_interval():
  mean, margin = scores.advantage([0.9, 0.5, 0.7], [0.4, 0.1, 0.1])
  # Differences 0.5, 0.4, 0.6: deviation 0.1, and Student's quantile of two is 4.303.
  assert (mean, margin) == (
    pytest.approx(0.5),
    pytest.approx(0.1 * 4.3027 / 3**0.5, rel=1e-4),
  )
  assert np.isnan(scores.advantage([0.9], [0.4])[1])


def test_what_a_reconstruction_leaves_free_goes_to_frequent_words():
  text, frequent = ['a', 'rare', 'b', 'a'], ['a', 'b', 'c', 'd']
  assert scores.filled_recall(text, [], frequent) == 3 / 4
  # One thing that is known for sure, and named twice, leaves room for three words.
  assert scores.filled_recall(text, ['rare', 'rare'], frequent) == 1
  # Wrong ones leave none.
  assert scores.filled_recall(text, ['e', 'f', 'g', 'h'], frequent) == 0
