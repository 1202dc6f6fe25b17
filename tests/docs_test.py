"""What the pages say is true: commands are accepted, code runs, links lead somewhere."""

import contextlib
import dataclasses
import importlib
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import snippets
import startup_test

import tff_textpriv
from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import embedded
from tff_textpriv.experiments import study_files, study_plan
from tff_textpriv.iterative_processes import registry
from tff_textpriv.tasks import base, command_flags
from tff_textpriv.tools import plan

_ROOT = pathlib.Path(tff_textpriv.__file__).parents[1]
_PAGES = [
  _ROOT / 'README.md',
  _ROOT / 'CONTRIBUTING.md',
  *sorted((_ROOT / 'docs').glob('*.md')),
]
_CONTRIBUTING = _ROOT / 'CONTRIBUTING.md'
# Pages whose Python is about what commands have left, and the commands.
_COMMANDS_FIRST = {
  'export.md': (
    'python -m tff_textpriv.tasks.stackoverflow --algo=fed_avg',
    'python -m tff_textpriv.tools.export runs/stackoverflow_fed_avg',
  )
}
_MODULE = r'(tff_textpriv|benchmarks)(\.[a-z0-9_]+)+'
_MAKE_TARGETS = set(re.findall(r'^([\w-]+):', (_ROOT / 'Makefile').read_text(), re.M))


def _ids(page) -> str:
  return str(page.relative_to(_ROOT))


def _python_commands(page) -> list[list[str]]:
  """Returns a page's `python -m` commands of this repository, as words.

  `tff_textpriv.tasks.TASK` and `tff_textpriv.tools.` stand for all of them.
  """
  words = [snippets.split(command) for command in snippets.commands(page)]
  return [
    ['python', *each[1:]]
    for each in words
    if each[0] != 'make' and re.fullmatch(_MODULE, each[2])
  ]


def _notes():
  """The content of a file that the task of CONTRIBUTING.md reads."""
  data = embedded.build(0, num_train_users=12)
  groups = {'train': data.train, 'validation': data.validation, 'test': data.test}
  notes = {
    name: {user: group.read(user) for user in group.client_ids[:12]}
    for name, group in groups.items()
  }
  return {**notes, 'public': list(data.public_text)}


# What the Python of CONTRIBUTING.md is, in its order.
_WALK_THROUGH = (
  'iterative_processes/local_adagrad.py',
  'privacy/local_laplace.py',
  'aggregators/local_laplace.py',
  'iterative_processes/laplace_avg.py',
  'tasks/notes.py',
)


@pytest.fixture(scope='module')
def repository(tmp_path_factory):
  """A copy of the package, with what CONTRIBUTING.md adds to it."""
  root = tmp_path_factory.mktemp('repository')
  for folder in ('tff_textpriv', 'benchmarks'):
    shutil.copytree(_ROOT / folder, root / folder)
  package = root / 'tff_textpriv'
  for block, file in zip(_python_blocks(_CONTRIBUTING), _WALK_THROUGH, strict=True):
    (package / file).write_text(block.text)
  registry = package / 'iterative_processes' / 'registry.py'
  added = "_MODULES = (\n  'local_adagrad',\n  'laplace_avg',"
  registry.write_text(registry.read_text().replace('_MODULES = (', added, 1))
  (root / 'notes.json').write_text(json.dumps(_notes()))
  (study,) = (b for b in snippets.blocks(_CONTRIBUTING) if b.language == 'toml')
  (root / 'steps.toml').write_text(study.text)
  return root


def test_every_command_is_understood(repository):
  commands = [words for page in _PAGES for words in _python_commands(page)]
  assert len(commands) > 30
  assert snippets.refused(commands, repository) == {}


