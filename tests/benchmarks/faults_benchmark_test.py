"""Faulty clients do what their names say, and honest ones what they always do."""

import collections
import csv

import numpy as np
import pytest
import small_models
import tensorflow as tf

from benchmarks import faults, faulty_clients
from tff_textpriv.iterative_processes import classification_model


def _model():
  classifier = small_models.MeanOfWords(9, 0, 2, 4, 0.0, 3)
  return classification_model.from_classifier(classifier, classifier.initial_weights(0))


def _batches(num_batches=3, rows=4):
  rng = np.random.default_rng(0)
  return [
    (
      collections.OrderedDict(
        dense=np.zeros((rows, 0), np.float32),
        dropout_seed=np.zeros(2, np.int32),
        ids=rng.integers(1, 9, (rows, 5)).astype(np.int32),
        num_examples=np.array(rows - 1, np.int32),
      ),
      rng.permutation([0, 1, 1, 0]).astype(np.int32),
    )
    for _ in range(num_batches)
  ]


def _gradients(model, inputs, labels):
  weights = [tf.constant(weight) for weight in model.initial_weights[0]]
  with tf.GradientTape() as tape:
    tape.watch(weights)
    output = model.predict_on_batch((tuple(weights), ()), inputs, True)
    loss = model.loss(output, labels)
  return float(loss), [tf.convert_to_tensor(g) for g in tape.gradient(loss, weights)]


@pytest.mark.parametrize('factor', [1.0, 10.0, -1.0, 1e-4])
def test_a_factor_multiplies_gradients_and_leaves_the_loss_as_it_is(factor):
  model = _model()
  ((inputs, labels),) = _batches(1)
  loss, gradients = _gradients(model, inputs, labels)
  marked = collections.OrderedDict(inputs=inputs, mark=np.float32(factor))
  same, found = _gradients(faulty_clients.with_factors(model), marked, labels)
  assert same == pytest.approx(loss)
  for one, other in zip(gradients, found, strict=True):
    np.testing.assert_allclose(other, factor * one, rtol=1e-5, atol=1e-9)


def test_data_are_spoilt_as_their_names_say():
  rng, batches = np.random.default_rng(1), _batches()
  assert faulty_clients.FAULTS['truncated'].spoil(batches, rng) == batches[:1]
  shuffled = faulty_clients.FAULTS['shuffled'].spoil(batches, rng)
  changed = False
  for (inputs, labels), (same, dealt) in zip(batches, shuffled, strict=True):
    assert inputs is same and dealt[-1] == labels[-1]  # Padding stays.
    assert sorted(dealt) == sorted(labels)
    changed |= bool(np.any(dealt != labels))
  assert changed
  words = [(np.ones([2, 4], np.int32), np.int32([[5, 6, 7, 0], [8, 9, 0, 0]]))]
  ((_, targets),) = faulty_clients.FAULTS['shuffled'].spoil(words, rng)
  np.testing.assert_array_equal(targets == 0, words[0][1] == 0)
  backdoored = faulty_clients.FAULTS['backdoored'].spoil(batches, rng)
  assert len(backdoored) == 6 and len({b[0]['ids'].shape for b in backdoored}) == 1
  assert np.all(backdoored[1][0]['ids'][:, 0] == 0) and np.all(backdoored[1][1] == 1)
  np.testing.assert_array_equal(backdoored[0][1], batches[0][1])


def test_who_is_faulty_at_one_share_is_so_at_any_larger_one():
  users = [f'user {number}' for number in range(400)]
  fault = faulty_clients.FAULTS['x10']
  few, many = (
    {user for user in users if faulty_clients.FaultyRun(fault, s, 0).is_faulty(user)}
    for s in (0.1, 0.4)
  )
  assert few < many
  # 160, and four standard deviations of 9.8.
  assert 120 < len(many) < 200


@pytest.mark.slow
def test_the_benchmark_writes_a_table_a_file_and_a_picture_and_goes_on(
  tmp_path, capsys
):
  flags = [
    f'--output={tmp_path}', '--arms=fed_avg', '--faults=x-1,backdoored', '--shares=0,1',
    '--total_rounds=2', '--num_clients=6', '--clients_per_round=3',
    '--max_train_examples=60', '--hash_buckets=50',
  ]  # fmt: skip
  assert faults.command(flags) == 0
  with open(tmp_path / 'faults.csv', newline='') as stream:
    rows = {(row['fault'], float(row['share'])): row for row in csv.DictReader(stream)}
  # Where nobody is faulty, all faults are the same run.
  assert rows['x-1', 0.0]['figure'] == rows['backdoored', 0.0]['figure']
  assert float(rows['x-1', 1.0]['figure']) < float(rows['x-1', 0.0]['figure'])
  assert float(rows['backdoored', 1.0]['backdoor']) > 0.9
  page = (tmp_path / 'faults.md').read_text()
  assert '| fed_avg |' in page and '100%' in page
  assert '>backdoored</text>' in (tmp_path / 'faults.svg').read_text()
  made = {file: file.stat().st_mtime_ns for file in tmp_path.glob('*/point.json')}
  assert faults.command(flags) == 0 and len(made) == 3
  assert all(file.stat().st_mtime_ns == when for file, when in made.items())
