"""`--mechanism`: an algorithm under another mechanism than its own."""

import dataclasses
import json
import re

import pytest

import tff_textpriv
from tff_textpriv import api, flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.experiments import study_files, study_plan, sweep_grid
from tff_textpriv.iterative_processes import registry, subword_resample
from tff_textpriv.iterative_processes.algorithm import OWN_MECHANISM
from tff_textpriv.tasks import (
  base,
  command_flags,
  help_pages,
  shared_flags,
  stackoverflow,
)
from tff_textpriv.tools import audit
from tff_textpriv.training import output

_TASK = stackoverflow.TASK
_RESAMPLE = '--algo=subword_resample'
_FTRL = '--mechanism=dp_ftrl'
_CHOICES = [
  (algorithm.name, name)
  for algorithm in registry.ALGORITHMS.values()
  for name in algorithm.mechanisms
]


def _parse(*argv):
  return base.parse(_TASK, argv)


@pytest.mark.parametrize(('algo', 'name'), _CHOICES)
def test_a_mechanism_that_is_named_takes_the_place_of_the_own_one(algo, name):
  chosen = _parse(f'--algo={algo}', f'--mechanism={name}')
  privacy = registry.ALGORITHMS[algo].mechanisms[name]
  assert type(chosen.privacy_settings) is chosen.algorithm.privacy is privacy
  assert chosen.config['mechanism'] == name and chosen.algorithm.name == algo
  assert dataclasses.asdict(chosen.privacy_settings).items() <= chosen.config.items()
  json.dumps(chosen.config)


def test_the_papers_deployment_is_accounted_under_each_mechanism():
  for argv in ((_RESAMPLE,), (_RESAMPLE, _FTRL)):
    privacy = _parse(*argv).privacy_settings
    assert privacy.target_epsilon == 2.0
    assert privacy.accounted_population == 10_000_000
    assert privacy.accounted_cohort == 20_000
  assert _parse(_RESAMPLE, _FTRL).cohort_sampling == 'separated'


def test_the_own_mechanism_can_be_named_and_that_changes_nothing():
  own = _parse(_RESAMPLE)
  named = _parse(_RESAMPLE, f'--mechanism={OWN_MECHANISM}')
  assert named.config == own.config and 'mechanism' not in own.config
  assert named.algorithm is own.algorithm


@pytest.mark.parametrize(
  ('argv', 'sentence'),
  [
    (
      (_RESAMPLE, '--mechanism=dp_ftlr'),
      '--mechanism=dp_ftlr: --algo=subword_resample has default, dp_ftrl.*; did you '
      'mean dp_ftrl[?]',
    ),
    (
      ('--algo=fed_sgd', _FTRL),
      '--mechanism is not a flag of --algo=fed_sgd, .* it belongs to .*subword_resample',
    ),
    (
      (_RESAMPLE, '--ftrl_noise=tree'),
      '--ftrl_noise is not a flag of --algo=subword_resample; it belongs to '
      '--mechanism=dp_ftrl$',
    ),
    (
      (_RESAMPLE, _FTRL, '--adaptive_clipping'),
      '--adaptive_clipping is not a flag of --algo=subword_resample '
      '--mechanism=dp_ftrl; it belongs to --mechanism=default$',
    ),
    (
      (_RESAMPLE, _FTRL, '--proximal_strength=1'),
      '--proximal_strength is not .* it belongs to fed_prox$',
    ),
    ((_RESAMPLE, _FTRL, '--cohort_sampling=poisson'), 'must be one of separated'),
  ],
)
def test_what_does_not_fit_is_refused_and_what_would_is_named(argv, sentence):
  with pytest.raises((flags.UsageError, settings_lib.SettingsError), match=sentence):
    _parse(*argv)


def _shown(page):
  return set(re.findall(r'^  --(?:\[no\])?(\w+)$', page, re.MULTILINE))


@pytest.mark.parametrize(('algo', 'name'), _CHOICES)
def test_help_lists_the_mechanisms_and_their_promises_and_flags(algo, name):
  argv = [f'--algo={algo}', '--help']
  algorithm = registry.ALGORITHMS[algo]
  under = algorithm.choices[name]
  own_page = help_pages.page(_TASK, argv)
  page = help_pages.page(_TASK, [*argv, f'--mechanism={name}'])
  words = ' '.join(own_page.split())
  assert f'With --mechanism={name}: {under.privacy.promise}.' in words
  assert f'Promise: {under.privacy.promise}.' in ' '.join(page.split())
  assert page.startswith(
    f'usage: python -m tff_textpriv.tasks.stackoverflow --algo={algo} --mechanism={name} '
  )
  assert _shown(own_page) == command_flags.flag_names(_TASK, algorithm)
  assert _shown(page) == command_flags.flag_names(_TASK, under)
  assert 'mechanism' in _shown(page) and _shown(page) != _shown(own_page)


