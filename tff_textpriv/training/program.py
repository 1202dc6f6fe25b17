"""The training program: rounds, evaluation, releases, checkpoints, the budget."""

import collections
import dataclasses
import functools
import gc
import math
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff
import tree

from tff_textpriv.iterative_processes import stacked_batches
from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.runtime import cohorts, device_store, execution, worker_process
from tff_textpriv.training import (
  ahead,
  checkpoints,
  coroutines,
  garbage,
  journal,
  releases,
  stopping,
)
from tff_textpriv.training import progress as progress_lib
from tff_textpriv.training import selection as selection_lib

_MAX_WORKER_DEATHS = 3


@dataclasses.dataclass(frozen=True)
class Program:
  """What the loop needs of a run.

  Attributes:
    process: The iterative process.
    sampler: Draws the users of each round.
    client_data: Gives the data sets of these users in that round.
    evaluate: Measures model weights on the validation users.
    mechanism: What is charged each round, and says when to stop.
    total_rounds: The number of the last round to train.
    rounds_per_eval: Rounds between evaluations.
    rounds_per_checkpoint: Rounds between checkpoints.
    stop_after_round: A round after which to end as if interrupted.
    phase: The number of the run's phase.
    rounds_before: The rounds that others have trained before; counting goes on.
    others_rounds: Those of them, all without these users, that do not count where users
      are drawn and their data shuffled.
    initial_state: Gives the state to start from; by default the process's own.
    checkpoint_folder: Where checkpoints are, within the run's folder.
    user_group: The name, in the ledger, of the users that are drawn.
    selection: Which evaluated round's weights the outcome has as selected ones.
    devices: What the users' devices keep, where they keep something; versions go with
      checkpoints.
  """

  process: tff.learning.templates.LearningProcess
  sampler: cohorts.CohortSampler
  client_data: Callable[[Sequence[str], int], Sequence[Any]]
  evaluate: Callable[[Sequence[np.ndarray]], dict[str, float]]
  mechanism: Mechanism
  total_rounds: int
  rounds_per_eval: int
  rounds_per_checkpoint: int
  stop_after_round: int | None = None
  phase: int = 0
  rounds_before: int = 0
  others_rounds: int = 0
  initial_state: Callable[[], Any] | None = None
  checkpoint_folder: str = 'checkpoints'
  user_group: str = ''
  selection: selection_lib.Selection = selection_lib.Selection()
  devices: device_store.DeviceStore | None = None

  def __post_init__(self) -> None:
    self.mechanism.check_sampling(self.sampler.sampling, self.sampler.separation)


@dataclasses.dataclass(frozen=True)
class Outcome:
  """How training ended.

  Attributes:
    weights: The model's trainable weights after the last round.
    state: The server state that they are a part of.
    ledger: What was spent.
    rounds_done: The number of rounds behind the weights.
    ended: `finished`, `budget` (the next round would exceed it) or `interrupted`.
    signal_number: The signal that interrupted.
    selected_weights: The weights that the program's selection chose.
    selected_round: Their round.
    target_round: The first evaluated round that reached the selection's target.
  """

  weights: list[np.ndarray]
  state: Any
  ledger: ledger_lib.Ledger
  rounds_done: int
  ended: str
  signal_number: int | None
  selected_weights: list[np.ndarray]
  selected_round: int
  target_round: int | None


