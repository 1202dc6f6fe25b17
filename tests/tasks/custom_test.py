"""The task on one's own text: its command line, and runs from a table to results."""

import csv
import itertools
import json
import subprocess
import sys

import pytest

from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import registry
from tff_textpriv.tasks import base, command_flags, custom, help_pages

_COLUMNS = ('--user_column=author', '--text_column=body')
_MORE = {
  'dp_fed_avg': ['--target_epsilon=8'],
  'subword_resample': ['--sample_tokens=5000'],
}
_WORDS = {'cats': 'purr soft paws whiskers', 'dogs': 'bark loud tail bones'}


@pytest.fixture
def posts(tmp_path):
  """A table of 40 users who write on cats or on dogs, mostly."""
  path = tmp_path / 'posts.csv'
  with open(path, 'w', newline='') as file:
    writer = csv.writer(file)
    writer.writerow(['author', 'body', 'topic'])
    for n in range(240):
      user = n % 40
      topic = 'cats' if (user + (n % 7 == 0)) % 2 else 'dogs'
      words = _WORDS[topic].split()
      body = f'my {topic[:-1]} has {words[n % 4]} and {words[(n + 1) % 4]} , number {n}'
      writer.writerow([f'user{user}', body, topic])
    writer.writerow(['', 'nobody wrote this', 'cats'])
  words = [
    ''.join(letters) for letters in itertools.product('bcdfghkl', 'aeiou', 'klmnprst')
  ]
  (tmp_path / 'public.txt').write_text('\n'.join([' '.join(words)] * 20))
  return path


def _run(posts, *given):
  folder = posts.parent / 'runs' / 'run'
  experiment = base.parse(
    custom.TASK,
    [
      f'--data={posts}',
      *_COLUMNS,
      *given,
      f'--root_output_dir={folder.parent}',
      f'--experiment_name={folder.name}',
      f'--data_dir={posts.parent / "cache"}',
    ],
  )
  code = base.run(experiment)
  return code, json.loads((folder / 'results.json').read_text())


def _parse(*given):
  return base.parse(custom.TASK, given)


def test_a_label_column_makes_it_a_classification_task():
  without, with_labels = (
    _parse('--algo=fed_avg'),
    _parse('--algo=fed_avg', '--label_column=y'),
  )
  assert without.task.kind == 'language_model'
  assert with_labels.task.kind == 'classification'
  assert without.folder.name == 'custom_fed_avg'
  assert with_labels.folder.name == 'custom_labels_fed_avg'
  assert without.config['task'] == with_labels.config['task'] == 'custom'
  assert with_labels.task_settings.federation == 'users'
  assert with_labels.run.cohort_sampling == 'fixed'


def test_of_many_users_a_hundred_take_part_in_a_round_if_not_said_otherwise():
  def cohort(num_users, *given):
    return _parse('--algo=fed_avg', '--label_column=y', *given).run.cohort(num_users)

  assert (cohort(30), cohort(3000)) == (30, 100)
  assert cohort(3000, '--clients_per_round=500') == 500


@pytest.mark.parametrize('name', registry.ALGORITHMS)
def test_every_algorithm_goes_with_one_s_own_text(name):
  kinds = registry.ALGORITHMS[name].kinds
  if 'language_model' in kinds:
    assert _parse(f'--algo={name}').algorithm.name == name
  if 'classification' in kinds:
    chosen = _parse(f'--algo={name}', '--label_column=y')
    # Where embeddings stay with users, the model has some.
    assert chosen.task_settings.reads_tokens == (not chosen.algorithm.has_whole_model)
    chosen = _parse(f'--algo={name}', '--label_column=y', '--model=encoder_tiny')
    assert chosen.task_settings.model == 'encoder_tiny'


def test_an_algorithm_of_the_other_kind_is_refused_saying_how_to_get_there():
  with pytest.raises(flags.UsageError, match='the task custom without --label_column'):
    _parse('--algo=fed_recon')
  with pytest.raises(
    flags.UsageError, match='the task custom with --label_column, whi'
  ):
    _parse('--algo=subword_resample', '--label_column=y')


