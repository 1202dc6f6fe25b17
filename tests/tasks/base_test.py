"""A task's command line: what is accepted, what is refused, and in which words."""

import dataclasses
import json
import sys

import pytest

from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import registry
from tff_textpriv.tasks import base, stackoverflow

_TASK = stackoverflow.TASK


def _parse(*argv):
  return base.parse(_TASK, argv)


def _command(monkeypatch, *argv) -> int:
  """Runs the command in this process and returns its exit code."""
  monkeypatch.setattr(sys, 'argv', ['stackoverflow', *argv])
  with pytest.raises(SystemExit) as caught:
    base.main(_TASK)
  return caught.value.code


def test_a_missing_algorithm_is_asked_for_with_all_their_names():
  with pytest.raises(flags.UsageError, match='--algo is missing') as caught:
    _parse('--total_rounds=3')
  for name in ('dp_fed_avg', 'fed_avg', 'fed_prox', 'fed_sgd'):
    assert name in str(caught.value)


def test_an_unknown_algorithm_is_refused_with_the_known_ones():
  with pytest.raises(settings_lib.SettingsError) as caught:
    _parse('--algo=fed_magic')
  assert str(caught.value).startswith('--algo=fed_magic: must be one of ')
  assert 'dp_fed_avg' in str(caught.value)


@pytest.mark.parametrize(
  ('algorithm', 'flag', 'owner'),
  [
    ('fed_avg', '--proximal_strength=0.1', 'fed_prox'),
    ('fed_avg', '--clip=0.5', 'dp_fed_avg'),
    ('fed_prox', '--target_epsilon=2', 'dp_fed_avg'),
    ('fed_sgd', '--noise_multiplier=1', 'dp_fed_avg'),
    ('fed_sgd', '--privacy_claim=false', 'dp_fed_avg'),
    ('fed_sgd', '--client_learning_rate=1', 'fed_avg'),
    ('fed_sgd', '--client_epochs_per_round=2', 'fed_avg'),
    ('dp_fed_avg', '--proximal_strength=0.1', 'fed_prox'),
  ],
)
def test_a_flag_of_another_algorithm_is_refused_naming_its_owner(
  algorithm, flag, owner
):
  name = flag.split('=')[0]
  with pytest.raises(flags.UsageError) as caught:
    _parse(f'--algo={algorithm}', flag)
  assert str(caught.value).startswith(f'{name} is not a flag of --algo={algorithm}')
  owners = str(caught.value).split('it belongs to ')[1].split(', ')
  assert owner in owners and algorithm not in owners


_LANGUAGE_MODEL_ALGORITHMS = [
  name
  for name, algorithm in registry.ALGORITHMS.items()
  if 'language_model' in algorithm.kinds
]


@pytest.mark.parametrize('name', _LANGUAGE_MODEL_ALGORITHMS)
def test_every_algorithm_has_its_own_defaults(name):
  experiment = _parse(f'--algo={name}')
  algorithm = registry.ALGORITHMS[name]
  assert experiment.algorithm is algorithm
  assert experiment.algorithm_settings == algorithm.settings()
  if algorithm.privacy is None:
    assert experiment.privacy_settings is None
    assert not {'clip', 'noise_multiplier', 'delta'} & experiment.config.keys()
  else:
    assert experiment.privacy_settings == algorithm.privacy()
    fields = {field.name for field in dataclasses.fields(algorithm.privacy)}
    assert fields <= experiment.config.keys()
  assert experiment.folder.name == f'stackoverflow_{name}'


def test_defaults_of_the_same_flag_differ_between_algorithms():
  own, papers = _parse('--algo=dp_fed_avg'), _parse('--algo=subword_resample')
  assert own.privacy_settings.target_epsilon is None
  assert papers.privacy_settings.target_epsilon == 2.0


def test_given_flags_reach_their_settings():
  experiment = _parse(
    '--algo=dp_fed_avg',
    '--server_learning_rate=0.25',
    '--clip',
    'inf',
    '--noprivacy_claim',
    '--tied_embeddings=false',
    '--workers=a:1, b:2',
    '--total_rounds=7',
    '--total_rounds=8',
    '--seed=5',
    '--root_output_dir=/somewhere',
    '--experiment_name=mine',
  )
  assert experiment.algorithm_settings.server_learning_rate == 0.25
  assert experiment.privacy_settings.clip == float('inf')
  assert experiment.privacy_settings.privacy_claim is False
  assert experiment.task_settings.tied_embeddings is False
  assert experiment.machine.workers == ('a:1', 'b:2')
  assert experiment.run.total_rounds == 8
  assert str(experiment.folder) == '/somewhere/mine'
  assert experiment.config['seed'] == 5


def test_where_a_run_writes_and_what_it_runs_on_is_no_part_of_its_config():
  here = _parse('--algo=fed_avg')
  there = _parse(
    '--algo=fed_avg',
    '--root_output_dir=/other',
    '--num_workers=3',
    '--rounds_per_checkpoint=7',
    '--max_concurrent_clients=2',
  )
  assert here.config == there.config
  json.dumps(here.config)
  assert here.config != _parse('--algo=fed_avg', '--rounds_per_eval=3').config


