"""What users read of their texts in training: dropped words, start vectors."""

import numpy as np
import pytest

from tff_textpriv.tasks import agnews, base
from tff_textpriv.text import tokens
from tff_textpriv.training import vocabularies

_SMALL = ('--num_clients=4', '--max_train_examples=200', '--max_words=16')


def _ids(bench, user, round_number):
  return [inputs['ids'] for inputs, _ in bench.batches(user, round_number)]


def test_a_share_of_words_is_dropped_anew_in_each_round_and_all_else_stays(make_run):
  given = (*_SMALL, '--algo=fed_avg')
  plain = make_run(agnews.TASK, *given).bench
  trained = make_run(agnews.TASK, *given, '--out_of_vocabulary=trained').bench
  unknown = plain.model.num_ids - 1
  user = plain.clients('train')[0]
  for before, after in zip(
    plain.batches(user, 3), trained.batches(user, 3), strict=True
  ):
    np.testing.assert_array_equal(before[1], after[1])
    assert before[0].keys() == after[0].keys()
    np.testing.assert_array_equal(before[0]['dropout_seed'], after[0]['dropout_seed'])
    changed = before[0]['ids'] != after[0]['ids']
    assert (after[0]['ids'][changed] == unknown).all()
  kept, dropped = (np.concatenate(_ids(bench, user, 3)) for bench in (plain, trained))
  is_word = kept <= unknown
  number = is_word.sum()
  share = np.sum(kept != dropped) / number
  assert abs(share - 0.1) < 5 * np.sqrt(0.1 * 0.9 / number)
  assert (dropped[~is_word] == kept[~is_word]).all()
  same, again = _ids(trained, user, 3), _ids(trained, user, 4)
  np.testing.assert_array_equal(np.concatenate(same), dropped)
  assert (np.concatenate(again) == unknown).sum() != 0


@pytest.fixture(scope='module')
def files(tmp_path_factory):
  """Two files of vectors of the words a and b, and of c, which no text has."""
  folder = tmp_path_factory.mktemp('vectors')
  for name, factor in (('one.txt', 1), ('two.txt', -1)):
    lines = [f'{word} {factor * n} {factor * n * n}\n' for n, word in enumerate('abc')]
    (folder / name).write_text(''.join(lines))
  return folder


def _start(files, *given):
  """Returns start vectors, a model, and the numbers of a text of words."""
  task = base.parse(
    agnews.TASK,
    [
      '--algo=fede_vocab',
      f'--vectors_file={files / "one.txt"}',
      f'--more_vectors_files={files / "two.txt"}',
      *given,
    ],
  ).task_settings
  index = tokens.TokenIndex(str.split)
  text = index.encode(['a b x']).row(0)
  start = vocabularies.StartVectors(task, index, 0, seed=0)
  index.number(tokens.UNKNOWN)
  return start, vocabularies.make_model(task, 1, 2, start.width), text


def test_the_unknown_row_may_start_as_the_mean_of_all_public_vectors(files):
  start, model, _ = _start(files, '--out_of_vocabulary=pretrained')
  vocabulary = tokens.Vocabulary(['b', 'x'])
  table = start.table(model, vocabulary)
  assert table[0].tolist() == [1, 1]
  np.testing.assert_allclose(table[-1], [(0 + 1 + 2) / 3, (0 + 1 + 4) / 3])
  # By default it is drawn, and nowhere near.
  drawn = _start(files)[0].table(model, vocabulary)
  np.testing.assert_array_equal(drawn[:2], table[:2])
  assert np.abs(drawn[-1] - table[-1]).max() > 0.1


def test_a_user_falls_back_on_the_vectors_that_it_started_with(files):
  start, model, text = _start(files, '--out_of_vocabulary=fallback')
  assert model.reads_vectors and not model.zero_unknown
  vocabulary = tokens.Vocabulary(['a'])
  signs = set()
  for number in range(12):
    user = f'user {number}'
    read = start.reader(vocabulary, 16, user).read([text])
    own = start.table(model, tokens.Vocabulary(['b']), user)[0]
    assert read.rows[0].tolist() == [0, 2, 1]
    np.testing.assert_array_equal(read.vectors[0], own)
    signs.add(float(own[0]))
  assert signs == {1.0, -1.0}


def test_the_last_training_may_be_that_of_the_output_layer(make_run):
  made = make_run(
    agnews.TASK, *_SMALL, '--algo=fede_vocab', '--last_training=output_layer'
  )
  bench = made.bench
  user = bench.clients('train')[0]
  parts = bench._receive(user, made.weights)
  trained = bench._train(user, made.weights, 1.0)
  *before, kernel, bias = [*parts.local, *parts.shared]
  *after, new_kernel, new_bias = [*trained.local, *trained.shared]
  for ours, theirs in zip(before, after, strict=True):
    np.testing.assert_array_equal(ours, theirs)
  assert np.abs(new_kernel - kernel).max() > 1e-4
  assert np.abs(new_bias - bias).max() > 1e-4


def test_a_received_model_has_reconstructed_rows_and_the_server_s_rest(make_run):
  given = ('--algo=fed_recon', '--reconstruction_data=half', '--client_batch_size=4')
  made = make_run(agnews.TASK, *_SMALL, *given)
  bench = made.bench
  user = bench.clients('train')[0]
  start = bench.functional.initial_weights[0][0]
  received, trained = (
    bench._receive(user, made.weights),
    bench._train(user, made.weights, 1.0),
  )
  assert np.abs(received.local[0] - start).max() > 1e-4
  np.testing.assert_array_equal(received.local[0], trained.local[0])
  for ours, server in zip(received.shared, made.weights, strict=True):
    np.testing.assert_array_equal(ours, server)
  assert np.abs(trained.shared[-1] - made.weights[-1]).max() > 1e-4