def test_a_flag_of_the_other_kind_is_refused_saying_how_to_get_there():
  with pytest.raises(
    flags.UsageError,
    match='--hash_buckets is not a flag of the task custom without --label_column, but '
    'of the task custom with --label_column',
  ):
    _parse('--algo=fed_avg', '--hash_buckets=10')
  with pytest.raises(
    flags.UsageError, match='--public_data is not a flag of the task '
  ):
    _parse('--algo=fed_avg', '--label_column=y', '--public_data=a.txt')


def test_help_shows_both_kinds():
  page = help_pages.page(custom.TASK, ['--helpfull'])
  for title in (
    'Task custom without',
    'Task custom with',
    'Run of the task custom with',
  ):
    assert f'\n{title} --label_column:\n' in page or f'\n{title}out --label' in page
  for flag in ('user_column', 'public_data', 'hash_buckets', 'device_failure_rate'):
    assert f'  --{flag}\n' in page
  for name in registry.ALGORITHMS:
    assert f'\nAlgorithm {name}:\n' in page


def test_what_is_missing_is_asked_for_in_order_columns_before_public_text(posts):
  given = ['--algo=dp_fed_avg', f'--data={posts}', f'--data_dir={posts.parent}/cache']
  missing = []
  for answer in (*_COLUMNS, '--public_data=public.txt', '--epsilon=2'):
    with pytest.raises(settings_lib.SettingsError) as caught:
      _parse(*given)
    missing.append(caught.value.name)
    given.append(answer)
  assert missing == ['user_column', 'text_column', 'public_data', 'target_epsilon']
  assert not (posts.parent / 'cache').exists()  # No data were read for that.
  assert _parse(*given).privacy_settings.target_epsilon == 2
  del given[-2]
  with pytest.raises(settings_lib.SettingsError, match='--tokenizer_source=oracle'):
    _parse(*given)
  assert _parse(*given, '--tokenizer_source=oracle', '--privacy_claim=false')


def test_settings_go_with_the_number_of_users_unless_they_are_given(posts):
  columns = ('--label_column=topic', f'--data_dir={posts.parent}/cache')
  given = (f'--data={posts}', *_COLUMNS, *columns, '--max_broken_share=1')
  private = ('--algo=dp_fed_avg', '--target_epsilon=8')
  chosen = _parse(*private, *given)
  assert chosen.run.clients_per_round == chosen.fitted['clients_per_round'] == 32
  # They stand out of the noise too little for many rounds, and for noisy counts of norms.
  assert chosen.run.total_rounds < 40
  assert chosen.fitted['adaptive_clipping'] is False
  kept = _parse(*private, *given, '--clients_per_round=5', '--total_rounds=7')
  assert (kept.run.clients_per_round, kept.run.total_rounds) == (5, 7)
  assert not kept.fitted.keys() & {'clients_per_round', 'total_rounds'}
  assert not _parse('--algo=fed_avg', *given).fitted


def test_a_wrong_column_is_refused_before_tensorflow_is_loaded(posts):
  script = (
    'import sys; from tff_textpriv.tasks import base, custom\n'
    'try:\n  base.run(base.parse(custom.TASK, sys.argv[1:]))\n'
    'except ValueError as error:\n  print(error)\n'
    'sys.exit("tensorflow" in sys.modules)'
  )
  given = ['--algo=fed_avg', f'--data={posts}', *_COLUMNS, '--label_column=stars']
  done = subprocess.run(
    [sys.executable, '-c', script, *given], capture_output=True, text=True, check=True
  )
  assert '--label_column=stars: there is no such column in' in done.stdout


def test_shares_that_leave_nobody_to_train_are_refused():
  with pytest.raises(settings_lib.IncompatibleSettingsError, match='leave nobody'):
    _parse('--algo=fed_avg', '--validation_share=0.5', '--test_share=0.5')


