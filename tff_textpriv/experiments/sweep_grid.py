"""The runs of a sweep: every combination of the values that flags were given."""

import dataclasses
import itertools
import pathlib
import re
from collections.abc import Sequence
from typing import Any

from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import registry
from tff_textpriv.tasks import base, command_flags, shared_flags
from tff_textpriv.training import experiment as experiment_lib

# Machine settings that a sweep chooses itself.
_OWN_FOLDERS = ('root_output_dir', 'experiment_name')


@dataclasses.dataclass(frozen=True)
class Run:
  """One run of a sweep.

  Attributes:
    name: The name of its folder: the algorithm, the values of swept flags, the seed.
    folder: Its output folder.
    task: The name of the task.
    argv: The flags of the task's command that make it.
    config: Every setting that decides its result, by flag.
    point: What of the settings the sweep varies, but for the seed: the algorithm, and
      the swept flags that the algorithm has.
  """

  name: str
  folder: pathlib.Path
  task: str
  argv: tuple[str, ...]
  config: dict[str, Any]
  point: dict[str, Any]

  @property
  def log_file(self) -> pathlib.Path:
    """Where the run's output goes."""
    return self.folder / 'run.log'


@dataclasses.dataclass(frozen=True)
class _Axis:
  """A flag and the arguments that give it each of its values."""

  name: str
  arguments: tuple[str, ...]


def make_runs(
  task: experiment_lib.Task,
  algorithms: Sequence[str],
  passed_on: Sequence[str],
  num_seeds: int,
  folder: pathlib.Path,
) -> list[Run]:
  """Makes the runs of a sweep, in order: the last flag changes fastest, then the seed.

  Args:
    task: The task.
    algorithms: Names of algorithms; each gets the flags that it has.
    passed_on: Flags of the task and of the algorithms, `--name=value,value`.
    num_seeds: How many seeds each combination is run with.
    folder: The sweep's folder.

  Returns:
    The runs; settings that are the same are run once.

  Raises:
    ValueError: For a flag that is unknown or wrong, or that cannot be swept.
  """
  fields = {
    field.name: field
    for group in command_flags.groups(task)
    for field in group.fields()
  }
  # A flag that is given twice counts as it was given last.
  axes = list({a.name: a for a in (_axis(each, fields) for each in passed_on)}.values())
  for axis in axes:
    _check_axis(axis, task, algorithms, num_seeds)
  runs: dict[str, Run] = {}
  varied = {axis.name for axis in axes if len(axis.arguments) > 1}
  for algorithm, each in itertools.product(algorithms, _by_mechanism(axes)):
    kept = shared_flags.kept([axis.arguments[0] for axis in each], task, algorithm)
    own = [axis for axis in each if axis.arguments[0] in kept]
    swept = [axis.name for axis in own if axis.name in varied]
    for arguments in itertools.product(*(axis.arguments for axis in own)):
      argv = [f'--algo={algorithm}', *arguments]
      first = base.parse(task, argv).run.seed
      for seed in range(first, first + num_seeds):
        run = _make_run(task, [*argv, f'--seed={seed}'], swept, folder)
        if runs.setdefault(run.name, run).config != run.config:
          raise flags.UsageError(
            f'two runs of the sweep would have the same folder, {run.folder}: give '
            f'--{" or --".join(swept)} values that differ in letters or digits'
          )
  for axis in axes:
    if len(axis.arguments) > 1 and not any(
      axis.name in run.config for run in runs.values()
    ):
      raise settings_lib.SettingsError(
        axis.name, None, 'does not change the result of a run; give one value'
      )
  return list(runs.values())


def _by_mechanism(axes: Sequence[_Axis]) -> list[list[_Axis]]:
  """Returns the axes once for each mechanism among them: it decides who has a flag."""
  named = [axis for axis in axes if axis.name == 'mechanism']
  others = [axis for axis in axes if axis.name != 'mechanism']
  arguments = named[0].arguments if named else ()
  return [[*others, _Axis('mechanism', (one,))] for one in arguments] or [others]


def _axis(argument: str, fields: dict[str, dataclasses.Field]) -> _Axis:
  """Reads the values of one flag: `--rate=1,2`, `--rounds=10,20;30`, `--noswitch`."""
  name, has_value, text = argument.removeprefix('--').partition('=')
  if not has_value:
    return _Axis(name.removeprefix('no') if name not in fields else name, (argument,))
  is_list = name in fields and settings_lib.value_type(fields[name])[1]
  if ';' in text:
    values = text.removesuffix(';').split(';')
  else:
    values = [text] if is_list else text.split(',')
  return _Axis(name, tuple(f'--{name}={value.strip()}' for value in values))


def _check_axis(
  axis: _Axis, task: experiment_lib.Task, algorithms: Sequence[str], num_seeds: int
) -> None:
  """Refuses a flag that nobody has, or that is the sweep's own to set."""
  possible = [
    under for name in algorithms for under in registry.ALGORITHMS[name].choices.values()
  ]
  if not any(shared_flags.has(axis.arguments[0], task, each) for each in possible):
    # Parsing says whose it is, or what was meant.
    base.parse(task, [f'--algo={algorithms[0]}', axis.arguments[0]])
  if axis.name in _OWN_FOLDERS:
    raise settings_lib.SettingsError(
      axis.name, None, 'is the sweep’s to choose; use --sweep_dir and --sweep_name'
    )
  if axis.name == 'seed' and len(axis.arguments) > 1 and num_seeds > 1:
    raise settings_lib.SettingsError(
      'seeds',
      num_seeds,
      'counts on from one --seed; give several seeds, or their number',
    )


def _make_run(
  task: experiment_lib.Task,
  argv: Sequence[str],
  swept: Sequence[str],
  folder: pathlib.Path,
) -> Run:
  config = base.parse(task, argv).config
  point = {
    name: config[name] for name in ('algo', *swept) if name in config and name != 'seed'
  }
  varied = [f'{name}={_slug(config[name])}' for name in (*point, 'seed')]
  name = '_'.join(varied).removeprefix('algo=')
  return Run(
    name,
    folder / name,
    task.name,
    (*argv, f'--root_output_dir={folder}', f'--experiment_name={name}'),
    config,
    point,
  )


def _slug(value: Any) -> str:
  """Writes a value so that it can be part of the name of a folder."""
  return re.sub(r'[^A-Za-z0-9.+-]+', '_', settings_lib.format_value(value))
