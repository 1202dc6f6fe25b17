"""DP-FTRL as a command: on both kinds of task, and interrupted."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv.tasks import base, imdb, stackoverflow

_ROUNDS = 6
_FLAGS = (
  '--algo=dp_ftrl',
  '--noise_multiplier=1',
  f'--total_rounds={_ROUNDS}',
  '--rounds_per_eval=3',
  '--rounds_per_checkpoint=2',
)
_TASKS = {
  'stackoverflow': (
    stackoverflow.TASK,
    ('--num_users=12', '--clients_per_round=4', '--vocab_size=300',
     '--max_tokens_per_user=120', '--max_eval_users=2'),
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


@pytest.mark.parametrize(
  ('task', 'noise'),
  [('stackoverflow', 'blt'), ('imdb', 'banded'), ('imdb', 'tree')],
)
def test_an_interrupted_run_ends_where_it_would_have(tmp_path, task, noise):
  whole, parts = tmp_path / 'whole', tmp_path / 'parts'
  flag = f'--ftrl_noise={noise}'
  assert _run(whole, task, flag) == 0
  assert _run(parts, task, flag, '--stop_after_round=3') != 0
  assert _run(parts, task, flag) == 0
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