def test_a_download_is_refused():
  chosen = _parse('--algo=fed_avg', '--data=download', '--public_data=a.txt')
  with pytest.raises(
    settings_lib.SettingsError, match='--data=download: your own text'
  ):
    chosen.task.load(chosen.task_settings, 0)


def test_the_embedded_twins_are_there_for_both_kinds():
  chosen = _parse('--algo=fed_avg', '--num_users=12')
  text = chosen.task.load(chosen.task_settings, 0)
  assert len(text.train.client_ids) == 12 and text.public_text
  chosen = _parse('--algo=fed_avg', '--label_column=label')
  data = chosen.task.load(chosen.task_settings, 0)
  assert len(data.classes) == 3
  assert len(set(data.train.users)) == 80


def _algorithms(kind, quick):
  """Lists all algorithms of a kind; those other than `quick` are tried on request."""
  return [
    name if name == quick else pytest.param(name, marks=pytest.mark.slow)
    for name, algorithm in registry.ALGORITHMS.items()
    if kind in algorithm.kinds
  ]


@pytest.mark.parametrize('algo', _algorithms('language_model', quick='fed_avg'))
def test_a_language_model_is_trained_from_a_table(posts, capsys, algo):
  code, results = _run(
    posts,
    f'--algo={algo}',
    *_MORE.get(algo, ()),
    f'--public_data={posts.parent / "public.txt"}',
    '--vocab_size=500',
    '--total_rounds=2',
    '--clients_per_round=4',
    '--test_share=0.2',
  )
  assert code == 0
  assert results['test_num_words'] > 0
  said = capsys.readouterr().out
  assert 'posts.csv: 241 rows' in said
  assert '  users     40: 26 train, 3 validation, 11 test' in said
  assert 'left out  1 broken rows' in said and 'posts.csv:242:' in said


@pytest.mark.parametrize('algo', _algorithms('classification', quick='rr_ldp'))
def test_a_classifier_is_trained_from_a_table_with_labels(posts, capsys, algo):
  code, results = _run(
    posts,
    f'--algo={algo}',
    *_MORE.get(algo, ()),
    '--label_column=topic',
    '--total_rounds=2',
    '--max_eval_users=3',
  )
  assert code == 0
  accuracy = results.get('test_accuracy', results.get('test_global_accuracy'))
  assert 0 <= accuracy <= 1
  said = capsys.readouterr().out
  assert '  labels    2: ' in said and 'non-IID' in said
  if algo != 'central':
    assert '  clients   32 of 6 to 6 examples (users)' in said


def test_too_many_broken_rows_stop_the_run(posts):
  with pytest.raises(ValueError, match='--max_broken_share=0.001; mend them'):
    _run(posts, '--algo=fed_avg', '--label_column=topic', '--max_broken_share=0.001')


def test_no_privacy_is_claimed_for_clients_who_are_not_users(posts):
  given = ('--algo=rr_ldp', '--label_column=topic', '--federation=shards')
  with pytest.raises(
    ValueError, match='--federation=shards deals the texts of one user'
  ):
    _run(posts, *given)


def test_tools_that_share_flags_know_those_of_both_kinds():
  classifier = command_flags.flag_names(custom.TASK, registry.ALGORITHMS['fed_recon'])
  assert 'federation' in classifier and 'public_data' not in classifier
  either = command_flags.flag_names(custom.TASK, registry.ALGORITHMS['fed_avg'])
  assert {'federation', 'public_data'} <= either


def test_a_promise_is_about_the_users_of_the_data_unless_flags_say_otherwise():
  def sizes(*given):
    privacy = base.parse(custom.TASK, ['--algo=subword_resample', *given])
    settings = privacy.privacy_settings
    return settings.accounted_population, settings.accounted_cohort

  assert sizes() == (None, None)
  assert sizes('--accounted_population=5000') == (5000, None)
