"""The command with `--algo=rr_ldp`: what it says of privacy, what it sends, and its seeds."""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv import randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import embedded_labelled
from tff_textpriv.privacy import randomized_response
from tff_textpriv.runtime import cohorts
from tff_textpriv.tasks import base, imdb, stackoverflow
from tff_textpriv.training import phases, runner

_TINY = (
  '--algo=rr_ldp',
  '--num_users=12',
  '--clients_per_round=4',
  '--vocab_size=300',
  '--max_words_per_user=200',
  '--max_eval_users=3',
  '--total_rounds=3',
  '--rounds_per_eval=3',
)


def _run(folder, *given: str) -> int:
  where = (
    f'--root_output_dir={folder.parent}',
    f'--experiment_name={folder.name}',
    f'--data_dir={folder.parent / "data"}',
  )
  return runner.run(base.parse(stackoverflow.TASK, [*_TINY, *given, *where]))


def _weights(folder) -> list[np.ndarray]:
  return tf.keras.models.load_model(folder / 'model.keras').get_weights()


@pytest.fixture(scope='module')
def run(tmp_path_factory):
  folder = tmp_path_factory.mktemp('runs') / 'sampled'
  assert _run(folder, '--coordinates_per_client=50') == 0
  return folder


def test_the_card_claims_the_figure_of_the_user_with_most_rounds(run):
  card = json.loads((run / 'privacy_card.json').read_text())
  users = [
    user
    for number in (1, 2, 3)
    for user in cohorts.CohortSampler(
      [f'user {i}' for i in range(12)],
      4,
      'poisson',
      randomness.Stream.of_seed(0).child('users', ''),
    ).cohort(number)
  ]
  most = max(users.count(user) for user in users)
  expected = randomized_response.composed_epsilon(1.0, 50 * most, 1e-6)
  assert card['epsilon'] == expected
  assert card['plan']['users_who_took_part'] == len(set(users))
  (entry,) = [each for each in card['ledger'] if each['name'] == 'training reports']
  assert (entry['kind'], entry['count']) == ('local', most)
  assert 'one coordinate in one round only' in card['headline']
  results = json.loads((run / 'results.json').read_text())
  assert results['epsilon'] == expected


def test_a_message_is_as_long_as_its_bits(run):
  with open(run / 'metrics.csv', newline='') as file:
    rows = list(csv.DictReader(file))
  # 50 bits and a seed of 16 bytes; nothing else is told.
  assert {float(row['bytes_per_client']) for row in rows} == {7 + 16}
  assert not {'left_out_clients', 'train_loss', 'num_examples'} & rows[0].keys()


@pytest.mark.slow
def test_on_two_workers_and_in_a_run_of_its_own_the_model_is_the_same(run):
  again = run.parent / 'again'
  assert _run(again, '--coordinates_per_client=50', '--num_workers=2') == 0
  for ours, theirs in zip(_weights(again), _weights(run), strict=True):
    np.testing.assert_array_equal(ours, theirs)
  other = run.parent / 'other'
  assert _run(other, '--coordinates_per_client=51') == 0
  assert any(
    (ours != theirs).any()
    for ours, theirs in zip(_weights(other), _weights(run), strict=True)
  )


def test_more_coordinates_than_the_model_has_are_refused_and_no_folder_is_left(run):
  folder = run.parent / 'refused'
  with pytest.raises(settings_lib.SettingsError, match='coordinates_per_client'):
    _run(folder, '--coordinates_per_client=100000000')
  assert not (folder / 'config.json').exists()


def test_the_mechanism_is_made_for_the_size_of_the_model():
  experiment = base.parse(stackoverflow.TASK, [*_TINY, '--epsilon_per_coordinate=0.5'])
  (phase,) = phases.lay_out(experiment, ['a', 'b', 'c', 'd'])
  plan = phase.mechanism(experiment, 1000)
  assert (plan.epsilon, plan.num_coordinates, plan.num_reported) == (0.5, 1000, 1000)
  assert plan.bound == experiment.algorithm_settings.client_learning_rate


_ONE_REVIEW_EACH = (
  '--algo=rr_ldp',
  '--federation=examples',
  '--max_train_examples=60',
  '--clients_per_round=12',
  '--cohort_sampling=separated',
  '--client_optimizer=sgd',
  '--client_learning_rate=0.1',
  '--rounds_per_eval=3',
  '--target_epsilon=4',
)


@pytest.fixture(scope='module')
def vectors(tmp_path_factory):
  """A file of word vectors of six numbers, of the words of the embedded reviews."""
  rng = np.random.default_rng(0)
  texts = embedded_labelled.reviews(0).train.texts
  words = sorted({word for text in texts for word in text.lower().split()})
  file = tmp_path_factory.mktemp('vectors') / 'vectors.txt'
  lines = [f'{word} ' + ' '.join(map(str, rng.normal(size=6))) for word in words]
  file.write_text('\n'.join(lines) + '\n')
  return f'--vectors_file={file}'


def _of_reviews(folder, *given):
  where = (f'--root_output_dir={folder.parent}', f'--experiment_name={folder.name}')
  assert runner.run(base.parse(imdb.TASK, [*_ONE_REVIEW_EACH, *given, *where])) == 0
  read = (folder / name for name in ('results.json', 'privacy_card.json'))
  return [json.loads(file.read_text()) for file in read]


@pytest.mark.parametrize('mechanism', ['default', 'priv_unit', 'sqkr'])
def test_writers_of_one_review_report_once_on_word_vectors_and_spend_the_total(
  tmp_path, capsys, mechanism, vectors
):
  kind = 'vectors' if mechanism == 'default' else 'weighed_vectors'
  given = (f'--mechanism={mechanism}', f'--representation={kind}', vectors)
  results, card = _of_reviews(tmp_path / 'run', *given, '--total_rounds=4')
  # Many rounds, and nobody has been in two of them.
  assert (results['ended'], results['rounds']) == ('finished', 4)
  assert 3.99 < card['epsilon'] <= 4
  (row,) = {tuple(user['rounds'].split(': ')[1:]) for user in card['plan']['by_user']}
  assert row == ('1',)
  assert 24 < card['plan']['users_who_took_part'] <= 60
  said = capsys.readouterr().out
  assert 'of 1 to 1 examples (examples)' in said
  assert 'is the total of a user over the whole run, in 1 rounds at most' in said
  assert 'whoever wrote one example' in said
  # Six numbers of a text, and a bias.
  assert sum(weight.size for weight in _weights(tmp_path / 'run')) == 7


def test_who_comes_back_has_half_of_the_total_each_time(tmp_path):
  folder = tmp_path / 'run'
  results, card = _of_reviews(folder, '--hash_buckets=50', '--total_rounds=7')
  # Users come back after four rounds or five.
  assert results['ended'] == 'finished'
  assert card['plan']['by_user'][-1]['rounds'] == 'most: 2'
  assert card['plan']['coordinates_per_client'] == 1
  assert 3.99 < card['epsilon'] <= 4
