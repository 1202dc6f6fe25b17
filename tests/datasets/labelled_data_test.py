"""Labelled data: partitions, batches and the embedded twins."""

import numpy as np
import pytest

from tff_textpriv import randomness
from tff_textpriv.datasets import (
  clients,
  embedded_labelled,
  labelled,
  labelled_batching,
  partition,
)
from tff_textpriv.text import representations, rolling_hash


def _all_once(parts, number):
  dealt = np.concatenate(list(parts.values()))
  return np.array_equal(np.sort(dealt), np.arange(number))


def _keys(number):
  return [f'text {i}' for i in range(number)]


def test_shards_deal_every_example_once_and_about_evenly():
  parts = partition.shards(_keys(10_000), 10, seed=0)
  assert len(parts) == 10 and _all_once(parts, 10_000)
  # Binomial sizes, to 5 standard deviations.
  assert all(abs(len(rows) - 1000) < 5 * 30 for rows in parts.values())
  again, other = (partition.shards(_keys(10_000), 10, seed) for seed in (0, 1))
  assert all(np.array_equal(parts[name], again[name]) for name in parts)
  assert any(not np.array_equal(parts[name], other[name]) for name in parts)


def test_by_user_leaves_each_rating_with_its_user():
  users = np.array([7, 3, 7, 9, 3, 7])
  parts = partition.by_user(users, None, seed=0)
  assert {name: rows.tolist() for name, rows in parts.items()} == {
    'user_3': [1, 4],
    'user_7': [0, 2, 5],
    'user_9': [3],
  }
  many = partition.by_user(np.arange(1000), 300, seed=0)
  assert abs(len(many) - 300) < 5 * 15


def test_one_each_gives_every_example_a_client_whose_name_is_its_own():
  keys = _keys(1000)
  parts = partition.one_each(keys, None, seed=0)
  assert len(parts) == 1000 and _all_once(parts, 1000)
  # Whoever else comes or goes, a client keeps its name, by which its turn is found.
  fewer = partition.one_each(keys[1:], None, seed=0)
  assert [name for name, (row,) in parts.items() if row > 0] == list(fewer)
  assert fewer.keys().isdisjoint(partition.one_each(keys[:50], None, seed=1))
  some = partition.one_each(keys, 300, seed=0)
  assert abs(len(some) - 300) < 5 * 15 and some.keys() <= parts.keys()


@pytest.mark.parametrize('alpha', [1e-4, 0.1, 1.0, 1000.0])
def test_dirichlet_deals_every_example_once_and_nobody_has_nothing(alpha):
  labels = np.random.default_rng(0).integers(4, size=2000)
  parts = partition.dirichlet(_keys(2000), labels, 50, alpha, seed=0)
  assert _all_once(parts, 2000)
  assert min(len(rows) for rows in parts.values()) >= 1
  assert len(parts) == 50 or alpha < 1


def test_with_the_prior_of_four_equal_classes_each_counts_a_quarter():
  labels = np.arange(2000) % 4
  of_prior = partition.dirichlet(
    _keys(2000), labels, 50, 1.0, seed=0, follows_classes=True
  )
  quarter, whole = (
    partition.dirichlet(_keys(2000), labels, 50, alpha, seed=0) for alpha in (0.25, 1.0)
  )
  assert _sizes(of_prior) == _sizes(quarter) != _sizes(whole)


def test_a_rare_class_counts_less_with_the_prior():
  """Each class is dealt in proportion to draws from Dirichlet(alpha * prior)."""
  labels = np.repeat([0, 1], [18_000, 2_000])
  parts = partition.dirichlet(
    _keys(20_000), labels, 8, 2.0, seed=3, follows_classes=True
  )
  drawn = randomness.generator(3, 'dirichlet').dirichlet([1.8, 0.2], 8)
  expected = drawn / drawn.sum(axis=0)
  dealt = np.zeros((8, 2))
  for name, rows in parts.items():
    dealt[int(name.removeprefix('client_'))] = np.bincount(labels[rows], minlength=2)
  dealt /= dealt.sum(axis=0)
  # Five standard deviations of a share of 2,000 examples, at most.
  np.testing.assert_allclose(dealt, expected, atol=5 * 0.5 / np.sqrt(2000))


def _sizes(parts):
  return {name: len(rows) for name, rows in parts.items()}


def test_a_small_alpha_makes_clients_differ_and_a_large_one_alike():
  labels = np.random.default_rng(0).integers(4, size=20_000)

  def spread(alpha):
    parts = partition.dirichlet(_keys(20_000), labels, 20, alpha, seed=0)
    shares = [
      np.bincount(labels[rows], minlength=4) / len(rows) for rows in parts.values()
    ]
    return np.std(shares, axis=0).mean()

  # The standard deviation of a share of one in four is sqrt(3 / 16 / (4 alpha + 1)).
  assert spread(1e5) < 0.02
  assert 0.1 < spread(1.0) < 0.3
  assert spread(0.01) > 0.35


