"""Which algorithms a task takes, and the flags of its command."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import registry
from tff_textpriv.iterative_processes.algorithm import CLASSIFICATION, Algorithm
from tff_textpriv.models import sequence_presets
from tff_textpriv.settings import setting
from tff_textpriv.training import experiment as experiment_lib
from tff_textpriv.training import run_settings

_MACHINE = flags.Group(
  'Output and machine (may differ when a run is resumed)',
  run_settings.MachineSettings,
)


def family(task: experiment_lib.Task) -> list[experiment_lib.Task]:
  """Returns a task and its variants."""
  return [task, *task.variants.values()]


def titles(task: experiment_lib.Task) -> dict[type[settings_lib.Settings], str]:
  """Names a task and its variants, by their settings, by what tells them apart."""
  without = ' or '.join(f'--{flag}' for flag in task.variants)
  named = {task.settings: f'task {task.name}' + f' without {without}' * bool(without)}
  for flag, variant in task.variants.items():
    named[variant.settings] = f'task {task.name} with --{flag}'
  return named


def takes(task: experiment_lib.Task, algorithm: Algorithm) -> bool:
  """Tells whether a task itself can be trained with an algorithm."""
  return task.kind in algorithm.kinds and (
    algorithm.has_whole_model
    or task.kind != CLASSIFICATION
    or _has_word_embeddings(task)
  )


def algorithms(*tasks: experiment_lib.Task) -> list[Algorithm]:
  """Returns the algorithms with which one of the tasks can be trained."""
  return [
    algorithm
    for algorithm in registry.ALGORITHMS.values()
    if any(takes(task, algorithm) for task in tasks)
  ]


def choose(
  task: experiment_lib.Task, given: Mapping[str, Any], title: str
) -> Algorithm:
  """Returns the algorithm that `--algo` names.

  Args:
    task: The task itself, that is, the variant that is meant.
    given: Values by the names of flags.
    title: What the task is called in a message.

  Raises:
    ValueError: If there is no such algorithm, or it is not one for the task.
  """
  known = [algorithm.name for algorithm in algorithms(task)]
  name = given.get('algo')
  if name is None:
    raise flags.UsageError(f'--algo is missing; one of {", ".join(known)}')
  algorithm = registry.ALGORITHMS.get(str(name))
  if algorithm is None:
    hint = settings_lib.did_you_mean(name, known)
    raise settings_lib.SettingsError(
      'algo', name, f'must be one of {", ".join(known)}{hint}'
    )
  if not takes(task, algorithm):
    why = f'which is one of {task.kind.replace("_", " ")}'
    if task.kind in algorithm.kinds:
      why = 'the models of which have no embedding of words to leave on the device'
    raise flags.UsageError(
      f'--algo={name} does not go with the {title}, {why}; {", ".join(known)} do'
    )
  return algorithm


def groups(task: experiment_lib.Task) -> list[flags.Group]:
  """Returns all groups of flags that the task's command knows."""
  known = algorithms(*family(task))
  privacy = {a.privacy: a.name for a in known}
  return [
    flags.Group('Choice of algorithm', _choice(*family(task))),
    *_task_groups(task, family(task)),
    *(flags.Group(f'Algorithm {a.name}', a.settings) for a in known),
    *(flags.Group(f'Privacy ({name})', group) for group, name in privacy.items()),
    *_run_groups(task, family(task)),
    _MACHINE,
  ]


def groups_of_algorithm(
  task: experiment_lib.Task, algorithm: Algorithm
) -> list[flags.Group]:
  """Returns the groups of flags that runs with an algorithm have."""
  meant = [each for each in family(task) if takes(each, algorithm)]
  return [
    flags.Group(f'Algorithm {algorithm.name}', algorithm.settings),
    flags.Group('Privacy', algorithm.privacy),
    *_task_groups(task, meant),
    *_run_groups(task, meant),
    _MACHINE,
  ]


def flag_names(task: experiment_lib.Task, algorithm: Algorithm) -> set[str]:
  """Returns the flags that a run of the task, or of a variant, may have."""
  if algorithm not in algorithms(*family(task)):
    return set()
  return {
    field.name
    for group in groups_of_algorithm(task, algorithm)
    for field in group.fields()
  }


def own_flags(task: experiment_lib.Task, algorithm: Algorithm) -> set[str]:
  """Returns the flags that a run of the task itself has."""
  return flag_names(dataclasses.replace(task, variants={}), algorithm)


def _choice(*tasks: experiment_lib.Task) -> type[settings_lib.Settings]:
  """Makes the settings of which `--algo` is the only one."""
  names = [algorithm.name for algorithm in algorithms(*tasks)]
  field = setting(None, 'The algorithm; required.', choices=names)
  return dataclasses.make_dataclass(
    'AlgorithmChoice',
    [('algo', str | None, field)],
    bases=(settings_lib.Settings,),
    frozen=True,
  )


def _has_word_embeddings(task: experiment_lib.Task) -> bool:
  """Tells whether a task offers models with an embedding of words."""
  models = task.settings.__dataclass_fields__['model'].metadata['choices']
  return any(model in sequence_presets.MODELS for model in models)


def _task_groups(
  task: experiment_lib.Task, meant: list[experiment_lib.Task]
) -> list[flags.Group]:
  """Returns the groups of the task's own flags, for those of its family."""
  named = titles(task)
  return [
    flags.Group(named[each.settings].capitalize(), each.settings) for each in meant
  ]


def _run_groups(
  task: experiment_lib.Task, meant: list[experiment_lib.Task]
) -> list[flags.Group]:
  """Returns the groups of the run's flags, for those of the task's family."""
  named = titles(task)
  return [
    flags.Group(
      f'Run of the {named[each.settings]}' if task.variants else 'Run',
      each.run_settings,
    )
    for each in meant
  ]
