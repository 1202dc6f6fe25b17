"""The Python API: a task's command as a function that returns what the run has left.

import tff_textpriv

result = tff_textpriv.run('imdb', 'rr_ldp', total_rounds=10)
result.metrics['test_auc'], result.privacy_card, result.model
"""

import contextlib
import dataclasses
import os
import pathlib
import signal
import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tff_textpriv import flags, results
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import algorithm as algorithm_lib
from tff_textpriv.iterative_processes import registry
from tff_textpriv.privacy import mechanism as mechanism_lib
from tff_textpriv.runtime import execution as execution_lib
from tff_textpriv.runtime import heaps
from tff_textpriv.tasks import base, objects
from tff_textpriv.training import experiment as experiment_lib
from tff_textpriv.training import own_parts

if TYPE_CHECKING:
  import tensorflow as tf
  import tensorflow_federated as tff


def run(
  task: str | experiment_lib.Task | objects.TaskObject,
  algo: str | settings_lib.Settings | tuple[settings_lib.Settings, ...],
  *,
  model: 'str | tf.keras.Model | None' = None,
  aggregator: 'tff.aggregators.WeightedAggregationFactory | None' = None,
  **given: Any,
) -> results.Result:
  """Runs an experiment as `python -m tff_textpriv.tasks.TASK --algo=ALGO` does.

  It is the same code: the same settings and seed give the same files in the same
  folder, a run that was interrupted goes on when the call is repeated, and one that had
  finished is only tested again.

  Args:
    task: The name of a task, or a task as an object: what `tff_textpriv.task`,
      `from_frame`, `from_records` and `from_client_data` return.
    algo: The name of an algorithm, or its settings as an object,
      `FedAvgSettings(client_learning_rate=0.1)`, or both its settings and those of its
      privacy, `(DpFedAvgSettings(), CentralPrivacySettings(target_epsilon=2.0))`, which
      may be those of another mechanism that the algorithm has.
    model: The name of a model, or a Keras model of your own, from what the task's own
      model reads to logits. It starts from the weights that it has.
    aggregator: A TFF aggregation factory of your own, which takes the place of the mean
      of `fed_avg` and its like. Such a run promises nothing.
    **given: Flags by name, as Python values: `total_rounds=10`,
      `tied_embeddings=False`, `workers=['host1:10000']`, `data=path`.

  Returns:
    The finished run.

  Raises:
    ValueError: What the command would refuse, in the same words: a name or a value that
      is wrong, data that cannot be read, a folder with other settings or objects.
    KeyboardInterrupt: If the run was interrupted; a checkpoint has been saved.
  """
  for name, value in given.items():
    if value is None:
      raise settings_lib.SettingsError(
        name, None, 'cannot be None; leave it out for the default'
      )
  if isinstance(model, str):
    given, model = {**given, 'model': model}, None
  flags.silence_tensorflow()
  declared, task_flags = _task(task)
  experiment = base.make_experiment(
    declared,
    _together(given, task_flags, _algorithm_flags(algo)),
    own_parts.OwnParts(model, aggregator),
  )
  code = base.run(experiment)
  if code:
    name = signal.Signals(code - 128).name
    raise KeyboardInterrupt(f'{name} stopped the run; repeat the call to go on')
  return results.load(experiment.folder)