def test_help_says_where_there_is_a_choice_and_refuses_wrong_names():
  assert re.search(
    r'^  --mechanism=default .*another mechanism', help_pages.page(_TASK), re.M
  )
  assert 'mechanism' not in _shown(help_pages.page(_TASK, ['--algo=fed_sgd', '--help']))
  with pytest.raises(settings_lib.SettingsError, match='did you mean dp_ftrl'):
    help_pages.page(_TASK, [_RESAMPLE, '--mechanism=dpftrl', '--help'])
  titles = help_pages.page(_TASK, ['--helpfull'])
  assert '\nPrivacy (subword_resample --mechanism=dp_ftrl):\n' in titles


def test_a_folder_of_one_mechanism_is_not_resumed_with_another(tmp_path):
  own, other = _parse(_RESAMPLE).config, _parse(_RESAMPLE, _FTRL).config
  for first, second, before in ((own, other, '.absent.'), (other, own, 'dp_ftrl')):
    folder = output.OutputFolder(tmp_path / f'{before.strip(".")}')
    with folder:
      folder.claim(first)
      folder.check_config(first)
      with pytest.raises(output.OutputError, match=f'--mechanism: {before} before'):
        folder.check_config(second)


def test_an_audit_makes_the_experiment_of_a_config_again(tmp_path):
  config = _parse(_RESAMPLE, _FTRL, '--ftrl_noise=tree', '--total_rounds=7').config
  (tmp_path / 'config.json').write_text(json.dumps(config))
  again = audit.make_experiment(audit.AuditSettings(run=str(tmp_path)), [])
  assert again.config == config
  assert type(again.privacy_settings) is subword_resample.PaperFtrlSettings


def test_settings_objects_name_their_mechanism():
  settings = subword_resample.SubwordResampleSettings()
  privacy = tff_textpriv.algorithms.PaperFtrlSettings(ftrl_noise='banded')
  given = api._algorithm_flags((settings, privacy))
  assert (given['algo'], given['mechanism']) == ('subword_resample', 'dp_ftrl')
  made = base.make_experiment(_TASK, given)
  assert (made.algorithm_settings, made.privacy_settings) == (settings, privacy)
  own = subword_resample.PaperPrivacySettings()
  assert 'mechanism' not in api._algorithm_flags((settings, own))


def test_of_shared_flags_each_mechanism_gets_its_own():
  given = ['--ftrl_noise=tree', '--adaptive_clipping', '--unknown=1']
  kept = shared_flags.kept
  assert kept(given, _TASK, 'subword_resample') == given[1:]
  assert kept([*given, _FTRL], _TASK, 'subword_resample') == [given[0], given[2], _FTRL]
  # Whoever has no choice is not given one.
  assert kept([*given, _FTRL], _TASK, 'dp_ftrl') == [given[0], given[2]]


def test_a_sweep_varies_the_mechanism_and_gives_each_its_flags(tmp_path):
  runs = sweep_grid.make_runs(
    _TASK,
    ['subword_resample'],
    ['--mechanism=default,dp_ftrl', '--ftrl_noise=blt,tree', '--clip=0.5,1'],
    1,
    tmp_path,
  )
  assert sorted(
    (run.config.get('mechanism'), run.config.get('ftrl_noise'), run.config['clip'])
    for run in runs
    if 'mechanism' in run.config
  ) == [('dp_ftrl', noise, clip) for noise in ('blt', 'tree') for clip in (0.5, 1.0)]
  own = [run for run in runs if 'mechanism' not in run.config]
  assert [run.config['clip'] for run in own] == [0.5, 1.0]
  assert len({run.folder for run in runs}) == len(runs) == 6
  for run in runs:
    assert base.parse(_TASK, run.argv).config == run.config


def test_a_study_has_arms_under_several_mechanisms(tmp_path):
  file = tmp_path / 'noise.toml'
  file.write_text("""
title = 'Noise'
question = 'Which?'
tasks = ['stackoverflow']
rows = 'noise'
columns = ['test_word_accuracy']
reference = 'drawn'
[plot]
metric = 'word_accuracy'
[flags]
total_rounds = 4
adaptive_clipping = false
[[arms]]
label = 'drawn'
flags.algo = 'subword_resample'
[[arms]]
label = 'correlated'
flags.algo = 'subword_resample'
flags.mechanism = 'dp_ftrl'
""")
  study = study_files.load(str(file))
  plan = study_plan.make_plan(study, _TASK, {'ftrl_noise': 'tree'}, (), tmp_path)
  drawn, correlated = (run.experiment.config for run in plan.runs)
  assert 'mechanism' not in drawn and 'ftrl_noise' not in drawn
  assert (correlated['mechanism'], correlated['ftrl_noise']) == ('dp_ftrl', 'tree')
  assert 'adaptive_clipping' in drawn and 'adaptive_clipping' not in correlated
  assert plan.notes == ['--ftrl_noise does not reach: drawn']
