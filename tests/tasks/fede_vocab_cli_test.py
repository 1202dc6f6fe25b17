"""Private vocabularies and their baselines as commands."""

import contextlib
import csv
import json
import pathlib
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.tasks import agnews, base, imdb, newsgroups, sst2
from tff_textpriv.training import program

_SMALL = (
  '--num_clients=6', '--max_train_examples=120', '--max_eval_examples=60',
  '--max_eval_users=3', '--max_words=16', '--rounds_per_checkpoint=2',
)  # fmt: skip
_PLAIN = (
  '--server_optimizer=sgd', '--server_learning_rate=1', '--client_optimizer=adam',
  '--client_learning_rate=0.005',
)  # fmt: skip


def _run(task, folder, *given):
  experiment = base.parse(
    task,
    [
      *_SMALL,
      *given,
      f'--root_output_dir={folder.parent}',
      f'--experiment_name={folder.name}',
    ],
  )
  return base.run(experiment)


def _results(folder):
  return json.loads((folder / 'results.json').read_text())


def _rows(folder):
  with open(folder / 'metrics.csv', newline='') as stream:
    return list(csv.DictReader(stream))


class _Stop:
  """Stops a run before its third round."""

  signal_number = 15

  def __init__(self):
    self._looks = 0

  def __bool__(self):
    self._looks += 1
    return self._looks > 3


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  """A run of fede_vocab that was not disturbed."""
  folder = tmp_path_factory.mktemp('runs') / 'whole'
  assert _run(agnews.TASK, folder, *_FEDE_VOCAB) == 0
  return folder


_FEDE_VOCAB = ('--algo=fede_vocab', '--total_rounds=5', '--clients_per_round=4')


def _states(folder):
  """The newest state of each device."""
  return {
    device.name: max(device.glob('*.bin'), key=lambda f: int(f.stem)).read_bytes()
    for device in (folder / 'devices').iterdir()
  }


@pytest.mark.slow
@pytest.mark.parametrize('store', ['disk', 'memory'])
def test_a_killed_run_goes_on_as_if_it_had_not_been(
  tmp_path, monkeypatch, whole, store
):
  """Killed after round 3; the last checkpoint is that of round 2."""
  given = (*_FEDE_VOCAB, f'--device_store={store}')
  parts = tmp_path / 'parts'
  with monkeypatch.context() as patch:
    patch.setattr(
      program.stopping, 'stop_on_signals', lambda: contextlib.nullcontext(_Stop())
    )
    # A killed run saves no checkpoint when it ends.
    save = program.checkpoints.Checkpoints.save
    patch.setattr(
      program.checkpoints.Checkpoints,
      'save',
      lambda self, kept: save(self, kept) if kept.round_number != 3 else None,
    )
    assert _run(agnews.TASK, parts, *given) == 128 + 15
  # What users' devices keep does not stay in memory while nobody trains.
  assert not list(pathlib.Path('/dev/shm').glob(f'tff_textpriv_*{tmp_path.name}*'))
  assert _run(agnews.TASK, parts, *given) == 0
  ours, theirs = _results(parts), _results(whole)
  assert ours == theirs
  assert _states(parts) == _states(whole)


@pytest.mark.slow
def test_states_in_memory_are_tested_as_those_on_disk_and_then_gone(tmp_path, whole):
  def kept():
    return set(pathlib.Path('/dev/shm').glob('tff_textpriv_*'))

  before = kept()
  folder = tmp_path / 'memory'
  assert _run(agnews.TASK, folder, *_FEDE_VOCAB, '--device_store=memory') == 0
  assert _results(folder) == _results(whole)
  assert kept() == before


def test_nothing_outside_the_devices_holds_a_token_or_an_embedding_row(whole):
  """All that the server ever had is in the run's folder, beside `devices`."""
  server_side = b''
  for file in whole.rglob('*'):
    if file.is_file() and 'devices' not in file.parts:
      server_side += file.read_bytes()
      if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
          server_side += b''.join(archive.read(name) for name in archive.namelist())
  rows, words = _secrets(whole)
  assert len(rows) > 300 and len(words) > 100
  assert not [row for row in rows if row in server_side]
  assert not [word for word in words if word in server_side]


def _secrets(folder):
  """Rows of all tables, as bytes, and words that are nobody else's business."""
  rows, words = [], set()
  for device in (folder / 'devices').iterdir():
    for file in device.glob('*.bin'):
      parts = tf.io.parse_tensor(file.read_bytes(), tf.string)
      table = tf.io.parse_tensor(parts[0], tf.float32).numpy()
      rows += [row.tobytes() for row in table]
    for word in (device / 'vocabulary.txt').read_text().split():
      if len(word) > 6 and word.isalpha():
        words.add(word.encode())
  return rows, words