def register(
  item: algorithm_lib.Algorithm
  | experiment_lib.Task
  | type[mechanism_lib.MechanismSettings],
  *,
  name: str = '',
  of: str = '',
) -> None:
  """Adds an algorithm, a task or a mechanism of your own, under its name.

  From then on, `run` and `task` of this process know it, with flags, help, checkpoints,
  card, report and ledger. What was added before under the same name is replaced, so that a
  notebook's cell can be run again.

  Args:
    item: An `Algorithm`, a `Task`, or the class of a mechanism's settings.
    name: What a mechanism is called: the value of `mechanism`.
    of: The name of the algorithm that may have it.

  Raises:
    ValueError: If the package has one of that name, or it is none of these.
  """
  if isinstance(item, algorithm_lib.Algorithm):
    registry.register(item)
  elif isinstance(item, experiment_lib.Task):
    base.register(item)
  elif isinstance(item, type) and issubclass(item, mechanism_lib.MechanismSettings):
    if not name or not of:
      raise flags.UsageError(
        "a mechanism needs a name and an algorithm: register(MySettings, name='mine', "
        "of='dp_fed_avg')"
      )
    registry.offer(name, item, of)
  else:
    raise flags.UsageError(
      f'{type(item).__name__} is no Algorithm, no Task and no class of MechanismSettings'
    )


@contextlib.contextmanager
def execution(
  num_workers: int = 1,
  workers: Sequence[str] = (),
  *,
  log_dir: str | os.PathLike[str] | None = None,
) -> 'Iterator[execution_lib.Runtime]':
  """Runs TFF computations of your own on workers that end with the block.

  Without it, TFF starts a worker by itself, which outlives Python. These are those of a
  run: nobody else reaches them, and none is left behind, even if Python is killed.

  Args:
    num_workers: Worker processes of this machine, over which a cohort is spread.
    workers: Workers of other machines, `host:port`, in their place.
    log_dir: Where local workers write what they say; nowhere that stays, by default.

  Yields:
    The workers; `restart()` replaces those that died.

  Example:
    >>> with tff_textpriv.execution():
    ...   state, metrics = process.next(process.initialize(), cohort)
  """
  heaps.limit()  # Before TensorFlow starts its threads.
  with contextlib.ExitStack() as stack:
    if log_dir is None:
      log_dir = stack.enter_context(tempfile.TemporaryDirectory())
    folder = pathlib.Path(log_dir)
    folder.mkdir(parents=True, exist_ok=True)
    running = execution_lib.execution(num_workers, workers, log_dir=folder)
    yield stack.enter_context(running)


def _task(task: Any) -> tuple[experiment_lib.Task, dict[str, Any]]:
  """Returns a task, and the flags that an object of it comes with."""
  if isinstance(task, objects.TaskObject):
    return task.task, task.given
  if isinstance(task, experiment_lib.Task):
    return task, {}
  if not isinstance(task, str):
    raise flags.UsageError(
      f'task is {type(task).__name__}: give a name or a task; from_frame, from_records '
      'and from_client_data make tasks of data'
    )
  return base.find(task), {}


def _algorithm_flags(algo: Any) -> dict[str, Any]:
  """Returns the flags that name an algorithm and its settings."""
  if isinstance(algo, str):
    return {'algo': algo}
  parts = algo if isinstance(algo, tuple) else (algo,)
  under = [
    each for known in registry.ALGORITHMS.values() for each in known.choices.values()
  ]
  for algorithm in under:
    kinds = (algorithm.settings, algorithm.privacy)[: len(parts)]
    if tuple(map(type, parts)) == kinds:
      chosen = {'algo': algorithm.name}
      if algorithm.mechanism != algorithm_lib.OWN_MECHANISM:
        chosen['mechanism'] = algorithm.mechanism
      return _together(chosen, *({**dataclasses.asdict(part)} for part in parts))
  shown = ', '.join(type(part).__name__ for part in parts)
  raise flags.UsageError(
    f'algo is {shown}: give a name, the settings of an algorithm as in '
    'tff_textpriv.algorithms, or a pair of them and the settings of its privacy'
  )


def _together(*groups: dict[str, Any]) -> dict[str, Any]:
  """Joins flags that were given in different ways; none may be given twice."""
  joined: dict[str, Any] = {}
  for group in groups:
    twice = sorted(joined.keys() & group.keys())
    if twice:
      raise flags.UsageError(
        f'{twice[0]} is given twice: as a keyword, and in the task or the settings'
      )
    joined |= group
  return joined
