"""What a study is going to run: every arm with every seed, each with its flags.

Runs of one seed are paired: users, their rounds and their batches are functions of the
seed, the round and the user, whatever the arm does with them.
"""

import dataclasses
import fnmatch
import pathlib
import types
from collections.abc import Mapping, Sequence
from typing import Any

from tff_textpriv import flags, run_folder
from tff_textpriv import settings as settings_lib
from tff_textpriv.experiments import study as study_lib
from tff_textpriv.experiments import templates
from tff_textpriv.iterative_processes import registry
from tff_textpriv.tasks import base, command_flags
from tff_textpriv.training import experiment as experiment_lib

# Settings of a run that a study makes itself, and what to use instead.
_OWN = {
  'root_output_dir': 'is the study’s to choose; use --study_dir',
  'experiment_name': 'is the study’s to choose; use --study_dir',
  'stop_after_round': 'is the study’s to choose: it makes whole runs',
  'algo': 'is that of each arm of the study',
}
# Any algorithm that trains all tasks tells what the flags amount to.
_PROBE = 'dp_fed_avg'


@dataclasses.dataclass(frozen=True)
class Run:
  """An arm with a seed.

  Attributes:
    arm: The arm.
    experiment: What is run.
    argv: The flags of the task's command that make it.
  """

  arm: study_lib.Arm
  experiment: experiment_lib.Experiment
  argv: tuple[str, ...]

  @property
  def seed(self) -> int:
    """The seed."""
    return self.experiment.run.seed

  @property
  def name(self) -> str:
    """What it is called in what is printed."""
    return f'{self.arm.label}, seed {self.seed}'

  @property
  def task(self) -> str:
    """The name of the task."""
    return self.experiment.task.name

  @property
  def log_file(self) -> pathlib.Path:
    """Where its output goes, if it is made beside others."""
    return self.experiment.folder / 'run.log'

  def results(self) -> dict[str, Any] | None:
    """Returns its figures; `None` if it has not finished."""
    return run_folder.finished_results(self.experiment.folder, self.experiment.config)


@dataclasses.dataclass(frozen=True)
class Plan:
  """All runs of a study on a task.

  Attributes:
    runs: The runs, by arm and then by seed.
    reference: The label of the arm that others are compared with.
    notes: What the flags of the command line do not reach, in sentences.
  """

  runs: Sequence[Run]
  reference: str
  notes: Sequence[str]


def make_plan(
  study: study_lib.Study,
  task: experiment_lib.Task,
  given: Mapping[str, str],
  seeds: Sequence[int],
  folder: pathlib.Path,
  cross_data: str | None = None,
  only: Sequence[str] = (),
) -> Plan:
  """Makes the runs of a study.

  Args:
    study: The study.
    task: The task.
    given: Flags of the command line that are passed on to the runs, by name.
    seeds: The seeds of every arm; empty for the one of the flags.
    folder: The study's folder.
    cross_data: A text file of another domain, where an arm asks for one.
    only: Patterns of arms' folders, `switch_*` say: the others are left out; empty for
      all arms.

  Raises:
    ValueError: For a flag that reaches no arm, or is wrong.
  """
  for name, problem in _OWN.items():
    if name in given:
      raise settings_lib.SettingsError(name, None, problem)
  if seeds and 'seed' in given:
    raise settings_lib.SettingsError('seed', None, 'give either --seed or --seeds')
  defaults = study.defaults(task.name)
  plain = {
    name: value for name, value in defaults.items() if not templates.names_in(value)
  }
  everywhere = {**plain, **given}
  everywhere.pop('mechanism', None)  # Only some algorithms have a choice.
  probe = base.make_experiment(task, _given(task, everywhere, {'algo': _PROBE}))
  names = _names(probe)
  if 'cross_data' in study.names_used():
    file = cross_data or _other_domain(probe, folder)
    names |= {'cross_data': file, 'cross_domain': pathlib.Path(file).stem}
  common = {**study.filled_defaults(task.name, names), **given}
  all_arms = study.arms(task.name, names)
  reference = study.reference_arm(all_arms, names)
  arms = _chosen(all_arms, reference, only) if only else all_arms
  notes = _unreached(study, task, arms, given)
  runs = []
  for arm in arms:
    for seed in dict.fromkeys(seeds) or (None,):
      own: dict[str, Any] = {**arm.flags, 'root_output_dir': str(folder)}
      own['experiment_name'] = arm.slug
      if seed is not None:
        own |= {'seed': seed, 'experiment_name': f'{arm.slug}_seed={seed}'}
      own = _given(task, common, own)
      argv = (f'--{name}={settings_lib.format_value(own[name])}' for name in own)
      runs.append(Run(arm, base.make_experiment(task, own), tuple(argv)))
  return Plan(runs, reference.label, notes)


