"""What every task's command does: read flags, run the experiment, report."""

import dataclasses
import importlib
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from tff_textpriv import flags, tasks
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes.algorithm import Algorithm
from tff_textpriv.privacy import own_mechanism
from tff_textpriv.privacy.mechanism import MechanismSettings
from tff_textpriv.privacy.no_mechanism import NoPrivacySettings
from tff_textpriv.reports import page
from tff_textpriv.runtime import heaps
from tff_textpriv.tasks import command_flags, help_pages
from tff_textpriv.training import experiment as experiment_lib
from tff_textpriv.training import own_parts, run_settings

# Tasks of a program's own.
_OWN: dict[str, experiment_lib.Task] = {}


def register(task: experiment_lib.Task) -> None:
  """Adds a task of a program's own, or puts it in the place of one that was added.

  Raises:
    SettingsError: If its name is that of one of the package.
  """
  if task.name in all_tasks().keys() - _OWN.keys():
    raise settings_lib.SettingsError(
      'task', task.name, 'is a task of the package; give yours another name'
    )
  _OWN[task.name] = task


def all_tasks() -> dict[str, experiment_lib.Task]:
  """Returns the tasks by name: the modules of this folder that have a `TASK`, and added ones."""
  modules = {
    file.name: importlib.import_module(f'{tasks.__name__}.{file.name}')
    for file in pkgutil.iter_modules(tasks.__path__)
  }
  own = {
    name: module.TASK for name, module in modules.items() if hasattr(module, 'TASK')
  }
  return own | _OWN


def find(name: str) -> experiment_lib.Task:
  """Returns the task of a name; raises `SettingsError` if there is none."""
  known = all_tasks()
  if name not in known:
    hint = settings_lib.did_you_mean(name, known)
    raise settings_lib.SettingsError(
      'task', name, f'must be one of {", ".join(known)}{hint}'
    )
  return known[name]


def main(task: experiment_lib.Task) -> NoReturn:
  """Runs a task as a command, and exits."""

  def command() -> int:
    return run(parse(task, sys.argv[1:]))

  flags.exit_with_sentences(command, lambda: help_pages.page(task, sys.argv[1:]))


def run(experiment: experiment_lib.Experiment) -> int:
  """Runs an experiment and writes its report.html; returns the exit code."""
  experiment.task.check(experiment.task_settings)
  experiment.privacy_settings.check()
  heaps.limit()  # Before TensorFlow starts its threads.
  # Only now is TensorFlow needed: help and wrong flags are answered before.
  from tff_textpriv.training import runner

  code = runner.run(experiment)
  if code == 0:
    file = experiment.folder / 'report.html'
    page.write([experiment.folder], file)
    print(f'report:  {file}')
  return code


def parse(task: experiment_lib.Task, argv: Sequence[str]) -> experiment_lib.Experiment:
  """Turns a command line into an experiment.

  Args:
    task: The task that is run.
    argv: The arguments, without the program's name.

  Raises:
    ValueError: For a flag that is unknown, wrong, or of another algorithm.
  """
  return make_experiment(task, flags.parse(argv, command_flags.groups(task)))


def make_experiment(
  task: experiment_lib.Task,
  given: Mapping[str, Any],
  own: own_parts.OwnParts = own_parts.NOTHING,
) -> experiment_lib.Experiment:
  """Makes an experiment of a task.

  Args:
    task: The task that is run.
    given: Values by the names of flags, `algo` and perhaps `mechanism` among them: texts
      as one would type them, or Python values.
    own: Objects that take the place of what flags name.

  Raises:
    ValueError: For a name that is unknown, a value that is wrong, or a flag of another
      algorithm or mechanism.
  """
  groups = command_flags.groups(task)
  names = {field.name for group in groups for field in group.fields()}
  given = {
    flags.in_full(f'--{name}', names).removeprefix('--'): value
    for name, value in given.items()
  }
  known = [f'--{name}' for name in names]
  for name in given:
    if f'--{name}' not in known:
      hint = settings_lib.did_you_mean(f'--{name}', known)
      raise flags.UsageError(
        f'--{settings_lib.shown(name)} is not a flag of this command{hint}'
      )
  titles = command_flags.titles(task)
  for flag, variant in task.variants.items():
    if flag in given:
      task = variant
  algorithm = command_flags.choose(task, given, titles[task.settings])
  _refuse_foreign(given, task, algorithm, titles)
  algorithm_settings = flags.make(algorithm.settings, given)
  _check_own(own, algorithm, algorithm_settings)
  privacy: MechanismSettings = flags.make(algorithm.privacy, given)
  if task.accounts_own_users:
    sizes = {'accounted_population', 'accounted_cohort'} - given.keys()
    sizes &= algorithm.privacy.__dataclass_fields__.keys()
    privacy = dataclasses.replace(privacy, **dict.fromkeys(sizes))
  if own.aggregator is not None:
    privacy = own_mechanism.OwnAggregatorSettings(own.aggregator)
  chosen = experiment_lib.Experiment(
    task,
    algorithm,
    flags.make(task.settings, {**task.defaults(algorithm), **given}),
    algorithm_settings,
    privacy,
    # What the mechanism decides, how users come, is no matter of the run.
    flags.make(
      task.run_settings,
      {
        n: v
        for n, v in given.items()
        if n not in algorithm.privacy.__dataclass_fields__
      },
    ),
    flags.make(run_settings.MachineSettings, given),
    own,
  )
  return task.fit(chosen, given.keys())


def _check_own(
  own: own_parts.OwnParts, algorithm: Algorithm, algorithm_settings: Any
) -> None:
  """Refuses objects that an algorithm would not use as they are."""
  takes_model = algorithm.has_whole_model and not algorithm_settings.learns_tokenizer
  if own.model is not None and not takes_model:
    raise flags.UsageError(
      f'--algo={algorithm.name} takes no model of your own: it must know which of its '
      'weights belong to words'
    )
  averages = algorithm.privacy is NoPrivacySettings and not algorithm.averages_its_way
  if own.aggregator is not None and not averages:
    raise flags.UsageError(
      f'--algo={algorithm.name} takes no aggregator of your own: what it does with '
      'updates is its own matter; fed_avg and its like do'
    )


def _refuse_foreign(
  given: Mapping[str, Any],
  task: experiment_lib.Task,
  algorithm: Algorithm,
  titles: Mapping[type[settings_lib.Settings], str],
) -> None:
  """Raises `UsageError` for a flag of another algorithm, mechanism or variant."""
  for name in sorted(
    given.keys() - {'algo'} - command_flags.own_flags(task, algorithm)
  ):
    owners = command_flags.owners(name, algorithm)
    if not owners:
      others = [title for group, title in titles.items() if group is not task.settings]
      raise flags.UsageError(
        f'--{name} is not a flag of the {titles[task.settings]}, but of the '
        f'{" or the ".join(others)}'
      )
    why = ''.join(
      f': {reason}'
      for group, reason in algorithm.refuses.items()
      if name in group.__dataclass_fields__
    )
    raise flags.UsageError(
      f'--{name} is not a flag of {command_flags.command(algorithm)}; it belongs to '
      f'{", ".join(owners)}{why}'
    )
