"""Arms that share a beginning: trained once, and equal to arms trained from the start."""

import json

import numpy as np
import pytest

from tff_textpriv import files, run_folder
from tff_textpriv.models import saved_models
from tff_textpriv.tasks import base
from tff_textpriv.tools import study

_STUDY = """
based_on = 'subword'
title = 'When to change the tokenizer'
question = 'When?'

[plot]
metric = 'word_perplexity'
kind = 'rounds'

[[arms]]
label = 'early'
use = ['sample']
flags.resample_rounds = [3]
{branch}

[[arms]]
label = 'late'
use = ['sample']
flags.resample_rounds = [4]
"""
_TINY = (
  '--num_users=30',
  '--clients_per_round=4',
  '--vocab_size=700',
  '--max_words_per_user=200',
  '--max_eval_users=4',
  '--total_rounds=5',
  '--client_batch_size=4',
  '--rounds_per_eval=2',
  '--sample_tokens=8000',
  '--sample_max_length=24',
)


@pytest.fixture(scope='module')
def run_study(tmp_path_factory):
  """Returns what runs the study with a line on branching; the same one only once."""
  root = tmp_path_factory.mktemp('branches')
  made = {}

  def run(name, branch=''):
    if name not in made:
      file = root / name / 'switches.toml'
      files.write_atomically(file, _STUDY.replace('{branch}', branch))
      trained = []
      real = base.run

      def counted(experiment):
        before = run_folder.last_round(experiment.folder)
        code = real(experiment)
        trained.append(run_folder.last_round(experiment.folder) - before)
        return code

      with pytest.MonkeyPatch.context() as patched:
        patched.setattr(base, 'run', counted)
        given = [f'--study={file}', f'--study_dir={root / name}', *_TINY]
        assert study.main([*given, f'--data_dir={root / "data"}']) == 0
      made[name] = root / name / 'switches_stackoverflow', sum(trained)
    return made[name]

  return run


def _contents(folder):
  """Returns what a run has learnt and measured."""
  weights = saved_models.read(folder / 'model.keras').get_weights()
  return [
    (folder / 'metrics.csv').read_bytes(),
    (folder / 'config.json').read_bytes(),
    (folder / 'results.json').read_bytes(),
    (folder / 'privacy_card.json').read_bytes(),
    *(np.asarray(weight).tobytes() for weight in weights),
  ]


@pytest.mark.slow
def test_a_branch_is_byte_for_byte_the_run_that_was_trained_from_the_start(run_study):
  scratch, rounds = run_study('scratch')
  branched, fewer = run_study('branched', "branch_from = 'late'\nat_round = 2")
  for arm in ('early', 'late'):
    assert _contents(branched / arm) == _contents(scratch / arm)
  assert (rounds, fewer) == (10, 8)  # Two rounds are trained once.


@pytest.mark.slow
def test_a_branch_at_its_own_switch_would_be_noticed(run_study):
  # The twin: the last round of a phase is evaluated, which the other run has not done.
  scratch, _ = run_study('scratch')
  late, _ = run_study('late', "branch_from = 'late'\nat_round = 3")
  assert (late / 'early/metrics.csv').read_bytes() != (
    scratch / 'early/metrics.csv'
  ).read_bytes()


def test_arms_without_a_common_round_are_trained_from_the_start(runs, tmp_path):
  file = tmp_path / 'switches.toml'
  file.write_text(_STUDY.replace('{branch}', "branch_from = 'late'\nat_round = 0"))
  assert study.main([f'--study={file}', f'--study_dir={tmp_path}']) == 0
  assert [run.folder.name for run in runs] == ['early', 'late']


def test_a_run_that_has_passed_the_branch_is_left_alone(runs, tmp_path):
  file = tmp_path / 'switches.toml'
  file.write_text(_STUDY.replace('{branch}', "branch_from = 'late'\nat_round = 2"))
  folder = tmp_path / 'switches_stackoverflow' / 'late'
  folder.mkdir(parents=True)
  (folder / 'metrics.csv').write_text('round\n1\n2\n3\n')
  assert study.main([f'--study={file}', f'--study_dir={tmp_path}']) == 0
  # Nothing was copied: the stand-in would have left the trunk's rounds there.
  assert len(runs) == 2
  assert not (folder.parent / '.branch.early').exists()


@pytest.fixture
def stopped(tmp_path):
  """The folder of a run that was stopped."""
  folder = tmp_path / 'stopped'
  (folder / 'checkpoints').mkdir(parents=True)
  (folder / '.lock').touch()
  (folder / 'checkpoints' / 'x').write_text('state')
  (folder / 'config.json').write_text(json.dumps({'seed': 1, 'switch': [4], 'clip': 1}))
  return folder


def test_a_copy_has_all_but_the_lock_and_its_own_settings(stopped, tmp_path):
  config = {'seed': 1, 'switch': (2,), 'clip': 1}
  run_folder.branch(stopped, tmp_path / 'copy', config, {'switch'})
  assert (tmp_path / 'copy/checkpoints/x').read_text() == 'state'
  assert json.loads((tmp_path / 'copy/config.json').read_text())['switch'] == [2]
  assert not (tmp_path / 'copy/.lock').exists()
  assert json.loads((stopped / 'config.json').read_text())['switch'] == [4]


def test_what_cannot_be_branched_is_refused_and_leaves_nothing(stopped, tmp_path):
  target = tmp_path / 'copy'
  config = {'seed': 1, 'switch': [2], 'clip': 2}
  with pytest.raises(run_folder.BranchError, match='differ in --clip, too'):
    run_folder.branch(stopped, target, config, {'switch'})
  target.mkdir()
  with pytest.raises(run_folder.BranchError, match='copy exists'):
    run_folder.branch(stopped, target, config, {'switch', 'clip'})
  (stopped / 'results.json').write_text('{}')
  with pytest.raises(run_folder.BranchError, match='has finished'):
    run_folder.branch(stopped, tmp_path / 'new', config, {'switch', 'clip'})
  assert sorted(path.name for path in tmp_path.iterdir()) == ['copy', 'stopped']
