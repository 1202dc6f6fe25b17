"""Which algorithms a task takes, under which mechanisms, and its command's flags."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import registry
from tff_textpriv.iterative_processes.algorithm import (
  CLASSIFICATION,
  OWN_MECHANISM,
  Algorithm,
)
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
  """Returns the algorithm that `--algo` names, under what `--mechanism` names.

  Args:
    task: The task itself, that is, the variant that is meant.
    given: Values by the names of flags.
    title: What the task is called in a message.

  Raises:
    ValueError: If there is no such algorithm, or it is not one for the task, or has no
      such mechanism.
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
  return under_mechanism(algorithm, given)


def under_mechanism(algorithm: Algorithm, given: Mapping[str, Any]) -> Algorithm:
  """Returns an algorithm under the mechanism that `--mechanism` names.

  Args:
    algorithm: The algorithm, as the registry has it.
    given: Values by the names of flags.

  Raises:
    ValueError: If it has no such mechanism.
  """
  name = given.get('mechanism')
  if name is None:
    return algorithm
  if not algorithm.mechanisms:
    others = [each.name for each in registry.ALGORITHMS.values() if each.mechanisms]
    raise flags.UsageError(
      f'--mechanism is not a flag of --algo={algorithm.name}, which has only one; it '
      f'belongs to {", ".join(others)}'
    )
  known = algorithm.choices
  if name not in known:
    hint = settings_lib.did_you_mean(str(name), known)
    raise settings_lib.SettingsError(
      'mechanism',
      name,
      f'--algo={algorithm.name} has {", ".join(known)}{hint}',
    )
  return known[name]


def command(algorithm: Algorithm) -> str:
  """Returns the flags that choose an algorithm and its mechanism."""
  if algorithm.mechanism == OWN_MECHANISM:
    return f'--algo={algorithm.name}'
  return f'--algo={algorithm.name} --mechanism={algorithm.mechanism}'


def owners(flag: str, algorithm: Algorithm) -> list[str]:
  """Returns to what a flag belongs that an algorithm does not have as it is.

  That is to other mechanisms of the same algorithm, or else to other algorithms.
  """
  own = [
    f'--mechanism={name}'
    for name, each in registry.ALGORITHMS[algorithm.name].choices.items()
    if has_flag(each, flag)
  ]
  return own or [
    each.name for each in registry.ALGORITHMS.values() if has_flag(each, flag)
  ]


def has_flag(algorithm: Algorithm, name: str) -> bool:
  """Tells whether a flag is one of an algorithm, or of its mechanism."""
  groups = (algorithm.settings, algorithm.privacy)
  return any(name in group.__dataclass_fields__ for group in groups)


def every_flag() -> set[str]:
  """Returns the names of all flags that algorithms have."""
  return {
    name
    for algorithm in registry.ALGORITHMS.values()
    for under in algorithm.choices.values()
    for group in (under.settings, under.privacy)
    for name in group.__dataclass_fields__
  }


def groups(task: experiment_lib.Task) -> list[flags.Group]:
  """Returns all groups of flags that the task's command knows."""
  known = algorithms(*family(task))
  privacy = {
    under.privacy: command(under).removeprefix('--algo=')
    for algorithm in known
    for under in algorithm.choices.values()
  }
  return [
    flags.Group('Choice of algorithm', _choice(known)),
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
    *_mechanism_groups(algorithm),
    flags.Group(f'Algorithm {algorithm.name}', algorithm.settings),
    flags.Group('Privacy', algorithm.privacy),
    *_task_groups(task, meant),
    *_run_groups(task, meant),
    _MACHINE,
  ]


def flag_names(task: experiment_lib.Task, algorithm: Algorithm) -> set[str]:
  """Returns the flags that a run of the task, or of a variant, may have."""
  if not any(takes(each, algorithm) for each in family(task)):
    return set()
  return {
    field.name
    for group in groups_of_algorithm(task, algorithm)
    for field in group.fields()
  }


def own_flags(task: experiment_lib.Task, algorithm: Algorithm) -> set[str]:
  """Returns the flags that a run of the task itself has."""
  return flag_names(dataclasses.replace(task, variants={}), algorithm)


def _choice(known: list[Algorithm]) -> type[settings_lib.Settings]:
  """Makes the settings that choose an algorithm and, where one has several, a mechanism."""
  names = [algorithm.name for algorithm in known]
  fields = {'algo': setting(None, 'The algorithm; required.', choices=names)}
  mechanisms = dict.fromkeys(name for a in known if a.mechanisms for name in a.choices)
  if mechanisms:
    fields['mechanism'] = _mechanism(tuple(mechanisms))
  return _settings('AlgorithmChoice', fields)


def _mechanism_groups(algorithm: Algorithm) -> list[flags.Group]:
  """Returns the group of `--mechanism`, if an algorithm has a choice."""
  if not algorithm.mechanisms:
    return []
  choices = tuple(registry.ALGORITHMS[algorithm.name].choices)
  made = _settings('MechanismChoice', {'mechanism': _mechanism(choices)})
  return [flags.Group('Choice of mechanism', made)]


def _mechanism(choices: tuple[str, ...]) -> Any:
  return setting(
    OWN_MECHANISM,
    'What noises the updates and makes the promise: the algorithm’s own mechanism, or one '
    'of the others that it has. Each has flags of its own.',
    choices=choices,
    key='another mechanism',
  )


def _settings(name: str, fields: Mapping[str, Any]) -> type[settings_lib.Settings]:
  """Makes a class of settings that are texts."""
  return dataclasses.make_dataclass(
    name,
    [(each, str | None, field) for each, field in fields.items()],
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