@pytest.mark.parametrize(
  ('flag', 'allowed'),
  [
    ('--total_rounds=0', 'an integer >= 1'),
    ('--total_rounds=ten', 'an integer >= 1'),
    ('--total_rounds=1.5', 'an integer >= 1'),
    ('--total_rounds=', 'an integer >= 1'),
    ('--seed=-1', 'an integer >= 0 and <= '),
    ('--client_learning_rate=0.0', 'a number > 0'),
    ('--client_learning_rate=nan', 'a number > 0'),
    ('--client_momentum=1.0', 'a number >= 0 and < 1'),
    ('--delta=1.0', 'a number > 0 and < 1'),
    ('--target_epsilon=-2.0', 'a number > 0 and < inf'),
    ('--noise_multiplier=inf', 'a number >= 0 and < inf'),
    ('--server_optimizer=rmsprop', 'one of sgd, adam'),
    ('--cohort_sampling=both', 'one of poisson, fixed'),
    ('--accountant=magic', 'one of auto, rdp, pld'),
    ('--clients_per_round=-5', 'an integer >= 1'),
  ],
)
def test_a_wrong_value_names_flag_value_and_what_is_allowed(flag, allowed):
  with pytest.raises(settings_lib.SettingsError) as caught:
    _parse('--algo=dp_fed_avg', flag)
  assert str(caught.value).startswith(f'{flag}: must be {allowed}')


@pytest.mark.parametrize(
  ('argument', 'message'),
  [
    ('--total_round=3', 'total_round'),
    ('--tied_embeddings=maybe', 'tied_embeddings'),
    ('total_rounds=3', "'total_rounds=3' is not a flag"),
    ('--total_rounds', 'total_rounds'),
    ('--flagfile=/nowhere/demo.flags', '/nowhere/demo.flags'),
  ],
)
def test_a_command_line_that_makes_no_sense_is_refused(argument, message):
  with pytest.raises(flags.UsageError, match=message):
    _parse('--algo=fed_avg', argument)


def test_help_answers_in_groups_and_shows_ranges_and_defaults(monkeypatch, capsys):
  assert _command(monkeypatch, '--algo=nonsense', '--helpfull') == 0
  page = capsys.readouterr().out
  titles = [block.splitlines()[0] for block in page.split('\n\n')[2:]]
  assert titles[:2] == ['Choice of algorithm:', 'Task stackoverflow:']
  for name in _LANGUAGE_MODEL_ALGORITHMS:
    assert f'Algorithm {name}:' in titles
    assert registry.ALGORITHMS[name].summary in ' '.join(page.split())
  assert 'Privacy (dp_fed_avg):' in titles
  assert titles[-2] == 'Run:' and titles[-1].startswith('Output and machine')
  privacy = page.split('Privacy (dp_fed_avg):')[1].split('\n\n')[0]
  assert '--target_epsilon' in privacy and '--[no]privacy_claim' in privacy
  assert '--total_rounds' not in privacy
  assert 'default: auto' in ' '.join(privacy.split())
  run = ' '.join(page.split('\nRun:')[1].split())
  assert '(one of poisson, fixed, separated; default: poisson)' in run


@pytest.mark.parametrize(
  ('given', 'sentence'),
  [
    ([], '--algo is missing'),
    (['--algo=fed_avg', '--clip=1'], '--clip is not a flag of --algo=fed_avg'),
    (['--algo=fed_avg', '--total_rounds=x'], '--total_rounds=x: must be an integer'),
    (['--algo=dp_fed_avg'], '--target_epsilon'),
    (
      ['--algo=dp_fed_avg', '--target_epsilon=2', '--tokenizer_source=oracle'],
      '--tokenizer_source=oracle',
    ),
    (
      ['--algo=dp_fed_avg', '--target_epsilon=2', '--client_weighting=examples'],
      '--client_weighting=examples: a mean weighted by examples',
    ),
    (
      [
        '--algo=dp_fed_avg',
        '--target_epsilon=2',
        '--cohort_sampling=fixed',
        '--accountant=pld',
      ],
      '--accountant=pld: cannot account cohorts drawn with fixed size',
    ),
    (
      ['--algo=dp_fed_avg', '--target_epsilon=2', '--clip=inf'],
      'noise on updates that are not clipped protects nobody',
    ),
    (
      ['--algo=dp_fed_avg', '--target_epsilon=2', '--noise_multiplier=0'],
      '--noise_multiplier=0',
    ),
    (['--algo=fed_avg', '--clients_per_round=31'], '--clients_per_round=31'),
    (['--algo=fed_avg', '--data=/nowhere/so.sqlite'], '/nowhere/so.sqlite'),
    (
      ['--algo=fed_avg', '--num_workers=2', '--workers=localhost:1'],
      '--num_workers starts workers here and --workers uses others',
    ),
  ],
)
def test_a_refusal_is_one_sentence_and_exit_code_2(
  monkeypatch, capsys, tmp_path, given, sentence
):
  where = [f'--root_output_dir={tmp_path}', f'--data_dir={tmp_path}', '--num_users=30']
  assert _command(monkeypatch, *given, *where) == 2
  error = capsys.readouterr().err
  last_line = [line for line in error.splitlines() if line.startswith('error: ')]
  assert len(last_line) == 1 and sentence in last_line[0]
  assert 'Traceback' not in error


@pytest.mark.parametrize('mistake', ['--vocab_size=90000', '--clients_per_round=31'])
def test_a_refusal_does_not_claim_the_folder(monkeypatch, capsys, tmp_path, mistake):
  # The corrected command must not be told that the folder has other settings.
  where = [f'--root_output_dir={tmp_path}', f'--data_dir={tmp_path}', '--num_users=30']
  assert _command(monkeypatch, '--algo=fed_avg', mistake, *where) == 2
  assert 'error: ' in capsys.readouterr().err
  assert not (tmp_path / 'stackoverflow_fed_avg' / 'config.json').exists()
