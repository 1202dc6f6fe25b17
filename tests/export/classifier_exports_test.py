"""Classifiers that read raw text say what the trained ones say of encoded text."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv.datasets import embedded_labelled, plain_text
from tff_textpriv.export import runs
from tff_textpriv.models import classifiers
from tff_textpriv.tasks import agnews, imdb, movielens
from tff_textpriv.text import ragged, representations, tokens, whitening
from tff_textpriv.training import classifier_texts, classifier_workbench, vocabularies

_CENTRAL = ('--algo=central', '--max_train_examples=200')
_HASHED = (*_CENTRAL, '--hash_buckets=300')
_BAGS = {
  'hash': _HASHED,
  'hash in a network with LSTM': (*_HASHED, '--model=lstm_network'),
  'hashed words': (*_HASHED, '--representation=hash_words', '--max_words=7'),
  'hashed words in a network with LSTM': (
    *_HASHED,
    '--representation=hash_words',
    '--model=lstm_network',
  ),
  'counts': (*_CENTRAL, '--representation=term_frequency', '--vocab_size=100'),
  'vectors': (*_CENTRAL, '--representation=word2vec', '--embedding_size=10'),
  'vectors of all text': (
    *_CENTRAL,
    '--representation=word2vec',
    '--embedding_size=10',
    '--word2vec_text=all',
    '--word2vec_epochs=2',
  ),
}
_SEQUENCES = {
  'bilstm': (*_CENTRAL, '--max_words=9'),
  'encoder': (*_CENTRAL, '--model=encoder_tiny', '--max_words=9'),
  'encoder of few words': (
    *_CENTRAL,
    '--model=encoder_tiny',
    '--vocab_size=10',
    '--max_words=256',
  ),
}
_ODD = ['', ' \u2028', 'Ünïcode Kelvin ＡＢＣ 123 don’t', 'x' * 300]


def _texts(made):
  data = made.experiment.task.load(made.experiment.task_settings, 0)
  return [*data.test.texts[:20], *_ODD]


def _answers(model, texts, *dense):
  answer = model.classify(tf.constant(texts), *dense)
  names = answer['classes'].numpy().tolist()
  assert answer['label'].numpy().tolist() == [
    names[best] for best in answer['probabilities'].numpy().argmax(axis=1)
  ]
  return answer['probabilities'].numpy()


def _probabilities(made, ids, pad_id, dense):
  inputs = classifiers.Inputs(
    tf.constant(ids.padded(np.arange(ids.num_rows), pad_id)), tf.constant(dense)
  )
  logits = made.bench.model.logits(made.weights, inputs).numpy()
  if logits.shape[1] == 1:
    logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
  return tf.nn.softmax(logits).numpy()


@pytest.mark.parametrize(
  'kind',
  [
    pytest.param(kind, marks=pytest.mark.slow if 'LSTM' in kind else ())
    for kind in _BAGS
  ],
)
def test_hashes_counts_and_vectors_are_those_of_training(make_run, kind):
  _check_answers(make_run(imdb.TASK, *_BAGS[kind]))


def test_whitened_vectors_and_their_length_are_those_of_training(make_run, tmp_path):
  rng = np.random.default_rng(0)
  texts = embedded_labelled.reviews(0).train.texts
  words = sorted({word for text in texts for word in text.lower().split()})
  file, public = tmp_path / 'vectors.txt', tmp_path / 'public.txt'
  lines = [f'{word} ' + ' '.join(map(str, rng.normal(size=6))) for word in words]
  file.write_text('\n'.join(lines) + '\n')
  documents = [' '.join(rng.choice(words, 60)) for _ in range(30)]
  public.write_text('\n'.join(documents) + '\n')
  flags = (f'--vectors_file={file}', f'--whitening_text={public}')
  made = make_run(imdb.TASK, *_CENTRAL, '--representation=weighed_vectors', *flags)
  _check_answers(made)
  read = representations.read_vectors(file)
  how = whitening.by_documents(read, plain_text.read_lines(str(public)))
  encoded = whitening.WhitenedVectors(read, how).encode(texts[:9]).dense
  exported = made.run.encoder()(tf.constant(texts[:9]))['dense'].numpy()
  np.testing.assert_allclose(exported, encoded, atol=1e-5)
  # The vectors are where they were; what is kept is small.
  assert not (made.run.folder / 'vectors.txt').exists()


def _check_answers(made):
  """Compares probabilities for raw text with those for text that training encodes."""
  texts = _texts(made)
  data = imdb.TASK.load(made.experiment.task_settings, 0)
  kept = classifier_workbench.kept_examples(data.train, 200, 0)
  representation = classifier_texts.make(
    made.experiment.task_settings, kept, 0, (data.validation, data.test)
  )
  ids, dense = representation.encode(texts)
  expected = _probabilities(made, ids, representation.num_ids, dense)
  assert expected.std(axis=0).min() > 0.01
  np.testing.assert_allclose(
    _answers(made.run.text_model(1), texts), expected, atol=1e-5
  )


@pytest.mark.parametrize('kind', list(_SEQUENCES))
def test_words_and_marks_are_those_of_training(make_run, kind):
  made = make_run(agnews.TASK, *_SEQUENCES[kind])
  texts = _texts(made)
  split = vocabularies.splitter(made.experiment.task_settings)
  number = {token: row for row, token in enumerate(made.run.vocabulary)}
  rows = [[number.get(token, len(number)) for token in split(text)] for text in texts]
  ids = ragged.RaggedIds.from_rows(rows)
  assert made.bench.model.num_ids == len(number) + 1
  expected = _probabilities(made, ids, len(number) + 1, np.zeros((len(rows), 0)))
  model = made.run.text_model(1)
  np.testing.assert_allclose(_answers(model, texts), expected, atol=1e-5)
  names = model.classify(['a'])['classes'].numpy().tolist()
  assert [name.decode() for name in names] == list(made.bench._classes)


def test_side_features_are_a_second_input(make_run):
  made = make_run(movielens.TASK, *_HASHED)
  examples = movielens.TASK.load(made.experiment.task_settings, 0).test
  texts = [examples.texts[number] for number in examples.text_of[:10]]
  dense = examples.dense[:10]
  model = made.run.text_model(1)
  found = _answers(model, texts, tf.constant(dense))
  other = _answers(model, texts, tf.constant(dense + 1))
  assert np.abs(found - other).max() > 0.01
  evaluated = made.bench._examples['test'].batch(np.arange(10))[0]
  logits = made.bench.model.logits(
    made.weights, classifiers.Inputs(evaluated['ids'], evaluated['dense'])
  )
  np.testing.assert_allclose(found[:, 1], tf.sigmoid(logits)[:, 0], atol=1e-5)


def test_without_a_table_there_is_nothing_that_reads_text(make_run):
  run = make_run(agnews.TASK, '--algo=fede_vocab', '--max_train_examples=200').run
  assert not (run.folder / 'vocabulary.txt').exists()
  with pytest.raises(runs.ExportError, match='stay on the users’ devices'):
    run.text_model(1)


def test_private_tokens_are_as_they_start(make_run):
  given = ('--algo=fed_recon', '--max_train_examples=200')
  made = make_run(agnews.TASK, *given)
  table = made.run.keras_model.get_weights()[0]
  is_private = [tokens.has_digit(token) for token in made.run.vocabulary]
  assert any(is_private)
  start = made.bench.functional.initial_weights[0][0]
  np.testing.assert_array_equal(table[: sum(is_private)], start)


@pytest.mark.parametrize(
  ('missing', 'message'),
  [
    ('config.json', 'there is no run here'),
    ('results.json', 'has not ended'),
    ('model.keras', 'every user keeps its own'),
    ('model.json', 'repeat the command'),
  ],
)
def test_what_is_missing_is_named(make_run, tmp_path, missing, message):
  folder = tmp_path / 'run'
  shutil.copytree(make_run(imdb.TASK, *_HASHED).folder, folder)
  (folder / missing).unlink()
  with pytest.raises(runs.ExportError, match=message):
    runs.read(str(folder))


def test_a_damaged_description_is_named(make_run, tmp_path):
  for name in ('config.json', 'results.json', 'model.keras'):
    (tmp_path / name).write_text('{"algo": "central", "task": "imdb"}')
  (tmp_path / 'model.json').write_text(json.dumps({'kind': 'classification'}))
  with pytest.raises(runs.ExportError, match='model.json: .*classes'):
    runs.read(str(tmp_path))
