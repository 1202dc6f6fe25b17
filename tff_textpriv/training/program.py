"""The training program: rounds, evaluation, releases, checkpoints, the budget."""

import asyncio
import collections
import dataclasses
import math
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff
import tree

from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.privacy import mechanism, plans
from tff_textpriv.runtime import cohorts, execution, worker_process
from tff_textpriv.training import checkpoints, stopping
from tff_textpriv.training import progress as progress_lib

_MAX_WORKER_DEATHS = 3


@dataclasses.dataclass(frozen=True)
class Program:
  """What the loop needs of a run.

  Attributes:
    process: The iterative process.
    sampler: Draws the users of each round.
    client_data: Gives the data sets of these users in that round.
    evaluate: Measures model weights on the validation users.
    plan: The privacy plan that is charged each round; `None` without one.
    total_rounds: The number of the last round to train.
    rounds_per_eval: Rounds between evaluations.
    rounds_per_checkpoint: Rounds between checkpoints.
    rounds_before: The rounds that others have trained before; counting goes on.
    initial_state: Gives the state to start from; by default the process's own.
    checkpoint_folder: Where checkpoints are, within the run's folder.
    user_group: The name, in the ledger, of the users that are drawn.
  """

  process: tff.learning.templates.LearningProcess
  sampler: cohorts.CohortSampler
  client_data: Callable[[Sequence[str], int], Sequence[Any]]
  evaluate: Callable[[Sequence[np.ndarray]], dict[str, float]]
  plan: plans.CentralDpPlan | None
  total_rounds: int
  rounds_per_eval: int
  rounds_per_checkpoint: int
  rounds_before: int = 0
  initial_state: Callable[[], Any] | None = None
  checkpoint_folder: str = 'checkpoints'
  user_group: str = ''

  def __post_init__(self) -> None:
    if self.plan is not None and self.plan.sampling != self.sampler.sampling:
      raise mechanism.PrivacyError(
        f'cohorts are drawn by {self.sampler.sampling} sampling, and the privacy plan '
        f'accounts for {self.plan.sampling} sampling: its figure would be false'
      )


@dataclasses.dataclass(frozen=True)
class Outcome:
  """How training ended.

  Attributes:
    weights: The model's trainable weights.
    state: The server state that they are a part of.
    ledger: What was spent.
    rounds_done: The number of rounds behind the weights.
    ended: `finished`, `budget` (the next round would exceed it) or `interrupted`.
    signal_number: The signal that interrupted.
  """

  weights: list[np.ndarray]
  state: Any
  ledger: ledger_lib.Ledger
  rounds_done: int
  ended: str
  signal_number: int | None = None


def train(
  program: Program,
  ledger: ledger_lib.Ledger,
  folder: pathlib.Path,
  runtime: execution.Runtime,
) -> Outcome:
  """Trains from the newest checkpoint of the folder, or from the start.

  Args:
    program: What to train.
    ledger: What had been spent before the first round.
    folder: The run's output folder.
    runtime: The workers.

  Returns:
    How it ended; a checkpoint of the last round is in the folder.
  """
  with asyncio.Runner() as runner, stopping.stop_on_signals() as stop:
    kept = checkpoints.Checkpoints(folder / program.checkpoint_folder, runner)
    releases = _releases(folder)
    state = (program.initial_state or program.process.initialize)()
    checkpoint = kept.load_latest(state)
    round_number = program.rounds_before
    if checkpoint is None:
      _save(kept, round_number, state, ledger)
    else:
      round_number, state, notes = checkpoint
      ledger = ledger_lib.Ledger.from_json(notes['ledger'])
      print(f'resuming after round {round_number}', file=sys.stderr)
    with progress_lib.Progress(round_number, program.total_rounds) as progress:
      ended = 'finished'
      while round_number < program.total_rounds:
        if stop:
          ended = 'interrupted'
          break
        if program.plan is not None and ledger.would_exceed(
          program.plan, program.user_group
        ):
          ended = 'budget'
          break
        round_number += 1
        started = time.monotonic()
        users = program.sampler.cohort(round_number)
        cohort = program.client_data(users, round_number)
        output = _on_workers(runtime, program.process.next, state, cohort)
        state = output.state
        if program.plan is not None:
          ledger.charge_round(program.plan, group=program.user_group)
        metrics = _round_metrics(output.metrics, len(cohort))
        seconds = time.monotonic() - started
        is_evaluated = _is_due(
          round_number, program.rounds_per_eval, program.total_rounds
        )
        # PLD accounting takes a second or so, RDP no time at all.
        if ledger.accountant == 'rdp' or is_evaluated:
          metrics |= _spent(ledger)
        if is_evaluated:
          metrics |= {
            f'validation_{name}': value
            for name, value in program.evaluate(
              _weights(program, state, runtime)
            ).items()
          }
        progress.show(round_number, metrics, seconds)
        runner.run(releases.release(collections.OrderedDict(metrics), round_number))
        if _is_due(round_number, program.rounds_per_checkpoint, program.total_rounds):
          _save(kept, round_number, state, ledger)
    _save(kept, round_number, state, ledger)
    return Outcome(
      _weights(program, state, runtime),
      state,
      ledger,
      round_number,
      ended,
      stop.signal_number,
    )


def _releases(folder: pathlib.Path) -> tff.program.ReleaseManager:
  """Makes the releases of each round: metrics.csv and TensorBoard."""
  return tff.program.GroupingReleaseManager(
    [
      tff.program.CSVFileReleaseManager(folder / 'metrics.csv', key_fieldname='round'),
      tff.program.TensorBoardReleaseManager(folder / 'tensorboard'),
    ]
  )


def _on_workers(
  runtime: execution.Runtime, call: Callable[..., Any], *arguments: Any
) -> Any:
  """Computes on the workers; one that dies is replaced and the call repeated."""
  for deaths in range(1, _MAX_WORKER_DEATHS + 1):
    try:
      return call(*arguments)
    except worker_process.WorkerDiedError as error:
      if deaths == _MAX_WORKER_DEATHS:
        raise
      print(f'{error}\nrestarting it and repeating the round', file=sys.stderr)
      runtime.restart()
  raise AssertionError('unreachable')


def _round_metrics(metrics: Any, num_clients: int) -> dict[str, float]:
  """Flattens a round's measurements; names are the columns of metrics.csv."""
  train = {
    name: float(value) for name, value in metrics['client_work']['train'].items()
  }
  if train['num_examples'] == 0:
    train['loss'] = math.nan
  result = {'train_loss': train.pop('loss'), 'num_clients': num_clients, **train}
  for path, value in tree.flatten_with_path(metrics['aggregator']):
    if np.ndim(value) == 0:
      result['_'.join(map(str, path))] = float(value)
  return result


def _spent(ledger: ledger_lib.Ledger) -> dict[str, float]:
  """Returns the epsilon so far; nothing where there is no guarantee."""
  epsilon = ledger.epsilon()
  return {'epsilon': epsilon} if math.isfinite(epsilon) else {}


def _weights(
  program: Program, state: Any, runtime: execution.Runtime
) -> list[np.ndarray]:
  """Returns the trainable weights of a state."""
  weights = _on_workers(runtime, program.process.get_model_weights, state)
  return [np.asarray(weight) for weight in weights.trainable]


def _is_due(round_number: int, every: int, last: int) -> bool:
  return round_number % every == 0 or round_number == last


def _save(
  kept: checkpoints.Checkpoints,
  round_number: int,
  state: Any,
  ledger: ledger_lib.Ledger,
) -> None:
  kept.save(checkpoints.Checkpoint(round_number, state, {'ledger': ledger.to_json()}))
