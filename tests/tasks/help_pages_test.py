"""What `--help` of a task shows: two screens, and only what the task takes."""

import re
import shlex
import subprocess
import sys

import pytest

from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import registry
from tff_textpriv.tasks import base, command_flags, custom, help_pages, imdb
from tff_textpriv.tools import attack, audit, study, sweep

_TASKS = list(base.all_tasks().values())
_PAIRS = [
  pytest.param(task, algorithm, id=f'{task.name}-{algorithm.name}')
  for task in _TASKS
  for algorithm in registry.ALGORITHMS.values()
]
# For the variant of `custom`, which has algorithms of its own.
_VARIANT = {'custom': ['--label_column=stars']}


def _fits(page):
  lines = page.splitlines()
  return len(lines) <= 100 and max(map(len, lines)) <= 96


def _listed(page):
  """Returns the algorithms that a page names, without their marks."""
  part = page.split('Algorithms, by', 1)[1].split('Flags that matter', 1)[0]
  return set(re.findall(r'^    (\w+)', part, re.MULTILINE))


def _accepts(task, name):
  """Tells whether the task's command line accepts an algorithm, in one of its forms."""
  for more in ([], _VARIANT.get(task.name, [])):
    try:
      base.parse(task, [f'--algo={name}', *more])
    except flags.UsageError:
      continue
    return True
  return False


@pytest.mark.parametrize('task', _TASKS, ids=lambda task: task.name)
def test_the_first_page_fits_on_two_screens(task):
  page = help_pages.page(task)
  assert _fits(page)
  assert not _fits(help_pages.page(task, ['--helpfull']))
  for flag in ('data', 'model', 'total_rounds', 'clients_per_round', 'seed'):
    assert len(re.findall(rf'^  --{flag}\b', page, re.MULTILINE)) == 1
  for flag in ('target_epsilon', 'root_output_dir', 'experiment_name'):
    assert f'\n  --{flag}' in page


@pytest.mark.parametrize(
  'page',
  [attack.help_page, audit.help_page, study.help_page, sweep.help_page],
  ids=lambda page: page.__module__.split('.')[-1],
)
def test_tools_with_flags_of_tasks_have_short_pages(page):
  assert _fits(page())


@pytest.mark.parametrize(('task', 'algorithm'), _PAIRS)
def test_an_algorithm_is_listed_if_and_only_if_the_task_takes_it(task, algorithm):
  is_listed = algorithm.name in _listed(help_pages.page(task))
  assert is_listed == _accepts(task, algorithm.name)


def test_algorithms_stand_below_what_they_promise():
  lines = help_pages.page(imdb.TASK).splitlines()
  private = next(
    i for i, line in enumerate(lines) if 'trusted to add the noise' in line
  )
  assert lines[private + 1].startswith('    dp_fed_avg ')
  nothing = lines.index('  no formal guarantee:')
  assert nothing > private
  assert any(line.startswith('    fed_avg ') for line in lines[nothing:])


def test_what_only_one_kind_of_task_takes_is_marked():
  page = help_pages.page(custom.TASK)
  assert re.search(r'^    central\* ', page, re.MULTILINE)
  assert '\n  * task custom with --label_column only\n' in page
  assert re.search(r'^    fed_avg ', page, re.MULTILINE)


@pytest.mark.parametrize('task', _TASKS, ids=lambda task: task.name)
def test_the_examples_are_understood(task):
  examples = help_pages.examples(task)
  assert len(examples) == 2
  for example in examples:
    command, module, *argv = shlex.split(example)[1:]
    assert (command, module) == ('-m', f'tff_textpriv.tasks.{task.name}')
    base.parse(task, argv)
  page = help_pages.page(task).replace(' \\\n     ', '')
  assert all(f'\n  {example}\n' in page for example in examples)


def _names(*groups):
  return {
    field.name for group in groups if group for field in flags.Group('', group).fields()
  }


@pytest.mark.parametrize(('task', 'algorithm'), _PAIRS)
def test_the_page_of_an_algorithm_has_its_flags_and_none_of_others(task, algorithm):
  argv = [f'--algo={algorithm.name}', '--help']
  if not _accepts(task, algorithm.name):
    with pytest.raises(flags.UsageError, match='does not go with'):
      help_pages.page(task, argv)
    return
  page = help_pages.page(task, argv)
  shown = set(re.findall(r'^  --(?:\[no\])?(\w+)$', page, re.MULTILINE))
  assert shown == command_flags.flag_names(task, algorithm)
  own = _names(algorithm.settings, algorithm.privacy)
  everybody = set().union(
    *(_names(each.settings, each.run_settings) for each in command_flags.family(task))
  )
  foreign = set().union(
    *(_names(each.settings, each.privacy) for each in registry.ALGORITHMS.values())
  )
  assert own <= shown
  assert not (foreign - own - everybody) & shown


def test_a_flag_that_chooses_a_variant_leaves_the_flags_of_the_other_out():
  argv = ['--algo=fed_avg', '--help']
  both = help_pages.page(custom.TASK, argv)
  assert '  --public_data\n' in both and '  --hash_buckets\n' in both
  one = help_pages.page(custom.TASK, [*argv, '--label_column=y'])
  assert '  --public_data\n' not in one and '  --hash_buckets\n' in one


def test_choices_of_the_algorithm_are_those_of_the_task():
  with pytest.raises(settings_lib.SettingsError) as caught:
    base.parse(imdb.TASK, ['--algo=fed_magic'])
  assert 'rr_ldp' in str(caught.value)
  assert 'fede_vocab' not in str(caught.value)
  page = help_pages.page(imdb.TASK, ['--helpfull'])
  choices = page.split('  --algo\n')[1].split('default')[0]
  assert 'rr_ldp' in choices and 'subword_resample' not in choices


def test_help_on_an_algorithm_that_is_refused_is_a_sentence():
  done = subprocess.run(
    [sys.executable, '-m', 'tff_textpriv.tasks.imdb', '--algo=fede_vocab', '--help'],
    capture_output=True,
    text=True,
  )
  assert (done.returncode, done.stdout) == (2, '')
  assert done.stderr.startswith(
    'error: --algo=fede_vocab does not go with the task imdb'
  )


def test_a_setting_that_takes_the_place_of_an_important_one_is_important():
  assert settings_lib.key_text(custom.OwnLanguageSettings, 'data')
  assert not settings_lib.key_text(custom.OwnLanguageSettings, 'dropout')
