"""The comparison of speed compares the same work, and notices when it is not."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import reference, speed, workloads

_ROOT = pathlib.Path(__file__).parents[2]


def _workload(private: bool) -> workloads.Workload:
  rng = np.random.default_rng(0)
  # Sentences of many lengths, some of which are cut into two rows.
  posts = [
    [rng.integers(4, 60, length, np.int32) for length in rng.integers(3, 30, 20)]
    for _ in range(3)
  ]
  return workloads.make('tiny', 'lstm_tiny', 60, posts, max_words=20, private=private)


def _weights_after_a_round(contender, workload):
  contender.prepare(workload)
  contender.run_round()
  return contender.weights()


def test_a_workload_is_read_as_it_was_written(tmp_path):
  written = _workload(private=True)
  written.save(tmp_path)
  read = workloads.load(tmp_path)
  assert (read.name, read.preset, read.private) == ('tiny', 'lstm_tiny', True)
  assert read.num_tokens == written.num_tokens
  for some, others in zip(read.weights, written.weights, strict=True):
    np.testing.assert_array_equal(some, others)
  for some, others in zip(read.posts[2], written.posts[2], strict=True):
    np.testing.assert_array_equal(some, others)


def test_batches_hold_every_token_of_the_posts_once():
  workload = _workload(private=False)
  for posts, batches in zip(workload.posts, workload.batches, strict=True):
    predicted = np.concatenate([row[1:] for rows in batches for row in rows])
    expected = np.concatenate([post[1:] for post in posts])
    np.testing.assert_array_equal(np.sort(predicted), np.sort(expected))
    assert all(len(row) <= 21 for rows in batches for row in rows)
  assert workload.num_tokens == sum(len(post) - 1 for c in workload.posts for post in c)


def test_padding_is_neither_read_nor_predicted():
  inputs, targets = workloads.pad([np.array([2, 7, 3]), np.array([2, 3])], 3)
  np.testing.assert_array_equal(inputs, [[2, 7, 0], [2, 0, 0]])
  np.testing.assert_array_equal(targets, [[7, 3, 0], [3, 0, 0]])


def test_the_reference_loss_is_that_of_our_model():
  from tff_textpriv.models import language_models

  workload = _workload(private=False)
  model = language_models.build('lstm_tiny', 60, tied=False)
  inputs, targets = workloads.pad(workload.batches[0][0])
  expected = language_models.next_token_loss(
    model.hidden(workload.weights, inputs),
    *model.output_layer(workload.weights),
    targets,
    tied=False,
  )
  loss = reference.loss(workload.weights, [[workload.batches[0][0]]])
  assert loss == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize(
  ('private', 'layer'),
  [pytest.param(False, 'keras', marks=pytest.mark.slow), (True, 'fast')],
)
def test_our_round_and_a_plain_loop_do_the_same(tff_runtime, private, layer):
  from benchmarks.contenders import ours, plain

  workload = _workload(private)
  after = {
    'ours': _weights_after_a_round(ours.Ours(), workload),
    'plain': _weights_after_a_round(plain.Plain(layer), workload),
  }
  agreement = speed.agreement(workload, after)
  assert agreement['agree'], agreement
  before = reference.loss(workload.weights, workload.batches)
  assert reference.loss(after['ours'], workload.batches) < before

  # One client fewer is other work, and must not pass for the same.
  shortened = workloads.make(
    'tiny', 'lstm_tiny', 60, workload.posts[:2], max_words=20, private=private
  )
  after['plain'] = _weights_after_a_round(plain.Plain(layer), shortened)
  assert not speed.agreement(workload, after)['agree']


def test_ratios_are_those_of_neighbouring_rounds():
  ratio = speed.paired_ratio([1.0, 4.0, 3.0], [2.0, 4.0, 1.0])
  assert ratio == {'median': 1.0, 'lowest': 0.5, 'highest': 3.0}


@pytest.mark.slow
def test_a_quick_run_prints_a_table_and_writes_json(tmp_path):
  output = tmp_path / 'speed.json'
  done = subprocess.run(
    [sys.executable, '-m', 'benchmarks.speed', '--quick', f'--output={output}'],
    cwd=_ROOT,
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stderr
  assert 'the same work: yes' in done.stdout
  (result,) = json.loads(output.read_text())['results']
  assert result['private'] and result['num_clients'] == 3 and result['num_steps'] == 6
  assert set(result['seconds']) == {'ours', 'plain_fast'}
  assert result['ratios']['ours']['plain_fast']['median'] > 0