def test_the_same_look_finds_the_table_of_federated_averaging(tmp_path):
  folder = tmp_path / 'run'
  assert _run(agnews.TASK, folder, '--algo=fed_avg', '--total_rounds=1', *_PLAIN) == 0
  table = tf.keras.models.load_model(folder / 'model.keras').get_weights()[0]
  checkpoints = b''.join(
    file.read_bytes() for file in (folder / 'checkpoints').rglob('*') if file.is_file()
  )
  assert table[3].tobytes() in checkpoints
  results = _results(folder)
  for name in ('accuracy', 'global_accuracy', 'received_local_accuracy'):
    assert 0 <= results[f'test_{name}'] <= 1
  assert results['test_num_users'] == 3
  # A common vocabulary of the clients' own words: no figure could be claimed.
  card = (folder / 'privacy_card.md').read_text()
  assert 'own text' in card


def test_results_tell_the_communication(whole):
  """32 hidden units on 32-dimensional words: two LSTMs and 64 x 4 + 4 above them."""
  shared = 2 * (32 * 128 + 32 * 128 + 128) + 64 * 4 + 4
  results = _results(whole)
  # The model, and what the step size is multiplied by.
  assert results['bytes_down_per_client'] == 4 * shared + 4
  # And the number of examples (weight), whether it was left out, and five metrics.
  assert results['bytes_up_per_client'] == 4 * shared + 4 * (1 + 1 + 6)
  model = tf.keras.models.load_model(whole / 'model.keras')
  assert model.input_shape == (None, None, 32)
  assert f'{4 * shared + 32:,}' in (whole / 'report.html').read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
  ('task', 'given', 'sends'),
  [
    (sst2.TASK, ('--algo=local_only',), False),
    (newsgroups.TASK, ('--algo=lg_fedavg', '--interpolation=0.3'), True),
    (sst2.TASK, ('--algo=fed_recon',), True),
    (
      agnews.TASK,
      ('--algo=fede_vocab', '--model=encoder_tiny', '--client_optimizer=adamw',
       '--client_decay_rounds=3', '--different_init=true', '--user_words=50'),
      True,
    ),
    (sst2.TASK, ('--algo=fed_prox', *_PLAIN, '--client_decay_rounds=3'), True),
  ],
  ids=['local_only', 'lg_fedavg', 'fed_recon', 'encoder', 'fed_prox'],
)  # fmt: skip
def test_every_method_trains_and_tests_users_own_models(tmp_path, task, given, sends):
  folder = tmp_path / 'run'
  assert _run(task, folder, *given, '--total_rounds=2') == 0
  results = _results(folder)
  assert 0 <= results['test_global_accuracy'] <= 1
  assert 0 < results['test_local_accuracy'] <= 1
  # Metrics of training, eight numbers, are sent anyway.
  assert (results['bytes_up_per_client'] > 8 * 4) == sends


def test_users_who_drop_out_are_counted_and_keep_their_state(tmp_path):
  folder = tmp_path / 'run'
  assert (
    _run(
      agnews.TASK,
      folder,
      '--algo=fede_vocab',
      '--total_rounds=6',
      '--device_failure_rate=0.5',
    )
    == 0
  )
  rows = _rows(folder)
  dropped = [float(row['dropped_clients']) for row in rows]
  reported = [float(row['num_clients']) for row in rows]
  assert all(d + r == 6 for d, r in zip(dropped, reported, strict=True))
  assert 0 < sum(dropped) < 36
  assert [float(row['contributing_clients']) for row in rows] == reported


@pytest.fixture(scope='module')
def vectors(tmp_path_factory):
  """A file of vectors of every other word of the texts, and what is in it."""
  file = tmp_path_factory.mktemp('vectors') / 'vectors.txt'
  data = agnews.load(base.parse(agnews.TASK, ['--algo=fede_vocab']).task_settings, 0)
  words = sorted({word for text in data.train.texts for word in text.lower().split()})
  rng = np.random.default_rng(0)
  words = rng.permutation(words[::2]).tolist()
  table = rng.normal(size=(len(words), 5)).round(3)
  file.write_text(
    ''.join(
      f'{word} {" ".join(map(str, row))}\n'
      for word, row in zip(words, table, strict=True)
    )
  )
  return file, dict(zip(words, table, strict=True))