def reaches(
  name: str,
  arm: study_lib.Arm,
  task: experiment_lib.Task,
  given: Mapping[str, Any] = types.MappingProxyType({}),
) -> bool:
  """Tells whether a flag of the command line has an effect on an arm.

  Args:
    name: The flag.
    arm: The arm.
    task: The task.
    given: The flags of the command line, which may name a mechanism.
  """
  is_set = name in arm.flags and name not in arm.derived
  return not is_set and name in _flags_of(task, given, arm.flags)


def _chosen(
  arms: Sequence[study_lib.Arm], reference: study_lib.Arm, only: Sequence[str]
) -> list[study_lib.Arm]:
  """Returns the arms that patterns name, and those that they cannot do without.

  Raises:
    SettingsError: If a pattern names no arm.
  """
  kept = {reference.label}
  for pattern in only:
    named = [arm for arm in arms if fnmatch.fnmatchcase(arm.slug, pattern)]
    if not named:
      listed = ', '.join(arm.slug for arm in arms)
      raise settings_lib.SettingsError(
        'arms', pattern, f'names no arm; there are {listed}'
      )
    kept |= {arm.label for arm in named}
    kept |= {arm.branch_from for arm in named}
  return [arm for arm in arms if arm.label in kept]


def _given(
  task: experiment_lib.Task, common: Mapping[str, Any], own: Mapping[str, Any]
) -> dict[str, Any]:
  """Returns a run's own flags, and those of the common ones that its algorithm has."""
  known = _flags_of(task, common, own)
  return {**{name: common[name] for name in common if name in known}, **own}


def _flags_of(
  task: experiment_lib.Task, common: Mapping[str, Any], own: Mapping[str, Any]
) -> set[str]:
  """Returns the flags that a run has: those of its algorithm under its mechanism."""
  algorithm = registry.ALGORITHMS[own['algo']]
  if algorithm.mechanisms:
    algorithm = command_flags.under_mechanism(algorithm, {**common, **own})
  return command_flags.flag_names(task, algorithm)


def _names(probe: experiment_lib.Experiment) -> dict[str, Any]:
  """Returns what placeholders may name: all flags of a run, and what follows of them."""
  names = dict(probe.config)
  # Data that are generated have as many clients as users.
  names.setdefault('num_clients', names.get('num_users'))
  if probe.task.kind == 'language_model':
    names['model_size'] = names['model'].split('_')[1]
  return names


def _unreached(
  study: study_lib.Study,
  task: experiment_lib.Task,
  arms: Sequence[study_lib.Arm],
  given: Mapping[str, str],
) -> list[str]:
  """Says which flags do not reach which arms.

  Raises:
    UsageError: If a flag reaches none.
  """
  notes = []
  for name in given:
    missed = [arm.label for arm in arms if not reaches(name, arm, task, given)]
    if len(missed) == len(arms):
      raise flags.UsageError(
        f'--{name} reaches no arm of {study.name}: their algorithms do not have it, or '
        'the arms set it themselves'
      )
    if missed:
      notes.append(f'--{name} does not reach: {", ".join(missed)}')
  return notes


def _other_domain(probe: experiment_lib.Experiment, folder: pathlib.Path) -> str:
  """Writes the text of the other task's embedded users to a file."""
  if probe.task_settings.data != 'embedded':
    raise settings_lib.SettingsError(
      'cross_data', None, f'is needed with --data={probe.task_settings.data}'
    )
  other = 'reddit' if probe.task.name == 'stackoverflow' else 'stackoverflow'
  data = base.find(other).load(probe.task_settings, probe.run.seed)
  file = folder / f'{other}.txt'
  file.parent.mkdir(parents=True, exist_ok=True)
  with open(file, 'w', encoding='utf-8') as stream:
    for user in data.train.client_ids:
      stream.writelines(f'{text}\n' for text in data.train.read(user))
  return str(file)