def test_a_command_with_a_mistake_would_be_noticed(repository):
  module = ['python', '-m', 'tff_textpriv.tasks.imdb']
  wrong = [
    [*module, '--algo=rr_ldp', '--total_round=3'],
    [*module, '--algo=rr_ldp', '--clip=1'],
    ['python', '-m', 'tff_textpriv.tasks.no_such_task', '--algo=fed_avg'],
    ['python', '-m', 'tff_textpriv.tools.plan', '--epsilon=-1'],
    ['python', '-m', 'tff_textpriv.tools.study', '--study=demo', '--total_round=3'],
  ]
  right = [*module, '--algo=rr_ldp', '--total_rounds=3']
  assert list(snippets.refused([right, *wrong], repository)) == [
    ' '.join(w) for w in wrong
  ]


def test_what_make_is_asked_for_is_in_the_makefile():
  asked = {
    snippets.split(command)[1]
    for page in _PAGES
    for command in snippets.commands(page)
    if command.startswith('make ')
  }
  assert {'demo', 'test'} <= asked <= _MAKE_TARGETS


def _known_flags() -> set[str]:
  """Returns the flags of all commands, and pip's that pages speak of."""
  known = {'help', 'helpfull', 'flagfile', 'no-deps'}
  benchmarks = [
    f'benchmarks.{file.stem}'
    for file in (_ROOT / 'benchmarks').glob('*.py')
    if 'flags.run(' in file.read_text()
  ]
  for command in (*startup_test._COMMANDS, *benchmarks):
    importlib.import_module(command)
  classes = [settings_lib.Settings]
  for each in classes:
    classes += each.__subclasses__()
    known |= {field.name for field in dataclasses.fields(each)}
  # What chooses an algorithm and its mechanism is made for each task.
  groups = (g for task in base.all_tasks().values() for g in command_flags.groups(task))
  return known | {field.name for group in groups for field in group.fields()}


@pytest.mark.parametrize('page', _PAGES, ids=_ids)
def test_every_flag_that_is_mentioned_exists(page):
  mentioned = {
    name
    for code in snippets.inline_code(page)
    for name in re.findall(r'(?<!\S)--([\w-]+)', code)
  }
  assert mentioned <= _known_flags()


@pytest.mark.parametrize('page', _PAGES, ids=_ids)
def test_links_lead_to_files_and_headings(page):
  for link in snippets.links(page):
    if link.startswith('https://'):
      continue
    path, _, anchor = link.partition('#')
    target = page.parent / path if path else page
    assert target.exists(), link
    assert not anchor or anchor in snippets.anchors(target), link


@pytest.mark.parametrize('page', _PAGES, ids=_ids)
def test_files_that_are_mentioned_exist(page, repository):
  for code in snippets.inline_code(page):
    if re.fullmatch(r'(tests|docs|benchmarks|notebooks|tff_textpriv)/[\w/.]+', code):
      assert (_ROOT / code).exists() or (repository / code).exists(), code


