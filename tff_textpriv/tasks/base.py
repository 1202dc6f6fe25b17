"""What every task's command does: read flags, run the experiment, report."""

import dataclasses
import importlib
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from tff_textpriv import flags, tasks
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import registry
from tff_textpriv.privacy import plans
from tff_textpriv.reports import page
from tff_textpriv.runtime import heaps
from tff_textpriv.settings import setting
from tff_textpriv.training import experiment as experiment_lib
from tff_textpriv.training import settings as training_settings


@dataclasses.dataclass(frozen=True)
class _AlgorithmChoice(settings_lib.Settings):
  algo: str | None = setting(
    None, 'The algorithm; required.', choices=tuple(registry.ALGORITHMS)
  )


def find(name: str) -> experiment_lib.Task:
  """Returns the task of a name; raises `SettingsError` if there is none."""
  known = {}
  for file in pkgutil.iter_modules(tasks.__path__):
    module = importlib.import_module(f'{tasks.__name__}.{file.name}')
    if hasattr(module, 'TASK'):
      known[file.name] = module.TASK
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

  flags.exit_with_sentences(command, lambda: help_page(task))


def run(experiment: experiment_lib.Experiment) -> int:
  """Runs an experiment and writes its report.html; returns the exit code."""
  experiment.task.check(experiment.task_settings)
  code = _train(experiment)
  if code == 0:
    file = experiment.folder / 'report.html'
    page.write([experiment.folder], file)
    print(f'report:  {file}')
  return code


def _train(experiment: experiment_lib.Experiment) -> int:
  """Trains in the way of the task's kind; returns the exit code."""
  heaps.limit()  # Before TensorFlow starts its threads.
  # Only now is TensorFlow needed: help and wrong flags are answered before.
  if experiment.task.kind == 'classification':
    from tff_textpriv.training import classification

    return classification.run(experiment)
  from tff_textpriv.training import language_modeling

  return language_modeling.run(experiment)


def parse(task: experiment_lib.Task, argv: Sequence[str]) -> experiment_lib.Experiment:
  """Turns a command line into an experiment.

  Args:
    task: The task that is run.
    argv: The arguments, without the program's name.

  Returns:
    The experiment.

  Raises:
    ValueError: For a flag that is unknown, wrong, or of another algorithm.
  """
  given = flags.parse(argv, groups(task))
  titles = _titles(task)
  for flag, variant in task.variants.items():
    if flag in given:
      task = variant
  name = flags.make(_AlgorithmChoice, given).algo
  if name is None:
    raise flags.UsageError(f'--algo is missing; one of {", ".join(_names(task))}')
  algorithm = registry.ALGORITHMS[name]
  if task.kind not in algorithm.kinds:
    raise flags.UsageError(
      f'--algo={name} does not go with the {titles[task.settings]}, which is one of '
      f'{task.kind.replace("_", " ")}; {", ".join(_names(task))} do'
    )
  _refuse_foreign(given, task, algorithm, titles)
  return experiment_lib.Experiment(
    task,
    algorithm,
    flags.make(task.settings, {**task.defaults(algorithm), **given}),
    flags.make(algorithm.settings, given),
    flags.make(algorithm.privacy, given) if algorithm.privacy else None,
    flags.make(task.run_settings, given),
    flags.make(training_settings.MachineSettings, given),
  )


def help_page(task: experiment_lib.Task) -> str:
  """Writes a task's help."""
  algorithms = '; '.join(
    f'{name}: {registry.ALGORITHMS[name].summary}' for name in _names(*_family(task))
  )
  return flags.format_help(
    f'python -m tff_textpriv.tasks.{task.name} --algo=NAME [--flag=value ...]',
    f'{task.summary} Algorithms: {algorithms}.',
    groups(task),
  )


def _family(task: experiment_lib.Task) -> list[experiment_lib.Task]:
  """Returns a task and its variants."""
  return [task, *task.variants.values()]


def _titles(
  task: experiment_lib.Task,
) -> dict[type[settings_lib.Settings], str]:
  """Names a task and its variants, by their settings, by what tells them apart."""
  without = ' or '.join(f'--{flag}' for flag in task.variants)
  titles = {task.settings: f'task {task.name}' + f' without {without}' * bool(without)}
  for flag, variant in task.variants.items():
    titles[variant.settings] = f'task {task.name} with --{flag}'
  return titles


def groups(task: experiment_lib.Task) -> list[flags.Group]:
  """Returns all groups of flags that the task's command knows."""
  algorithms = [registry.ALGORITHMS[name] for name in _names(*_family(task))]
  privacy = {a.privacy: a.name for a in algorithms if a.privacy is not None}
  titles = _titles(task)
  return [
    flags.Group('Choice of algorithm', _AlgorithmChoice),
    *(flags.Group(title.capitalize(), group) for group, title in titles.items()),
    *(flags.Group(f'Algorithm {a.name}', a.settings) for a in algorithms),
    *(flags.Group(f'Privacy ({name})', group) for group, name in privacy.items()),
    *(
      flags.Group(
        f'Run of the {titles[each.settings]}' if task.variants else 'Run',
        each.run_settings,
      )
      for each in _family(task)
    ),
    flags.Group(
      'Output and machine (may differ when a run is resumed)',
      training_settings.MachineSettings,
    ),
  ]


def flag_names(task: experiment_lib.Task, algorithm: registry.Algorithm) -> set[str]:
  """Returns the flags that a run of the task, or of a variant, may have."""
  return set[str]().union(
    *(
      _own_flags(each, algorithm)
      for each in _family(task)
      if each.kind in algorithm.kinds
    )
  )


def _own_flags(task: experiment_lib.Task, algorithm: registry.Algorithm) -> set[str]:
  """Returns the flags that a run of the task itself has."""
  return set[str]().union(
    *(
      _flag_names(group)
      for group in (
        task.settings,
        algorithm.settings,
        algorithm.privacy,
        task.run_settings,
        training_settings.MachineSettings,
      )
    )
  )


def _names(*tasks: experiment_lib.Task) -> list[str]:
  """Returns the algorithms that can train one of the tasks."""
  return [
    name
    for name, algorithm in registry.ALGORITHMS.items()
    if any(task.kind in algorithm.kinds for task in tasks)
  ]


def _refuse_foreign(
  given: Mapping[str, str],
  task: experiment_lib.Task,
  algorithm: registry.Algorithm,
  titles: Mapping[type[settings_lib.Settings], str],
) -> None:
  """Raises `UsageError` if a flag of another algorithm or variant was given."""
  for name in sorted(given.keys() - {'algo'} - _own_flags(task, algorithm)):
    owners = [
      other.name
      for other in registry.ALGORITHMS.values()
      if name in _flag_names(other.settings) | _flag_names(other.privacy)
    ]
    if not owners:
      others = [title for group, title in titles.items() if group is not task.settings]
      raise flags.UsageError(
        f'--{name} is not a flag of the {titles[task.settings]}, but of the '
        f'{" or the ".join(others)}'
      )
    why = ''
    if name in _flag_names(plans.PrivacySettings) and algorithm.no_central_privacy:
      why = f': {algorithm.no_central_privacy}'
    raise flags.UsageError(
      f'--{name} is not a flag of --algo={algorithm.name}; it belongs to '
      f'{", ".join(owners)}{why}'
    )


def _flag_names(group: type[settings_lib.Settings] | None) -> set[str]:
  return set() if group is None else {field.name for field in dataclasses.fields(group)}
