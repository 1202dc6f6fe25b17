"""The classification tasks as commands: what they write, and that they resume."""

import csv
import json
import re

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv import flags
from tff_textpriv.settings import IncompatibleSettingsError, SettingsError
from tff_textpriv.tasks import base, imdb, movielens
from tff_textpriv.training import program

_ADAM = ('--client_optimizer=adam', '--client_learning_rate=0.01')
_PLAIN = (*_ADAM, '--server_optimizer=sgd', '--server_learning_rate=1')


def _run(task, folder, *given):
  experiment = base.parse(
    task,
    [*given, f'--root_output_dir={folder.parent}', f'--experiment_name={folder.name}'],
  )
  return base.run(experiment)


def _results(folder):
  return json.loads((folder / 'results.json').read_text())


def _rows(folder):
  with open(folder / 'metrics.csv', newline='') as stream:
    return list(csv.DictReader(stream))


@pytest.mark.parametrize(
  ('task', 'bound'),
  [
    pytest.param(imdb.TASK, 0.85, id='imdb'),
    pytest.param(movielens.TASK, 0.65, id='movielens', marks=pytest.mark.slow),
  ],
)
def test_central_training_learns_the_embedded_twin_and_writes_everything(
  task, bound, tmp_path
):
  folder = tmp_path / 'run'
  assert _run(task, folder, '--algo=central', '--total_rounds=6') == 0
  assert _results(folder)['test_auc'] > bound
  assert _results(folder)['epsilon'] is None
  assert 'No formal guarantee' in (folder / 'privacy_card.md').read_text()
  rows = _rows(folder)
  assert [row['round'] for row in rows] == ['1', '2', '3', '4', '5', '6']
  assert float(rows[4]['validation_auc']) > 0.5 and rows[3]['validation_auc'] == ''
  model = tf.keras.models.load_model(folder / 'model.keras')
  assert [output.shape[-1] for output in model.outputs] == [1]


@pytest.mark.slow
def test_a_federated_run_that_is_stopped_goes_on_as_if_it_had_not(
  tmp_path, monkeypatch
):
  given = (
    '--algo=fed_avg', '--num_clients=6', '--model=network', '--hash_buckets=200',
    '--updates_per_epoch=2', '--total_rounds=4', '--rounds_per_checkpoint=1', *_PLAIN,
  )  # fmt: skip
  whole, parts = tmp_path / 'whole', tmp_path / 'parts'
  assert _run(imdb.TASK, whole, *given) == 0
  train = program.train

  def stopped(given_program, *arguments):
    class Stop:
      signal_number = 15

      def __init__(self):
        self._looks = 0

      def __bool__(self):
        self._looks += 1
        return self._looks > 2

    import contextlib

    with monkeypatch.context() as patch:
      patch.setattr(
        program.stopping, 'stop_on_signals', lambda: contextlib.nullcontext(Stop())
      )
      return train(given_program, *arguments)

  with monkeypatch.context() as patch:
    patch.setattr(program, 'train', stopped)
    assert _run(imdb.TASK, parts, *given) == 128 + 15
  assert not (parts / 'results.json').exists()
  assert _run(imdb.TASK, parts, *given) == 0
  assert _results(whole) == _results(parts)
  weights = [
    tf.keras.models.load_model(folder / 'model.keras').get_weights()
    for folder in (whole, parts)
  ]
  for a, b in zip(*weights, strict=True):
    np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_ratings_stay_with_their_users_and_words_have_an_order(tmp_path, capsys):
  folder = tmp_path / 'run'
  assert (
    _run(
      movielens.TASK, folder, '--algo=fed_avg', '--federation=users', '--num_clients=12',
      '--clients_per_round=5', '--representation=hash_words', '--max_words=8',
      '--embedding_size=6', '--model=lstm_network', '--hash_buckets=100',
      '--total_rounds=2', *_PLAIN,
    )
    == 0
  )  # fmt: skip
  said = capsys.readouterr().out
  (clients,) = re.findall(r'clients   (\d+) of 40 to 40 examples \(users\)', said)
  assert 6 <= int(clients) <= 18  # About 12, each kept by itself.
  assert 'rounds    2 of 5 clients, fixed sampling' in said
  assert {row['num_clients'] for row in _rows(folder)} == {'5'}


def test_dp_fed_avg_claims_its_epsilon_on_a_classification_task(tmp_path):
  folder = tmp_path / 'run'
  given = (
    '--algo=dp_fed_avg', '--num_clients=8', '--noise_multiplier=2', '--total_rounds=2',
    '--hash_buckets=100', '--federation=dirichlet', *_PLAIN,
  )  # fmt: skip
  assert _run(imdb.TASK, folder, *given) == 0
  assert _results(folder)['epsilon'] > 0
  # Its clients are no people, and the card does not leave that open.
  (note,) = json.loads((folder / 'privacy_card.json').read_text())['warnings'][-1:]
  assert '--federation=dirichlet' in note and 'promises nothing to a person' in note
  assert movielens.MovieLensSettings(federation='users').user_note is None


@pytest.mark.slow
def test_the_number_of_updates_does_not_change_with_the_number_of_clients(
  monkeypatch, tmp_path
):
  seen = {}

  class _Stop(Exception):
    pass

  def look(given_program, *_):
    ids = given_program.sampler.cohort(1)
    cohort = given_program.client_data(ids, 1)
    seen[len(ids)] = {len(batches) for batches in cohort}
    raise _Stop

  monkeypatch.setattr(program, 'train', look)
  for num_clients in (5, 50):
    given = ('--algo=fed_sgd', f'--num_clients={num_clients}', '--updates_per_epoch=4')
    with pytest.raises(_Stop):
      _run(imdb.TASK, tmp_path / str(num_clients), *given)
  assert seen == {5: {4}, 50: {4}}


def test_an_algorithm_for_language_models_is_refused():
  with pytest.raises(
    flags.UsageError, match='classification; central, .*rr_ldp, scaffold do'
  ):
    base.parse(imdb.TASK, ['--algo=subword_resample'])


def test_a_vocabulary_from_clients_text_is_no_basis_for_a_privacy_claim(tmp_path):
  given = ('--algo=rr_ldp', '--representation=term_frequency')
  with pytest.raises(IncompatibleSettingsError, match='--privacy_claim=false'):
    _run(imdb.TASK, tmp_path / 'run', *given)


def test_averaged_vectors_need_a_file(tmp_path):
  with pytest.raises(SettingsError, match='--vectors_file'):
    _run(imdb.TASK, tmp_path / 'run', '--algo=central', '--representation=vectors')


def test_users_are_a_federation_of_movielens_alone():
  with pytest.raises(SettingsError, match='--federation=users'):
    base.parse(imdb.TASK, ['--algo=fed_avg', '--federation=users'])


def test_more_clients_a_round_than_there_are_is_refused(tmp_path):
  given = ('--algo=fed_avg', '--num_clients=5', '--clients_per_round=6')
  with pytest.raises(ValueError, match='only 5'):
    _run(imdb.TASK, tmp_path / 'run', *given)
  assert not (tmp_path / 'run' / 'config.json').exists()
