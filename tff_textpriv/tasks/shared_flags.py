"""One command line for several runs: each algorithm gets the flags that it has."""

import dataclasses
import re
from collections.abc import Sequence

from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import registry
from tff_textpriv.tasks import command_flags
from tff_textpriv.training import experiment


def split(
  argv: Sequence[str], *own: type[settings_lib.Settings]
) -> tuple[list[str], list[str]]:
  """Tells a command's own flags from those of the task and of the algorithms.

  Args:
    argv: The arguments, without the program's name.
    *own: The settings of the command itself.

  Returns:
    Its own arguments, and those that are passed on; each is one flag with its value,
    `--name=value`, or stands alone and has no name.

  Raises:
    HelpRequested: If help is asked for.
  """
  if '--help' in argv:
    raise flags.HelpRequested()
  names = {field.name for group in own for field in dataclasses.fields(group)}
  arguments: list[str] = []
  for argument in flags.expand_flagfiles(argv):
    is_value = not argument.startswith('-')
    if is_value and arguments and re.fullmatch('-[^=]+', arguments[-1]):
      arguments[-1] += f'={argument}'
    else:
      arguments.append(argument)
  return (
    [argument for argument in arguments if _possible_names(argument) & names],
    [argument for argument in arguments if not _possible_names(argument) & names],
  )


def has(argument: str, task: experiment.Task, algorithm: str) -> bool:
  """Tells whether runs of the task with the algorithm have the flag."""
  return bool(
    _possible_names(argument)
    & command_flags.flag_names(task, registry.ALGORITHMS[algorithm])
  )


def kept(passed_on: Sequence[str], task: experiment.Task, algorithm: str) -> list[str]:
  """Returns the arguments without those that only other algorithms have.

  A flag of no algorithm at all stays: parsing it will refuse it.
  """
  return [
    argument
    for argument in passed_on
    if has(argument, task, algorithm)
    or not any(has(argument, task, other) for other in registry.ALGORITHMS)
  ]


def _possible_names(argument: str) -> set[str]:
  """Returns the flag's name, and that of the switch that `--noswitch` turns off."""
  name = argument.lstrip('-').split('=')[0]
  return {name, name.removeprefix('no')}
