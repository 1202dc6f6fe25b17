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
  code = _train(experiment)
  if code == 0:
    file = experiment.folder / 'report.html'
    page.write([experiment.folder], file)
    print(f'report:  {file}')
  return code


def _train(experiment: experiment_lib.Experiment) -> int:
  """Trains in the way of the task's kind; returns the exit code."""
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
  given = flags.parse(argv, _groups(task))
  name = flags.make(_AlgorithmChoice, given).algo
  if name is None:
    raise flags.UsageError(f'--algo is missing; one of {", ".join(_names(task))}')
  algorithm = registry.ALGORITHMS[name]
  if task.kind not in algorithm.kinds:
    raise flags.UsageError(
      f'--algo={name} does not go with the task {task.name}, which is one of '
      f'{task.kind.replace("_", " ")}; {", ".join(_names(task))} do'
    )
  _refuse_foreign(given, task, algorithm)
  return experiment_lib.Experiment(
    task,
    algorithm,
    flags.make(task.settings, given),
    flags.make(algorithm.settings, given),
    flags.make(algorithm.privacy, given) if algorithm.privacy else None,
    flags.make(task.run_settings, given),
    flags.make(training_settings.MachineSettings, given),
  )


def help_page(task: experiment_lib.Task) -> str:
  """Writes a task's help."""
  algorithms = '; '.join(
    f'{name}: {registry.ALGORITHMS[name].summary}' for name in _names(task)
  )
  return flags.format_help(
    f'python -m tff_textpriv.tasks.{task.name} --algo=NAME [--flag=value ...]',
    f'{task.summary} Algorithms: {algorithms}.',
    _groups(task),
  )


def _groups(task: experiment_lib.Task) -> list[flags.Group]:
  """Returns all groups of flags that the task's command knows."""
  algorithms = [registry.ALGORITHMS[name] for name in _names(task)]
  privacy = {a.privacy: a.name for a in algorithms if a.privacy is not None}
  return [
    flags.Group('Choice of algorithm', _AlgorithmChoice),
    flags.Group(f'Task {task.name}', task.settings),
    *(flags.Group(f'Algorithm {a.name}', a.settings) for a in algorithms),
    *(flags.Group(f'Privacy ({name})', group) for group, name in privacy.items()),
    flags.Group('Run', task.run_settings),
    flags.Group(
      'Output and machine (may differ when a run is resumed)',
      training_settings.MachineSettings,
    ),
  ]


def _names(task: experiment_lib.Task) -> list[str]:
  """Returns the algorithms that can train the task."""
  return [
    name
    for name, algorithm in registry.ALGORITHMS.items()
    if task.kind in algorithm.kinds
  ]


def _refuse_foreign(
  given: Mapping[str, str], task: experiment_lib.Task, algorithm: registry.Algorithm
) -> None:
  """Raises `UsageError` if a flag of another algorithm was given."""
  own = {'algo'}.union(
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
  for name in sorted(given.keys() - own):
    owners = [
      other.name
      for other in registry.ALGORITHMS.values()
      if name in _flag_names(other.settings) | _flag_names(other.privacy)
    ]
    why = ''
    if name in _flag_names(plans.PrivacySettings) and algorithm.no_central_privacy:
      why = f': {algorithm.no_central_privacy}'
    raise flags.UsageError(
      f'--{name} is not a flag of --algo={algorithm.name}; it belongs to '
      f'{", ".join(owners)}{why}'
    )


def _flag_names(group: type[settings_lib.Settings] | None) -> set[str]:
  return set() if group is None else {field.name for field in dataclasses.fields(group)}