def test_vectors_of_a_file_are_where_tables_start_and_stand_for_words_without_rows(
  tmp_path, vectors
):
  file, vector_of = vectors
  folder = tmp_path / 'run'
  given = (
    f'--vectors_file={file}', '--public_words=7', '--clients_per_round=1',
    '--user_words=30', '--out_of_vocabulary=fallback',
  )  # fmt: skip
  assert _run(
    agnews.TASK, folder, '--algo=fede_vocab', '--total_rounds=1', *given
  ) == 0  # fmt: skip
  for device in (folder / 'devices').iterdir():
    if not (device / '0.bin').exists():
      continue
    vocabulary = (device / 'vocabulary.txt').read_text().split('\n')[:-1]
    assert set(list(vector_of)[:7]) <= set(vocabulary)
    parts = tf.io.parse_tensor((device / '0.bin').read_bytes(), tf.string)
    rows = tf.io.parse_tensor(parts[0], tf.float32).numpy()
    assert rows.shape == (len(vocabulary) + 1, 5)
    for word, row in zip(vocabulary, rows, strict=False):
      if word in vector_of:
        np.testing.assert_allclose(row, vector_of[word], rtol=1e-6)
  results = _results(folder)
  # About half of the words that are out of a vocabulary have a public vector.
  outside, unknown = results['test_oov_share'], results['test_unknown_row_share']
  assert 0.3 * outside < unknown < 0.7 * outside


@pytest.mark.slow
@pytest.mark.parametrize(
  'given',
  [
    ('--algo=fed_avg', *_PLAIN, '--out_of_vocabulary=fallback', '--vocab_size=50'),
    ('--algo=fed_recon', '--out_of_vocabulary=fallback', '--vocab_size=300',
     '--reconstruction_data=half'),
    ('--algo=local_only', '--out_of_vocabulary=pretrained', '--word_dropout=0.2'),
    ('--algo=fede_vocab', '--model=encoder_tiny', '--out_of_vocabulary=zero',
     '--local_layers=embedding_block', '--fresh_optimizer=true',
     '--client_decay_within_round=true', '--dirichlet_prior=classes'),
    ('--algo=fede_vocab', '--out_of_vocabulary=trained', '--anchor_strength=1',
     '--last_training=output_layer'),
  ],
  ids=['fallback', 'reconstruction', 'pretrained', 'protocol', 'remedies'],
)  # fmt: skip
def test_what_is_read_for_unknown_words_is_trained_and_tested(tmp_path, vectors, given):
  folder = tmp_path / 'run'
  given = (*given, f'--vectors_file={vectors[0]}', '--total_rounds=2')
  assert _run(agnews.TASK, folder, *given) == 0
  results = _results(folder)
  assert 0 < results['test_received_local_accuracy'] <= 1
  assert 0 < results['test_local_accuracy'] <= 1
  outside, unknown = results['test_oov_share'], results['test_unknown_row_share']
  assert (outside > unknown > 0) == ('--out_of_vocabulary=fallback' in given)


@pytest.mark.parametrize(
  ('task', 'given', 'error', 'message'),
  [
    (
      imdb.TASK, ('--algo=fede_vocab',), flags.UsageError, 'task imdb.*no embedding',
    ),
    (
      agnews.TASK, ('--algo=fede_vocab', '--model=logistic'),
      settings_lib.IncompatibleSettingsError, 'leaves an embedding',
    ),
    (
      agnews.TASK, ('--algo=fede_vocab', '--model_selection=best_validation'),
      settings_lib.IncompatibleSettingsError, 'model_selection=last',
    ),
    (
      agnews.TASK, ('--algo=dp_fed_avg', '--noise_multiplier=1'),
      settings_lib.IncompatibleSettingsError, 'vocabulary is made of the clients',
    ),
    (
      agnews.TASK, ('--algo=fed_avg', '--model=encoder_checkpoint'),
      settings_lib.SettingsError, '--checkpoint',
    ),
    (
      agnews.TASK, ('--algo=fed_avg', '--representation=word2vec'),
      settings_lib.SettingsError, 'in their order',
    ),
    (
      agnews.TASK, ('--algo=fede_vocab', '--out_of_vocabulary=fallback'),
      settings_lib.SettingsError, 'needs public vectors: --vectors_file',
    ),
    (
      agnews.TASK,
      ('--algo=fed_avg', '--model=encoder_tiny', '--out_of_vocabulary=pretrained',
       '--vectors_file=a.txt'),
      settings_lib.SettingsError, 'needs public vectors.*--checkpoint',
    ),
    (
      agnews.TASK,
      ('--algo=fed_avg', '--out_of_vocabulary=trained', '--word_dropout=0'),
      settings_lib.SettingsError, '--word_dropout=0.0: must be more',
    ),
    (
      agnews.TASK,
      ('--algo=fed_avg', '--out_of_vocabulary=zero', '--model=logistic'),
      settings_lib.SettingsError, 'logistic has no vocabulary',
    ),
    (
      agnews.TASK, ('--algo=fed_avg', '--dropout_rate=0.1'),
      flags.UsageError, 'it is called --device_failure_rate now',
    ),
    (
      agnews.TASK, ('--algo=fede_vocab', '--model=encoder_tiny', '--max_words=300'),
      settings_lib.SettingsError, '256 positions',
    ),
  ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(tmp_path, task, given, error, message):
  small = [] if task is imdb.TASK else _SMALL
  with pytest.raises(error, match=message):
    base.run(base.parse(task, [*small, *given, f'--root_output_dir={tmp_path}']))
