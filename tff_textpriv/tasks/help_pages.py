"""What `--help` of a task prints: a page to begin with, and pages with all flags.

`--help` names the algorithms and the flags that matter most, `--algo=NAME --help` all
flags of one algorithm (with `--mechanism=NAME`, under another mechanism than its own), and
`--helpfull` all flags of all of them.
"""

import importlib
import textwrap
from collections.abc import Sequence

from tff_textpriv import flags, tasks
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import registry
from tff_textpriv.iterative_processes.algorithm import Algorithm
from tff_textpriv.privacy.mechanism import MechanismSettings
from tff_textpriv.tasks import command_flags
from tff_textpriv.training import experiment as experiment_lib

# Of algorithms that not all variants of a task take.
_MARKS = '*+'
# Algorithms that a line of the first page names; of more their number.
_MOST_NAMED = 4
_FLAG_WIDTH = len('--epsilon_per_coordinate')


def page(task: experiment_lib.Task, argv: Sequence[str] = ()) -> str:
  """Writes the help that a command line asks for.

  Args:
    task: The task.
    argv: The arguments of its command.

  Raises:
    ValueError: If the rest of the command line cannot be understood, or names an
      algorithm that is none of the task's.
  """
  if flags.FULL_HELP in argv:
    return flags.format_help(
      _usage(task), f'{task.summary} {_listed(task)}', command_flags.groups(task)
    )
  given = flags.parse(flags.without_help(argv), command_flags.groups(task))
  if 'algo' not in given:
    return _first_page(task)
  for flag, variant in task.variants.items():
    if flag in given:
      task = variant
  known = command_flags.algorithms(*command_flags.family(task))
  title = command_flags.titles(task)[task.settings]
  by_name = {algorithm.name: algorithm for algorithm in known}
  algorithm = by_name.get(given['algo']) or command_flags.choose(task, given, title)
  chosen = command_flags.under_mechanism(algorithm, given)
  return flags.format_help(
    _usage(task, command_flags.command(chosen)),
    f'{task.summary} {algorithm.name}: {algorithm.summary}. Promise: '
    f'{chosen.privacy.promise}.{_alternatives(chosen)}',
    command_flags.groups_of_algorithm(task, chosen),
  )


def _alternatives(chosen: Algorithm) -> str:
  """Says what an algorithm promises under its other mechanisms."""
  choices = registry.ALGORITHMS[chosen.name].choices
  return ''.join(
    f' With --mechanism={name}: {under.privacy.promise}.'
    for name, under in choices.items()
    if name != chosen.mechanism
  )


def examples(task: experiment_lib.Task) -> list[str]:
  """Returns two commands: one that works at once, and the one of the task's module."""
  module = importlib.import_module(f'{tasks.__name__}.{task.name}')
  assert module.__doc__ is not None
  return [
    f'{_command(task)} --algo=fed_avg --total_rounds=10',
    ' '.join(module.__doc__.split('\n\n')[1].split()),
  ]


def _first_page(task: experiment_lib.Task) -> str:
  """Writes the page that fits on two screens."""
  lines = [
    f'usage: {_usage(task)}',
    '',
    *textwrap.wrap(task.summary, flags.HELP_WIDTH),
    '',
    'Algorithms, by what they promise to users:',
    *_algorithm_lines(task),
    '',
    'Flags that matter most, with their defaults:',
    *_key_lines(task),
    '',
    'Examples; the first one needs no data:',
    *(line for example in examples(task) for line in _wrapped(example)),
    '',
    'More:',
    '  --algo=NAME --help   all flags of runs with an algorithm, and its other mechanisms',
    '  --helpfull           all flags of all algorithms',
    '  --flagfile=FILE      flags from a file, one per line',
  ]
  return '\n'.join(lines)


def _wrapped(command: str) -> list[str]:
  """Writes a command in lines that a shell reads as one."""
  width = flags.HELP_WIDTH - len(' \\')
  *lines, last = textwrap.wrap(
    command, width, initial_indent='  ', subsequent_indent='      ',
    break_on_hyphens=False, break_long_words=False,
  )  # fmt: skip
  return [*(f'{line} \\' for line in lines), last]


def _algorithm_lines(task: experiment_lib.Task) -> list[str]:
  """Lists the task's algorithms under what they promise, nothing last."""
  family, titles = command_flags.family(task), command_flags.titles(task)
  marks: dict[str, str] = {}  # By the variants for which they stand.
  names: dict[str, Algorithm] = {}
  for algorithm in command_flags.algorithms(*family):
    meant = [each for each in family if command_flags.takes(each, algorithm)]
    variants = ', '.join(titles[each.settings] for each in meant)
    if len(meant) < len(family) and variants not in marks:
      marks[variants] = _MARKS[len(marks)]
    names[algorithm.name + marks.get(variants, '')] = algorithm
  width = max(map(len, names))
  lines: dict[str, list[str]] = {}
  for name, algorithm in names.items():
    below = lines.setdefault(algorithm.privacy.promise, [])
    below.append(f'    {name:<{width}}  {algorithm.summary}')
  promises = sorted(lines, key=lambda promise: promise == MechanismSettings.promise)
  return [
    *(line for each in promises for line in (f'  {each}:', *lines[each])),
    *(f'  {mark} {variants} only' for variants, mark in marks.items()),
  ]


def _listed(task: experiment_lib.Task) -> str:
  """Lists the task's algorithms in a sentence."""
  known = command_flags.algorithms(*command_flags.family(task))
  return f'Algorithms: {"; ".join(f"{a.name}: {a.summary}" for a in known)}.'


def _key_lines(task: experiment_lib.Task) -> list[str]:
  """Lists the flags that are declared as important, one per line."""
  texts: dict[str, str] = {}
  defaults: dict[str, set[str]] = {}
  for group in command_flags.groups(task):
    for field in group.fields():
      text = settings_lib.key_text(group.settings, field.name)
      if text:
        texts.setdefault(field.name, text)
        defaults.setdefault(field.name, set()).add(
          f'={settings_lib.format_value(field.default)}' * (field.default is not None)
        )
  lines = []
  for name, text in texts.items():
    # A default is shown where all groups have the same.
    default = min(defaults[name]) if len(defaults[name]) == 1 else ''
    named = _owners(task, name)
    owners = (
      ', '.join(named) if len(named) <= _MOST_NAMED else f'{len(named)} algorithms'
    )
    lines.append(
      f'  {f"--{name}{default}":<{_FLAG_WIDTH}}  {text}'
      + (f' ({owners})' if owners else '')
    )
  return lines


def _owners(task: experiment_lib.Task, name: str) -> list[str]:
  """Returns the algorithms to which a flag belongs; none if it is one of all runs."""
  return [
    algorithm.name
    for algorithm in command_flags.algorithms(*command_flags.family(task))
    if command_flags.has_flag(algorithm, name)
    or (name == 'mechanism' and algorithm.mechanisms)
  ]


def _command(task: experiment_lib.Task) -> str:
  return f'python -m {tasks.__name__}.{task.name}'


def _usage(task: experiment_lib.Task, choice: str = '--algo=NAME') -> str:
  return f'{_command(task)} {choice} [--flag=value ...]'
