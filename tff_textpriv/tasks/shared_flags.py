"""One command line for several runs: each algorithm gets the flags that it has."""

import dataclasses
import re
from collections.abc import Sequence

from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import registry
from tff_textpriv.iterative_processes.algorithm import Algorithm
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
  known = names | command_flags.every_flag()
  for argument in flags.expand_flagfiles(argv):
    argument = flags.in_full(argument, known)
    is_value = not argument.startswith('-')
    if is_value and arguments and re.fullmatch('-[^=]+', arguments[-1]):
      arguments[-1] += f'={argument}'
    else:
      arguments.append(argument)
  return (
    [argument for argument in arguments if _possible_names(argument) & names],
    [argument for argument in arguments if not _possible_names(argument) & names],
  )


def under_mechanism(passed_on: Sequence[str], algorithm: str) -> Algorithm:
  """Returns an algorithm under the mechanism that arguments name, if it has a choice.

  Raises:
    ValueError: If it has no such mechanism.
  """
  chosen = registry.ALGORITHMS[algorithm]
  named = [each for each in passed_on if _possible_names(each) & {'mechanism'}]
  if not named or not chosen.mechanisms:
    return chosen
  return command_flags.under_mechanism(
    chosen, {'mechanism': named[-1].partition('=')[2]}
  )


def has(argument: str, task: experiment.Task, algorithm: Algorithm) -> bool:
  """Tells whether runs of the task with the algorithm have the flag."""
  return bool(_possible_names(argument) & command_flags.flag_names(task, algorithm))


def kept(passed_on: Sequence[str], task: experiment.Task, algorithm: str) -> list[str]:
  """Returns the arguments without those that only other algorithms have.

  Flags of another mechanism than the one that the arguments name are left out, too. A flag
  of no algorithm at all stays: parsing it will refuse it.
  """
  chosen = under_mechanism(passed_on, algorithm)
  others = [
    other for each in registry.ALGORITHMS.values() for other in each.choices.values()
  ]
  return [
    argument
    for argument in passed_on
    if has(argument, task, chosen)
    or not any(has(argument, task, other) for other in others)
  ]


def _possible_names(argument: str) -> set[str]:
  """Returns the flag's name, and that of the switch that `--noswitch` turns off."""
  name = argument.lstrip('-').split('=')[0]
  return {name, name.removeprefix('no')}