@pytest.mark.parametrize(
  'deal',
  [
    lambda: partition.shards(_keys(3), 4, 0),
    lambda: partition.dirichlet(_keys(3), np.array([0, 1, 0]), 4, 1.0, 0),
    lambda: partition.by_user(np.array([0, 1, 0]), 3, 0),
    lambda: partition.one_each(_keys(3), 4, 0),
  ],
)
def test_more_clients_than_there_can_be_are_refused(deal):
  with pytest.raises(clients.DataError, match='--num_clients='):
    deal()


@pytest.fixture(scope='module')
def encoded():
  examples = labelled.Examples(
    ['cats and dogs', 'dog', ''],
    np.array([0, 1, 0, 2, 1]),
    np.arange(10, dtype=np.float32).reshape(5, 2),
    np.array([1, 0, 1, 0, 1], np.int32),
  )
  bag = representations.HashedBag(rolling_hash.RollingHasher())
  return labelled_batching.encode(examples, bag.encode(examples.texts), bag)


def test_a_batch_has_the_ids_of_the_examples_texts_and_is_padded(encoded):
  inputs, labels = encoded.batch(np.array([4, 2]), shape=(3, 4))
  assert inputs['ids'].tolist() == [
    [2196, 5000, 5000, 5000],
    [283, 3225, 4279, 5000],
    [5000, 5000, 5000, 5000],
  ]
  assert inputs['dense'].tolist() == [[8, 9], [4, 5], [0, 0]]
  assert inputs['num_examples'] == 2
  assert labels[:2].tolist() == [1, 1]


def test_training_batches_pass_over_all_examples_in_each_epoch(encoded):
  batches = labelled_batching.training_batches(
    encoded,
    np.array([0, 1, 2, 4]),
    batch_size=3,
    num_epochs=2,
    rng=np.random.default_rng(0),
  )
  assert [int(inputs['num_examples']) for inputs, _ in batches] == [2, 2, 2, 2]
  assert {inputs['ids'].shape for inputs, _ in batches} == {(2, 3)}
  for epoch in (batches[:2], batches[2:]):
    seen = [
      row for inputs, _ in epoch for row in inputs['dense'][: inputs['num_examples'], 0]
    ]
    assert sorted(seen) == [0, 2, 4, 8]
  seeds = {tuple(inputs['dropout_seed']) for inputs, _ in batches}
  assert len(seeds) == 4


@pytest.mark.parametrize(
  ('number', 'updates', 'size'), [(100, 10, 10), (101, 10, 11), (3, 10, 1)]
)
def test_the_batch_size_follows_the_number_of_updates(number, updates, size):
  assert labelled_batching.size_for_updates(number, updates) == size
  assert -(-number // size) <= updates


def test_the_held_out_tenth_and_the_rest_are_all_examples():
  examples = labelled.Examples.of_texts([str(i) for i in range(1000)], [0, 1] * 500)
  train, validation = labelled.hold_out(examples, seed=0)
  # Each by itself with a chance of one in ten, to 5 standard deviations.
  assert abs(len(validation) - 100) < 5 * 9.5
  assert sorted([*train.text_of, *validation.text_of]) == list(range(1000))
  # However few there are, one is held out and not all.
  few = labelled.Examples.of_texts(['a', 'b'], [0, 1])
  assert [len(part) for part in labelled.hold_out(few, seed=0)] == [1, 1]


def test_data_without_examples_or_with_a_strange_label_are_refused():
  some = labelled.Examples.of_texts(['a'], [0])
  with pytest.raises(clients.DataError, match='no test examples'):
    labelled.LabelledData('x', ('no', 'yes'), some, some, some.take(np.array([], int)))
  strange = labelled.Examples.of_texts(['a'], [2])
  with pytest.raises(clients.DataError, match='none of the 2 classes'):
    labelled.LabelledData('x', ('no', 'yes'), some, strange, some)


@pytest.mark.parametrize(
  'build', [embedded_labelled.reviews, embedded_labelled.ratings]
)
def test_the_embedded_twins_are_functions_of_the_seed(build):
  first, again, other = build(0), build(0), build(1)
  assert list(first.train.texts) == list(again.train.texts)
  np.testing.assert_array_equal(first.test.labels, again.test.labels)
  assert list(first.train.texts) != list(other.train.texts)
  for group in (first.train, first.validation, first.test):
    assert 0.35 < group.labels.mean() < 0.65


def test_nobody_of_the_embedded_raters_is_in_two_groups():
  data = embedded_labelled.ratings(0)
  groups = [set(group.users) for group in (data.train, data.validation, data.test)]
  assert sum(map(len, groups)) == len(set.union(*groups)) == 250
