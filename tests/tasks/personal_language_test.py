"""Language models of which users keep something: their own part, or a control variate."""

import json
import math

import pytest

from tff_textpriv import settings as settings_lib
from tff_textpriv.tasks import base, stackoverflow
from tff_textpriv.training import language_modeling, phases, runner

_TINY = (
  '--num_users=12',
  '--clients_per_round=4',
  '--cohort_sampling=fixed',
  '--vocab_size=300',
  '--max_words_per_user=200',
  '--max_eval_users=3',
  '--total_rounds=3',
  '--rounds_per_eval=3',
  '--rounds_per_checkpoint=2',
)
_SIGINT_CODE = 130


def _run(folder, *given: str) -> int:
  where = (
    f'--root_output_dir={folder.parent}',
    f'--experiment_name={folder.name}',
    f'--data_dir={folder.parent / "data"}',
  )
  return runner.run(base.parse(stackoverflow.TASK, [*_TINY, *given, *where]))


def _json(file):
  return json.loads(file.read_text())


@pytest.mark.parametrize(
  ('given', 'has_model', 'sends_update'),
  [
    (('--algo=local_only',), False, False),
    pytest.param(
      ('--algo=lg_fedavg', '--tied_embeddings=false'),
      False,
      True,
      marks=pytest.mark.slow,
    ),
    pytest.param(
      ('--algo=scaffold', '--own_test_share=0.3'),
      True,
      True,
      marks=pytest.mark.slow,
    ),
  ],
  ids=['local_only', 'lg_fedavg', 'scaffold'],
)
def test_it_trains_stops_goes_on_and_says_what_users_have(
  tmp_path, given, has_model, sends_update
):
  whole, stopped = tmp_path / 'whole', tmp_path / 'stopped'
  assert _run(whole, *given) == 0
  assert _run(stopped, *given, '--stop_after_round=1') == _SIGINT_CODE
  assert not (stopped / 'results.json').exists()
  assert _run(stopped, *given) == 0
  for name in ('metrics.csv', 'results.json', 'privacy_card.json'):
    assert (whole / name).read_bytes() == (stopped / name).read_bytes()
  results = _json(whole / 'results.json')
  received = results['test_received_local_word_perplexity']
  trained = results['test_local_word_perplexity']
  # One more round of training on a user's own posts helps on the user's own posts.
  assert 1 < trained < received < math.inf
  assert ('test_word_perplexity' in results) == has_model
  assert (whole / 'model.keras').exists() == has_model
  assert any((whole / 'devices').iterdir())
  leaves_device = _json(whole / 'privacy_card.json')['leaves_device']
  sizes = {item['name']: item['bytes'] for item in leaves_device}
  assert {'loss', 'num_tokens'} <= sizes.keys()
  # What is left of an update without shared weights has no bytes.
  assert (sizes.get('update', 0) > 0) == sends_update


def test_posts_that_are_held_out_are_not_trained_on(tmp_path):
  def num_targets(share):
    given = ('--algo=fed_avg', f'--own_test_share={share}', f'--data_dir={tmp_path}')
    chosen = base.parse(stackoverflow.TASK, [*_TINY, *given])
    course = language_modeling.LanguageModeling(chosen)
    (phase,) = phases.lay_out(chosen, course.users)
    bench = course.make_bench(phase, None, tmp_path)
    batches = bench.batches(course.users[0], 1)
    return sum(int((targets > 0).sum()) for _, targets in batches)

  assert 0 < num_targets(0.5) < 0.8 * num_targets(0)


def test_an_output_layer_inside_the_local_embedding_cannot_be_shared(tmp_path):
  with pytest.raises(settings_lib.SettingsError, match='--tied_embeddings=false'):
    _run(tmp_path / 'tied', '--algo=lg_fedavg')
  assert not (tmp_path / 'tied' / 'config.json').exists()
