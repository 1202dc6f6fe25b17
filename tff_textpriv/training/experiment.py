"""One experiment: a task, an algorithm, and all their settings."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tff_textpriv import randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes.algorithm import OWN_MECHANISM, Algorithm
from tff_textpriv.privacy.mechanism import MechanismSettings
from tff_textpriv.training import own_parts, secret
from tff_textpriv.training.run_settings import MachineSettings, RunSettings


@dataclasses.dataclass(frozen=True)
class Task:
  """What is learnt, and from whose text.

  Attributes:
    name: The task's name, that of its module.
    summary: One line for `--help`.
    kind: What algorithms must be able to train: `language_model` (its data are
      `clients.FederatedText`) or `classification` (`labelled.LabelledData`).
    settings: The class of its settings.
    load: Reads the data, given the settings and the run's seed.
    run_settings: The class of the run's settings, whose defaults go with the task.
    run_name: What a run is called by default, before the algorithm; the task's name if
      it is empty.
    check: Refuses settings that do not go with what is on the disk, at once: without
      TensorFlow, which `load` may need.
    defaults: Returns those defaults of the task's flags, as one would type them, that
      go with an algorithm and are not those of the settings.
    accounts_own_users: Whether a promise is about the users of the data unless flags say
      otherwise, and not about the deployment that an algorithm's paper assumes.
    fit: Puts values that go with the data in the place of an experiment's defaults, given
      the names of the flags that are no defaults; without TensorFlow, too.
    variants: Tasks of the same name that take its place where a flag is given, by the
      flag. All of them have the flag.
  """

  name: str
  summary: str
  kind: str
  settings: type[settings_lib.Settings]
  load: Callable[[Any, int], Any]
  run_settings: type[RunSettings] = RunSettings
  run_name: str = ''
  check: Callable[[Any], None] = lambda _: None
  defaults: Callable[[Algorithm], Mapping[str, str]] = lambda _: {}
  accounts_own_users: bool = False
  fit: 'Callable[[Experiment, Collection[str]], Experiment]' = lambda chosen, _: chosen
  variants: Mapping[str, 'Task'] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Experiment:
  """A task and an algorithm with everything that was chosen for them.

  Attributes:
    fitted: The values, by flag, that were chosen because they go with the data.
    Others: The groups of settings, and objects that take the place of what flags name.
  """

  task: Task
  algorithm: Algorithm
  task_settings: Any
  algorithm_settings: Any
  privacy_settings: MechanismSettings
  run: RunSettings
  machine: MachineSettings
  own: own_parts.OwnParts = own_parts.NOTHING
  fitted: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  @property
  def model_name(self) -> str:
    """What the model is called."""
    return self.task_settings.model if self.own.model is None else 'own'

  @property
  def cohort_sampling(self) -> str:
    """How the users of a round are found."""
    return self.privacy_settings.cohort_sampling or self.run.cohort_sampling

  @property
  def folder(self) -> pathlib.Path:
    """The run's output folder."""
    task = self.task.run_name or self.task.name
    name = self.machine.experiment_name or f'{task}_{self.algorithm.name}'
    return pathlib.Path(self.machine.root_output_dir) / name

  @functools.cached_property
  def stream(self) -> randomness.Stream:
    """Where all random numbers come from that a promise rests on."""
    source = self.privacy_settings.noise_source
    return secret.stream(source, self.run.seed, self.folder)

  @property
  def config(self) -> dict[str, Any]:
    """Everything that decides the result, by flag; what config.json holds."""
    config: dict[str, Any] = {'task': self.task.name, 'algo': self.algorithm.name}
    # Where it is the algorithm's own, nobody needs to know that there are others.
    if self.algorithm.mechanism != OWN_MECHANISM:
      config['mechanism'] = self.algorithm.mechanism
    groups = (
      self.task_settings,
      self.algorithm_settings,
      self.privacy_settings,
      self.run,
    )
    for group in groups:
      config |= dataclasses.asdict(group)
    config['cohort_sampling'] = self.cohort_sampling
    for name, fingerprint in self.own.fingerprints.items():
      before = f' in place of {config[name]}' if name in config else ''
      config[name] = f'own {fingerprint}{before}'
    # Where caches and downloads are does not matter.
    config.pop('data_dir', None)
    return config