def test_the_output_of_the_planner_is_what_it_prints():
  shown = [
    block
    for page in _PAGES
    for block in snippets.blocks(page)
    if any(' tff_textpriv.tools.plan ' in command for command in block.commands)
    and block.text.startswith('$')
  ]
  assert shown
  for block in shown:
    (command,) = block.commands
    output = block.text.replace('\\\n', ' ').split('\n', 1)[1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
      given = flags.parse(
        snippets.split(command)[3:], [flags.Group('', plan.PlanSettings)]
      )
      plan.main(flags.make(plan.PlanSettings, given))
    assert printed.getvalue().rstrip() == output.rstrip()


def _python_blocks(page) -> list[snippets.Block]:
  return [block for block in snippets.blocks(page) if block.language == 'python']


def _run_python(page) -> None:
  """Runs the Python of a page, from top to bottom."""
  namespace: dict = {}
  for block in _python_blocks(page):
    # Blank lines before it, so that an error names the line of the page.
    code = '\n' * block.line + block.text
    exec(compile(code, str(page), 'exec'), namespace)


@pytest.mark.parametrize(
  'page',
  [
    # Its examples train half a dozen models.
    pytest.param(page, marks=[pytest.mark.slow] if page.name == 'api.md' else [])
    for page in _PAGES
    if page != _CONTRIBUTING
    and page.name not in _COMMANDS_FIRST
    and _python_blocks(page)
  ],
  ids=_ids,
)
def test_python_runs(page, tmp_path, monkeypatch, tff_runtime):
  del tff_runtime  # For computations.
  monkeypatch.chdir(tmp_path)
  # What a page registers is forgotten with it.
  monkeypatch.setattr(registry, 'ALGORITHMS', dict(registry.ALGORITHMS))
  _run_python(page)


# What makes any run short; flags of other tasks and algorithms are left out.
_TINY = {
  'total_rounds': 2,
  'rounds_per_eval': 2,
  'clients_per_round': 3,
  'num_users': 12,
  'num_clients': 12,
  # As many pieces as the text of twelve users has.
  'vocab_size': 500,
  'max_words_per_user': 100,
  'max_eval_users': 3,
  'max_train_examples': 200,
  'sample_tokens': 3000,
  'resample_rounds': 1,
}
# Flags that name what is not in the repository: other machines, data, files.
_ELSEWHERE = {'data', 'public_data', 'vectors_file', 'workers', 'input', 'port'}


def _runnable() -> list[list[str]]:
  """Returns the commands that train on generated data, or on a page's own example.

  Audits of a run's folder are left out: there is no such run.
  """
  commands = [words for page in _PAGES for words in _python_commands(page)]
  return [
    words
    for words in dict.fromkeys(map(tuple, commands))
    if re.search(r'\.(tasks\.\w+|tools\.(study|plan|audit))$', words[2])
    and len(words) > 3
    and words[3].startswith('-')
    and not any(_name(word) in _ELSEWHERE for word in words if 'notes' not in word)
  ]


def _name(word: str) -> str:
  return word.lstrip('-').split('=')[0]


def _value(words, name: str) -> str | None:
  values = [word.split('=')[1] for word in words if _name(word) == name]
  return values[-1] if values else None


def _tiny_flags(words, root=_ROOT) -> list[str]:
  """Returns the flags that make a command, which is run in a folder, short."""
  command = words[2].split('.')[-1]
  if command in ('plan', 'export'):
    return []
  if command == 'audit':
    return ['--canaries=40']
  if command == 'study':
    own = flags.expand_flagfiles(words[3:])
    name = _value(own, 'study')
    chosen = study_files.load(str(root / name) if name.endswith('.toml') else name)
    task = base.find(_value(own, 'task') or chosen.tasks[0])
    made = study_plan.make_plan(chosen, task, {}, (), pathlib.Path('unused'), 'x')
    names = {
      name
      for name in _TINY
      if any(study_plan.reaches(name, run.arm, task) for run in made.runs)
    }
  else:
    task = base.find('stackoverflow' if command == 'notes' else command)
    algorithm = registry.ALGORITHMS.get(
      _value(words, 'algo'), registry.ALGORITHMS['fed_avg']
    )
    names = command_flags.flag_names(task, algorithm)
  return [f'--{name}={value}' for name, value in _TINY.items() if name in names]


@pytest.mark.slow
@pytest.mark.parametrize('words', _runnable(), ids=lambda words: ' '.join(words[2:]))
def test_commands_on_generated_data_run(words, repository, tmp_path):
  subprocess.run(
    [sys.executable, *words[1:], *_tiny_flags(words, repository)],
    check=True,
    cwd=shutil.copytree(repository, tmp_path / 'repository'),
  )


@pytest.mark.slow
@pytest.mark.parametrize(
  'page', [page for page in _PAGES if page.name in _COMMANDS_FIRST], ids=_ids
)
def test_python_runs_after_its_commands(page, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for command in _COMMANDS_FIRST[page.name]:
    words = snippets.split(command)
    subprocess.run([sys.executable, *words[1:], *_tiny_flags(words)], check=True)
  _run_python(page)
