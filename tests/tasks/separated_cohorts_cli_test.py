"""Promises without random cohorts as commands: on both kinds of task, and interrupted."""

import json

import dp_accounting
import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv.tasks import base, imdb, stackoverflow

_ROUNDS = 6
_FLAGS = (
  '--noise_multiplier=1',
  f'--total_rounds={_ROUNDS}',
  '--rounds_per_eval=3',
  '--rounds_per_checkpoint=2',
)
_TASKS = {
  'stackoverflow': (
    stackoverflow.TASK,
    ('--num_users=12', '--clients_per_round=4', '--vocab_size=300',
     '--max_words_per_user=120', '--max_eval_users=2'),
  ),
  'imdb': (
    imdb.TASK,
    ('--num_clients=9', '--clients_per_round=3', '--max_train_examples=60',
     '--hash_buckets=50'),
  ),
}  # fmt: skip


def _run(folder, name, *given):
  task, flags = _TASKS[name]
  where = [f'--root_output_dir={folder.parent}', f'--experiment_name={folder.name}']
  if name == 'stackoverflow':  # Its encoded text is cached.
    where.append(f'--data_dir={folder.parent / "data"}')
  return base.run(base.parse(task, [*_FLAGS, *flags, *given, *where]))


def _weights(folder):
  return tf.keras.models.load_model(folder / 'model.keras', compile=False).get_weights()


_FTRL = '--algo=dp_ftrl'
_DISTRIBUTED = ('--algo=dp_fed_avg', '--mechanism=distributed')


@pytest.mark.parametrize(
  ('task', 'flags'),
  [
    pytest.param('stackoverflow', (_FTRL, '--ftrl_noise=blt'), marks=pytest.mark.slow),
    ('imdb', (_FTRL, '--ftrl_noise=blt')),
    *(
      pytest.param('imdb', (_FTRL, f'--ftrl_noise={noise}'), marks=pytest.mark.slow)
      for noise in ('banded', 'tree')
    ),
    pytest.param('stackoverflow', _DISTRIBUTED, marks=pytest.mark.slow),
    pytest.param(
      'imdb',
      (*_DISTRIBUTED, '--device_noise=skellam', '--modular_bits=16'),
      marks=pytest.mark.slow,
    ),
  ],
)
def test_an_interrupted_run_ends_where_it_would_have(tmp_path, task, flags):
  whole, parts = tmp_path / 'whole', tmp_path / 'parts'
  assert _run(whole, task, *flags) == 0
  assert _run(parts, task, *flags, '--stop_after_round=3') != 0
  assert _run(parts, task, *flags) == 0
  for name in ('metrics.csv', 'privacy_card.json', 'config.json', 'results.json'):
    assert (parts / name).read_bytes() == (whole / name).read_bytes(), name
  for ours, theirs in zip(_weights(parts), _weights(whole), strict=True):
    np.testing.assert_array_equal(ours, theirs)
  card = json.loads((whole / 'privacy_card.json').read_text())
  assert card['formal_guarantee']
  assert card['plan']['participations'] == -(-_ROUNDS // card['plan']['separation'])
  assert json.loads((whole / 'config.json').read_text())['cohort_sampling'] == (
    'separated'
  )


def test_under_distributed_noise_devices_send_nothing_but_what_is_covered(tmp_path):
  folder = tmp_path / 'run'
  assert _run(folder, 'imdb', *_DISTRIBUTED, '--noise_source=system') == 0
  card = json.loads((folder / 'privacy_card.json').read_text())
  sent = {item['name']: item for item in card['leaves_device']}
  assert set(sent) == {'update', 'present'}
  assert all(item['covered'] for item in sent.values())
  assert sent['update']['bytes'] == 4 * 64  # 51 weights, as 64 whole numbers.
  assert card['of_this_model']
  assert 'is_abandoned' in (folder / 'metrics.csv').read_text().splitlines()[0]


def test_users_drawn_from_slots_are_accounted_as_that(tmp_path):
  folder = tmp_path / 'slots'
  flags = (_FTRL, '--ftrl_noise=banded', '--ftrl_bands=2')
  drawn = '--cohort_sampling=banded_poisson'
  assert _run(folder, 'imdb', *flags, drawn) == 0
  card = json.loads((folder / 'privacy_card.json').read_text())
  plan = card['plan']
  assert (plan['sampling'], plan['separation']) == ('banded_poisson', 2)
  # Three of nine users in a round are six of nine in two, from one of two slots.
  sampled = dp_accounting.PoissonSampledDpEvent(
    2 * plan['accounted_cohort'] / plan['accounted_population'],
    dp_accounting.GaussianDpEvent(1.0),
  )
  theirs = dp_accounting.pld.PLDAccountant()
  theirs.compose(dp_accounting.SelfComposedDpEvent(sampled, _ROUNDS // 2))
  assert card['epsilon'] == pytest.approx(theirs.get_epsilon(card['delta']), rel=1e-3)
  config = json.loads((folder / 'config.json').read_text())
  assert config['cohort_sampling'] == 'banded_poisson'