# What trains a program: `train`, or what looks on while it trains.
Trainer = Callable[
  [Program, ledger_lib.Ledger, pathlib.Path, execution.Runtime], Outcome
]


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
  with (
    coroutines.CoroutineRunner() as runner,
    stopping.stop_on_signals() as stop,
    garbage.old_set_aside(),
  ):
    kept = checkpoints.Checkpoints(folder / program.checkpoint_folder, runner)
    next_round = _next_round(program.process)
    state = _on_workers(runtime, program.initial_state or program.process.initialize)
    search = selection_lib.Search(program.selection, _weights(program, state, runtime))
    checkpoint = kept.load_latest(search.kept(state))
    round_number = program.rounds_before
    if checkpoint is not None:
      round_number, kept_state, notes = checkpoint
      state = search.restore(kept_state, notes['selection'])
      ledger = ledger_lib.Ledger.from_json(notes['ledger'])
      print(f'resuming after round {round_number}', file=sys.stderr)
    if program.devices is not None:
      program.devices.restore(round_number)
    charged = journal.Journal(folder)
    _save(program, kept, round_number, state, ledger, search)
    released = releases.open_after(round_number, folder)
    with (
      progress_lib.Progress(round_number, program.total_rounds) as progress,
      ahead.Ahead(functools.partial(_cohort, program)) as next_cohort,
    ):
      ended = 'finished'
      while round_number < program.total_rounds and not search.has_ended:
        if stop or round_number == program.stop_after_round:
          ended = 'interrupted'
          break
        places = _places(program, round_number + 1)
        if ledger.would_exceed(program.mechanism, program.user_group, places):
          ended = 'budget'
          break
        round_number += 1
        started = time.monotonic()
        users, cohort = next_cohort.take(round_number)
        # Before anything of the round leaves a device. Who drops out is charged too: it
        # took part in the draw. The ledger is on disk, which must not tell who takes part.
        ledger.charge(program.mechanism, places, program.user_group)
        charged.write(journal.Place(program.phase, round_number), ledger)
        is_evaluated = _is_due(
          round_number, program.rounds_per_eval, program.total_rounds
        )
        # What devices keep is known only when the round before has ended.
        if program.devices is None and round_number < program.total_rounds:
          next_cohort.begin(round_number + 1)
        try:
          output = _on_workers(runtime, next_round, state, cohort)
          if is_evaluated:
            weights = _weights(program, output.state, runtime)
        except worker_process.WorkerDiedError as error:
          done = round_number - 1
          _save(program, kept, done, state, ledger, search)
          raise worker_process.WorkerDiedError(
            f'Round {round_number} was given up, because a worker died '
            f'{_MAX_WORKER_DEATHS} times in a row. All is saved up to round {done}: '
            f'repeat the command to go on from there. {error}'
          ) from error
        next_cohort.wait()  # Evaluation reads users, too.
        state = output.state
        if program.devices is not None:
          program.devices.commit(round_number)
        metrics = _round_metrics(output.metrics, len(cohort))
        if program.sampler.device_failure_rate:
          metrics['dropped_clients'] = len(users) - len(cohort)
        seconds = time.monotonic() - started
        # PLD accounting takes a second or so, RDP no time at all.
        if ledger.accountant == 'rdp' or is_evaluated:
          metrics |= _spent(ledger)
        if is_evaluated:
          measured = program.evaluate(weights)
          search.see(round_number, measured, weights)
          metrics |= {f'validation_{name}': value for name, value in measured.items()}
        progress.show(round_number, metrics, seconds)
        runner.run(released.release(collections.OrderedDict(metrics), round_number))
        if _is_due(round_number, program.rounds_per_checkpoint, program.total_rounds):
          _save(program, kept, round_number, state, ledger, search)
    _save(program, kept, round_number, state, ledger, search)
    weights = _weights(program, state, runtime)
    return Outcome(
      weights,
      state,
      charged.latest(journal.Place(program.phase, round_number), ledger),
      round_number,
      ended,
      stop.signal_number,
      search.selected(weights),
      search.best_round or round_number,
      search.target_round,
    )


def _places(program: Program, round_number: int) -> list[str]:
  """Returns who is drawn for a round, by names that a ledger may hold."""
  users = program.sampler.cohort(round_number - program.others_rounds)
  return program.sampler.places(users)


def _cohort(program: Program, round_number: int) -> tuple[list[str], Sequence[Any]]:
  """Returns who is drawn for a round, and the data of those who report."""
  own = round_number - program.others_rounds
  users = program.sampler.cohort(own)
  return users, program.client_data(program.sampler.reporting(users, own), own)


def _next_round(process: Any) -> Callable[[Any, Sequence[Any]], Any]:
  """Returns what runs a round: faster than `next` where that is TFF's."""
  if isinstance(process, tff.learning.templates.LearningProcess):
    return stacked_batches.NextRound(process)
  return process.next


def _on_workers(
  runtime: execution.Runtime, call: Callable[..., Any], *arguments: Any
) -> Any:
  """Computes on the workers; one that dies is replaced and the call repeated."""
  deaths = 0
  while True:
    try:
      if deaths:
        runtime.restart()
      return call(*arguments)
    except worker_process.WorkerDiedError as error:
      deaths += 1
      if deaths == _MAX_WORKER_DEATHS:
        raise
      print(f'{error}\nrestarting it and repeating the round', file=sys.stderr)


def _round_metrics(metrics: Any, num_clients: int) -> dict[str, float]:
  """Flattens a round's measurements; names are the columns of metrics.csv."""
  train = {
    name: float(value) for name, value in metrics['client_work']['train'].items()
  }
  result: dict[str, float] = {}
  if train:  # Clients who are promised something local tell nothing.
    loss = train.pop('loss')
    result['train_loss'] = loss if train['num_examples'] else math.nan
  result |= {'num_clients': num_clients, **train}
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
  program: Program,
  kept: checkpoints.Checkpoints,
  round_number: int,
  state: Any,
  ledger: ledger_lib.Ledger,
  search: selection_lib.Search,
) -> None:
  if program.devices is not None:
    program.devices.flush()
  notes = {'ledger': ledger.to_json(), 'selection': search.notes()}
  kept.save(checkpoints.Checkpoint(round_number, search.kept(state), notes))
  gc.collect()  # The graph of the SavedModel; see `garbage`.
  if program.devices is not None:
    program.devices.prune(kept.rounds())
