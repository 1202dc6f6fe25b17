"""Warm start and distillation in runs: what they cost, leave, and survive."""

import itertools
import json
import pathlib

import numpy as np
import pytest

from tff_textpriv.tasks import base, stackoverflow
from tff_textpriv.training import program, runner, server_training

_TINY = (
  '--num_users=30',
  '--clients_per_round=4',
  '--vocab_size=600',
  '--max_words_per_user=150',
  '--max_eval_users=4',
  '--total_rounds=2',
  '--client_batch_size=4',
  '--rounds_per_eval=2',
  '--rounds_per_checkpoint=1',
)
_RESAMPLED = (
  '--algo=subword_resample',
  '--sample_tokens=8000',
  '--sample_max_length=24',
  '--distillation_epochs=2',
  '--server_learning_rate=0.05',
  '--accountant=rdp',  # In no time.
)
_COMPARED = (
  'metrics.csv',
  'results.json',
  'privacy_card.json',
  'tokenizers/1.model',
  'tokenizers/1_distillation.json',
)


def _run(folder: pathlib.Path, *given: str) -> int:
  argv = [
    *_TINY,
    *given,
    f'--root_output_dir={folder.parent}',
    f'--experiment_name={folder.name}',
    f'--data_dir={folder.parent / "data"}',
  ]
  return runner.run(base.parse(stackoverflow.TASK, argv))


def _json(folder: pathlib.Path, name: str) -> dict:
  return json.loads((folder / name).read_text())


def _free(folder: pathlib.Path) -> list[str]:
  ledger = _json(folder, 'privacy_card.json')['ledger']
  return [entry['name'] for entry in ledger if '0 (post' in entry['cost']]


@pytest.fixture(scope='module')
def root(tmp_path_factory) -> pathlib.Path:
  return tmp_path_factory.mktemp('server_training')


@pytest.fixture(scope='module')
def halves(root) -> pathlib.Path:
  """A run with both, which was not disturbed."""
  folder = root / 'halves'
  assert (
    _run(folder, *_RESAMPLED, '--phase_plan=half_split', '--warm_start_epochs=1') == 0
  )
  return folder


def test_a_fresh_model_is_warmed_up_and_then_distilled_at_no_cost(halves):
  assert _free(halves).count('warm start') == 1 and 'distillation' in _free(halves)
  assert _json(halves, 'results.json')['epsilon'] <= 2
  first, second = (_json(halves, f'tokenizers/{i}_warm_start.json') for i in (0, 1))
  distilled = _json(halves, 'tokenizers/1_distillation.json')
  assert first['perplexity_after'] < first['perplexity_before']
  # Distillation starts where the warm start under the new tokenizer has ended.
  assert distilled['perplexity_before'] == second['perplexity_after']
  page = (halves / 'tokenizer_lineage.md').read_text()
  assert '| 0 | warm start | public text |' in page
  assert '| 1 | distillation | text that the private model wrote |' in page


def _crash_in_second_phase():
  """Returns what trains programs, the second of which is cut off in its first round."""
  train, programs = program.train, itertools.count()

  def power_cut(users, round_number):
    raise RuntimeError('power cut')

  def failing_train(made, *rest):
    if next(programs) == 1:
      object.__setattr__(made, 'client_data', power_cut)
    return train(made, *rest)

  return failing_train


@pytest.mark.slow
@pytest.mark.parametrize('where', ['right after it', 'within it'])
def test_a_run_that_is_killed_at_the_distillation_ends_like_an_undisturbed_one(
  halves, root, monkeypatch, where
):
  folder = root / where.replace(' ', '_')
  given = (*_RESAMPLED, '--phase_plan=half_split', '--warm_start_epochs=1')
  with monkeypatch.context() as patched:
    if where == 'within it':
      patched.setattr(
        server_training, 'with_weights', lambda *_: pytest.fail('power cut')
      )
    else:
      patched.setattr(program, 'train', _crash_in_second_phase())
    with pytest.raises((RuntimeError, pytest.fail.Exception), match='power cut'):
      _run(folder, *given)
  with monkeypatch.context() as patched:
    if where == 'right after it':
      # What was done is not done again.
      patched.setattr(server_training, 'train', lambda *_, **__: pytest.fail('again'))
    assert _run(folder, *given) == 0
  for name in _COMPARED:
    assert (folder / name).read_bytes() == (halves / name).read_bytes(), name


@pytest.mark.slow
def test_a_remapped_model_is_distilled(root):
  folder = root / 'switch'
  assert _run(folder, *_RESAMPLED, '--resample_rounds=1') == 0
  effect = _json(folder, 'tokenizers/1_remap.json')
  distilled = _json(folder, 'tokenizers/1_distillation.json')
  assert distilled['perplexity_before'] == effect['perplexity_after_remap']
  assert distilled['perplexity_after'] != distilled['perplexity_before']
  assert 'warm start' not in _free(folder)
  assert not (folder / 'tokenizers' / '0_warm_start.json').exists()


def test_devices_that_keep_the_model_begin_with_the_warm_start(root):
  chosen = base.parse(
    stackoverflow.TASK,
    [*_TINY, '--algo=local_only', '--warm_start_epochs=1', f'--data_dir={root}/data'],
  )
  bench = runner.open_bench(chosen)
  drawn = bench.model.initial_weights(chosen.run.seed)
  assert all(
    np.abs(ours - theirs).max() > 0
    for ours, theirs in zip(bench._first_local, drawn, strict=True)
  )
