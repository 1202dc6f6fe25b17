"""The training loop: however a run is disturbed, its result is the undisturbed one."""

import csv
import dataclasses
import math
import os
import pathlib
import signal
import threading
import time

import numpy as np
import pytest
from noise_check import is_gaussian

from tff_textpriv import flags, randomness
from tff_textpriv.datasets import batching
from tff_textpriv.iterative_processes import learning_model, registry
from tff_textpriv.models import language_models
from tff_textpriv.privacy import central, errors
from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.runtime import cohorts, execution, worker_process
from tff_textpriv.training import checkpoints, selection
from tff_textpriv.training import program as program_lib

_USERS = [f'user {i}' for i in range(8)]
_COHORT = 4
_ROUNDS = 5
_SEED = 3


def _plan(**changes) -> central.CentralGaussian:
  plan = central.CentralGaussian(
    sampling='poisson',
    population=len(_USERS),
    cohort=_COHORT,
    simulated_population=len(_USERS),
    simulated_cohort=_COHORT,
    rounds=_ROUNDS,
    clip=0.5,
    noise_multiplier=2.0,
    delta=1e-5,
    stream=randomness.Stream.of_seed(_SEED),
  )
  return dataclasses.replace(plan, **changes)


def _client_data(users, round_number):
  """Posts of 30 tokens' worth, in an order that depends on the round."""
  cohort = []
  for user in users:
    rng = np.random.default_rng(_USERS.index(user))
    posts = [rng.integers(4, 30, 6).astype(np.int32) for _ in range(5)]
    cohort.append(
      batching.training_batches(
        posts,
        batch_size=2,
        num_epochs=1,
        rng=randomness.generator(_SEED, 'batches', round_number, user),
      )
    )
  return cohort


def _evaluate(weights):
  return {
    'word_accuracy': float(weights[0].mean()),
    'word_perplexity': float(weights[-1].std()),
  }


def _process(plan=None, embedding_size=8, **settings):
  model = language_models.LstmLanguageModel(30, embedding_size, 8, 1, tied=True)
  algorithm = registry.ALGORITHMS['dp_fed_avg']
  return algorithm.build(
    learning_model.from_language_model(model, model.initial_weights(_SEED)),
    algorithm.settings(**settings),
    plan or _plan(),
  )


@pytest.fixture(scope='module')
def process():
  return _process()


@pytest.fixture(scope='module')
def program(process):
  return program_lib.Program(
    process=process,
    sampler=cohorts.CohortSampler(
      _USERS, _COHORT, 'poisson', randomness.Stream.of_seed(_SEED)
    ),
    client_data=_client_data,
    evaluate=_evaluate,
    mechanism=_plan(),
    total_rounds=_ROUNDS,
    rounds_per_eval=3,
    rounds_per_checkpoint=2,
  )


def _train(program, folder, runtime):
  ledger = ledger_lib.Ledger(1e-5)
  ledger.charge_post_processing('tokenizer', 'trained on public text')
  return program_lib.train(program, ledger, folder, runtime)


@dataclasses.dataclass(frozen=True)
class _Run:
  outcome: program_lib.Outcome
  folder: pathlib.Path

  @property
  def metrics(self) -> bytes:
    return (self.folder / 'metrics.csv').read_bytes()

  def assert_equals(self, other: '_Run') -> None:
    """Bit-equal weights, the same ledger, the same bytes of metrics."""
    assert self.outcome.ended == other.outcome.ended
    assert self.outcome.rounds_done == other.outcome.rounds_done
    assert self.outcome.ledger == other.outcome.ledger
    for ours, theirs in zip(self.outcome.weights, other.outcome.weights, strict=True):
      np.testing.assert_array_equal(ours, theirs)
    assert self.metrics == other.metrics


@pytest.fixture(scope='module')
def undisturbed(program, tff_runtime, tmp_path_factory):
  folder = tmp_path_factory.mktemp('undisturbed')
  return _Run(_train(program, folder, tff_runtime), folder)


def _at_round(when: int, action):
  """Client data that do something just before a round, the first time."""
  done = []

  def client_data(users, round_number):
    if round_number == when and not done:
      done.append(round_number)
      action()
    return _client_data(users, round_number)

  return client_data


class _CrashError(Exception):
  pass


def _crash():
  raise _CrashError()


def _rows(folder):
  with open(folder / 'metrics.csv', newline='') as file:
    return list(csv.DictReader(file))


def _saved_rounds(folder) -> list[int]:
  return sorted(
    int(path.name.removeprefix('program_state_'))
    for path in (folder / 'checkpoints').glob('program_state_*')
  )


def _damage(folder, round_number):
  (file,) = folder.glob(f'checkpoints/program_state_{round_number}/variables/*.data-*')
  file.write_bytes(file.read_bytes()[:100])


def test_a_run_trains_and_writes_down_every_round(undisturbed, process):
  outcome, rows = undisturbed.outcome, _rows(undisturbed.folder)
  assert (outcome.ended, outcome.rounds_done) == ('finished', _ROUNDS)
  assert [row['round'] for row in rows] == ['1', '2', '3', '4', '5']
  assert set(rows[0]) == {
    'round',
    'train_loss',
    'num_clients',
    'num_examples',
    'num_tokens',
    'contributing_clients',
    'clip',
    'left_out_clients',
    'epsilon',
    'validation_word_accuracy',
    'validation_word_perplexity',
  }
  # Every third round is evaluated, and the last one.
  evaluated = [row['round'] for row in rows if row['validation_word_accuracy']]
  assert evaluated == ['3', '5']
  assert float(rows[-1]['validation_word_accuracy']) == pytest.approx(
    outcome.weights[0].mean(), rel=1e-6
  )
  sampler = cohorts.CohortSampler(
    _USERS, _COHORT, 'poisson', randomness.Stream.of_seed(_SEED)
  )
  sizes = [len(sampler.cohort(number)) for number in range(1, _ROUNDS + 1)]
  assert [int(row['num_clients']) for row in rows] == sizes
  epsilons = [float(row['epsilon']) for row in rows]
  assert epsilons == sorted(set(epsilons))
  assert epsilons[-1] == outcome.ledger.epsilon()
  losses = [float(row['train_loss']) for row in rows]
  assert losses[0] == pytest.approx(math.log(30), rel=0.1)
  assert list((undisturbed.folder / 'tensorboard').glob('events.out.tfevents.*'))
  assert _saved_rounds(undisturbed.folder) == [4, 5]
  initial = process.get_model_weights(process.initialize()).trainable
  assert not np.array_equal(outcome.weights[0], initial[0])


def test_a_finished_run_that_is_started_again_changes_nothing(
  undisturbed, program, tff_runtime
):
  refuse = dataclasses.replace(program, client_data=lambda *_: _crash())
  again = _Run(_train(refuse, undisturbed.folder, tff_runtime), undisturbed.folder)
  again.assert_equals(undisturbed)


def test_a_run_that_crashed_and_was_resumed_equals_an_undisturbed_one(
  undisturbed, program, tff_runtime, tmp_path
):
  # Checkpoints are of every second round: before the first, and after lost work.
  for when in (1, 4, 5):
    crashing = dataclasses.replace(program, client_data=_at_round(when, _crash))
    with pytest.raises(_CrashError):
      _train(crashing, tmp_path, tff_runtime)
    assert len(_rows(tmp_path)) == when - 1
  resumed = _Run(_train(program, tmp_path, tff_runtime), tmp_path)
  resumed.assert_equals(undisturbed)


def test_the_best_weights_of_a_crashed_run_are_those_of_an_undisturbed_one(
  undisturbed, program, tff_runtime, tmp_path
):
  # A perplexity that is least, and below the target, after the second round.
  seen: dict[int, list[np.ndarray]] = {}
  perplexities = [9.0, 4.0, 6.0, 5.0, 7.0]

  def evaluate(weights):
    for number, state_weights in enumerate(weights_by_round, start=1):
      if np.array_equal(weights[0], state_weights[0]):
        seen[number] = weights
        return {'token_perplexity': perplexities[number - 1]}
    raise AssertionError('weights of no round of the undisturbed run')

  weights_by_round: list[list[np.ndarray]] = []

  def remember(weights):
    weights_by_round.append([weight.copy() for weight in weights])
    return {'token_perplexity': perplexities[len(weights_by_round) - 1]}

  choosing = dataclasses.replace(
    program,
    rounds_per_eval=1,
    rounds_per_checkpoint=4,
    selection=selection.Selection('best_validation', target=5.0),
    evaluate=remember,
  )
  whole = _train(choosing, tmp_path / 'whole', tff_runtime)
  assert (whole.selected_round, whole.target_round) == (2, 2)
  np.testing.assert_array_equal(whole.selected_weights[0], weights_by_round[1][0])
  np.testing.assert_array_equal(whole.weights[0], undisturbed.outcome.weights[0])
  assert not np.array_equal(whole.selected_weights[0], whole.weights[0])

  choosing = dataclasses.replace(choosing, evaluate=evaluate)
  for when in (3, 5):
    # The best round is lost with the first crash, and in the checkpoint at the second.
    crashing = dataclasses.replace(choosing, client_data=_at_round(when, _crash))
    with pytest.raises(_CrashError):
      _train(crashing, tmp_path / 'crashed', tff_runtime)
  seen.clear()
  resumed = _train(choosing, tmp_path / 'crashed', tff_runtime)
  assert list(seen) == [5]
  assert (resumed.selected_round, resumed.target_round) == (2, 2)
  for ours, theirs in zip(
    resumed.selected_weights, whole.selected_weights, strict=True
  ):
    np.testing.assert_array_equal(ours, theirs)


def test_a_signal_ends_the_run_after_its_round_and_it_can_go_on(
  undisturbed, program, tff_runtime, tmp_path
):
  number = signal.SIGINT
  # The data of round 4 are made while round 3 trains.
  stopping = dataclasses.replace(
    program, client_data=_at_round(4, lambda: os.kill(os.getpid(), number))
  )
  before = signal.getsignal(number)
  outcome = _train(stopping, tmp_path, tff_runtime)
  assert (outcome.ended, outcome.rounds_done) == ('interrupted', 3)
  assert outcome.signal_number == number
  assert signal.getsignal(number) == before
  assert len(_rows(tmp_path)) == 3
  assert 3 in _saved_rounds(tmp_path)  # Though only every second round is due.
  resumed = _Run(_train(program, tmp_path, tff_runtime), tmp_path)
  resumed.assert_equals(undisturbed)


def test_a_run_told_to_stop_after_a_round_does_and_can_go_on(
  undisturbed, program, tff_runtime, tmp_path
):
  stopping = dataclasses.replace(program, stop_after_round=3)
  outcome = _train(stopping, tmp_path, tff_runtime)
  assert (outcome.ended, outcome.rounds_done) == ('interrupted', 3)
  resumed = _Run(_train(program, tmp_path, tff_runtime), tmp_path)
  resumed.assert_equals(undisturbed)


def test_a_second_signal_stops_at_once_and_the_run_can_go_on(
  undisturbed, program, tff_runtime, tmp_path
):
  def insist():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.5)  # Two signals at once are one.
    os.kill(os.getpid(), signal.SIGINT)

  # The data of round 4 are made while round 3 trains.
  stopping = dataclasses.replace(program, client_data=_at_round(4, insist))
  with pytest.raises(KeyboardInterrupt):
    _train(stopping, tmp_path, tff_runtime)
  assert len(_rows(tmp_path)) == 2
  resumed = _Run(_train(program, tmp_path, tff_runtime), tmp_path)
  resumed.assert_equals(undisturbed)


def test_the_budget_ends_the_run_before_the_round_that_would_exceed_it(
  undisturbed, program, tff_runtime, tmp_path
):
  spent = [float(row['epsilon']) for row in _rows(undisturbed.folder)]
  plan = _plan(budget_epsilon=(spent[2] + spent[3]) / 2)
  limited = dataclasses.replace(program, mechanism=plan)
  outcome = _train(limited, tmp_path, tff_runtime)
  assert (outcome.ended, outcome.rounds_done) == ('budget', 3)
  assert outcome.ledger.epsilon() == spent[2] <= plan.budget_epsilon
  assert _saved_rounds(tmp_path)[-1] == 3
  assert [float(row['epsilon']) for row in _rows(tmp_path)] == spent[:3]
  # Trying again spends nothing.
  again = _train(limited, tmp_path, tff_runtime)
  assert (again.ended, again.rounds_done) == ('budget', 3)
  assert again.ledger == outcome.ledger
  for ours, theirs in zip(again.weights, outcome.weights, strict=True):
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
  ('drawn', 'accounted'), [('fixed', 'poisson'), ('poisson', 'fixed')]
)
def test_a_sampler_that_the_plan_does_not_account_for_is_refused(
  program, drawn, accounted
):
  sampler = cohorts.CohortSampler(
    _USERS, _COHORT, drawn, randomness.Stream.of_seed(_SEED)
  )
  with pytest.raises(errors.PrivacyError, match=f'drawn by {drawn}.*{accounted}'):
    dataclasses.replace(program, sampler=sampler, mechanism=_plan(sampling=accounted))
  dataclasses.replace(program, sampler=sampler, mechanism=_plan(sampling=drawn))


def test_a_damaged_newest_checkpoint_costs_time_and_not_the_result(
  undisturbed, program, tff_runtime, tmp_path
):
  crashing = dataclasses.replace(
    program, client_data=_at_round(5, _crash), rounds_per_checkpoint=1
  )
  with pytest.raises(_CrashError):
    _train(crashing, tmp_path, tff_runtime)
  assert _saved_rounds(tmp_path) == [3, 4]
  _damage(tmp_path, 4)
  resumed = _Run(_train(program, tmp_path, tff_runtime), tmp_path)
  resumed.assert_equals(undisturbed)
  # The last checkpoint, too, is replaced when it is found damaged.
  _damage(tmp_path, 5)
  _train(program, tmp_path, tff_runtime)
  refuse = dataclasses.replace(program, client_data=lambda *_: _crash())
  again = _Run(_train(refuse, tmp_path, tff_runtime), tmp_path)
  again.assert_equals(undisturbed)


def test_with_all_checkpoints_damaged_the_run_ends_with_their_error(
  program, tff_runtime, tmp_path
):
  _train(dataclasses.replace(program, total_rounds=2), tmp_path, tff_runtime)
  metrics = (tmp_path / 'metrics.csv').read_bytes()
  for round_number in _saved_rounds(tmp_path):
    _damage(tmp_path, round_number)
  with pytest.raises(checkpoints.CheckpointError, match=r'none of the checkpoints'):
    _train(program, tmp_path, tff_runtime)
  assert (tmp_path / 'metrics.csv').read_bytes() == metrics


def test_a_checkpoint_of_another_model_is_refused(program, tff_runtime, tmp_path):
  _train(dataclasses.replace(program, total_rounds=1), tmp_path, tff_runtime)
  other = dataclasses.replace(program, process=_process(embedding_size=6))
  with pytest.raises(checkpoints.CheckpointError, match='model and algorithm'):
    _train(other, tmp_path, tff_runtime)


class _Devices:
  """Devices that note which checkpoints there were at each call."""

  def __init__(self, folder):
    self._folder = folder
    self.calls = []

  def __getattr__(self, name):
    return lambda *_: self.calls.append((name, _saved_rounds(self._folder)))


def test_devices_are_on_the_disk_before_the_checkpoint_and_pruned_after_it(
  program, tff_runtime, tmp_path
):
  devices = _Devices(tmp_path)
  watched = dataclasses.replace(
    program, devices=devices, total_rounds=2, rounds_per_checkpoint=1
  )
  _train(watched, tmp_path, tff_runtime)
  assert devices.calls[:-2] == [
    ('restore', []),
    ('flush', []),
    ('prune', [0]),
    ('commit', [0]),
    ('flush', [0]),
    ('prune', [0, 1]),
    ('commit', [0, 1]),
    ('flush', [0, 1]),
    ('prune', [1, 2]),
  ]


class _KillingProcess:
  """A process whose worker dies in the middle of the first calls of some methods.

  The worker is halted, so that the call cannot end, and killed a moment later.
  """

  def __init__(self, process, runtime, **kills: int):
    self._process = process
    self._runtime = runtime
    self._kills = kills
    self.pids = []

  def kill(self, **kills: int) -> None:
    self._kills = kills

  def __getattr__(self, name):
    call = getattr(self._process, name)

    def with_kills(*arguments):
      if self._kills.get(name, 0) > 0:
        self._kills[name] -= 1
        pid = self._runtime.workers[0].process.pid
        self.pids.append(pid)
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
      return call(*arguments)

    return with_kills


def test_a_worker_killed_at_work_is_replaced_and_nothing_else_changes(
  undisturbed, program, tmp_path
):
  with execution.execution(log_dir=tmp_path) as runtime:
    # One death before the first round, two in it, and one between rounds.
    killing = _KillingProcess(
      program.process, runtime, initialize=1, next=2, get_model_weights=1
    )
    disturbed = dataclasses.replace(program, process=killing)
    run = _Run(_train(disturbed, tmp_path, runtime), tmp_path)
    assert len(set(killing.pids)) == 4
    assert runtime.workers[0].process.pid not in killing.pids
  run.assert_equals(undisturbed)


@pytest.mark.parametrize(
  'method', ['next', pytest.param('get_model_weights', marks=pytest.mark.slow)]
)
def test_three_deaths_in_a_row_end_the_run_with_everything_saved(
  undisturbed, program, tmp_path, method
):
  with execution.execution(log_dir=tmp_path) as runtime:
    killing = _KillingProcess(program.process, runtime)

    # Round 3 is between checkpoints, and evaluated.
    def client_data(users, round_number):
      if round_number == 3:
        killing.kill(**{method: 1000})
      return _client_data(users, round_number)

    doomed = dataclasses.replace(program, process=killing, client_data=client_data)
    with pytest.raises(worker_process.WorkerDiedError, match='SIGKILL') as caught:
      _train(doomed, tmp_path, runtime)
    assert str(caught.value).startswith('Round 3 was given up')
    assert 'All is saved up to round 2: repeat the command' in str(caught.value)
    assert flags.is_mistake(caught.value)  # One sentence, no traceback.
    assert len(killing.pids) == 3
    assert _saved_rounds(tmp_path)[-1] == 2
    assert len(_rows(tmp_path)) == 2
    runtime.restart()
    run = _Run(_train(program, tmp_path, runtime), tmp_path)
  run.assert_equals(undisturbed)


def test_noise_measured_on_the_trained_weights_is_that_of_the_plan(
  tff_runtime, tmp_path
):
  # An accounted cohort ten times the simulated one: noise is scaled by a tenth.
  plan = _plan(population=1000, cohort=40, noise_multiplier=1.5, clip=0.8)
  model = language_models.LstmLanguageModel(300, 64, 64, 1, tied=True)
  initial = model.initial_weights(_SEED)
  algorithm = registry.ALGORITHMS['dp_fed_avg']
  settings = algorithm.settings(server_optimizer='sgd', server_learning_rate=1.0)
  process = algorithm.build(
    learning_model.from_language_model(model, initial), settings, plan
  )
  program = program_lib.Program(
    process=process,
    sampler=cohorts.CohortSampler(
      _USERS, _COHORT, 'poisson', randomness.Stream.of_seed(_SEED)
    ),
    client_data=lambda users, round_number: [[] for _ in users],
    evaluate=_evaluate,
    mechanism=plan,
    total_rounds=1,
    rounds_per_eval=10,
    rounds_per_checkpoint=10,
  )

  def change(rounds: int) -> np.ndarray:
    chosen = dataclasses.replace(program, total_rounds=rounds)
    weights = _train(chosen, tmp_path, tff_runtime).weights
    return np.concatenate(
      [np.ravel(after - before) for after, before in zip(weights, initial, strict=True)]
    )

  once, twice = change(1), change(2)
  # On the mean of 40 users' updates: z * clip / 40. Users without data send zero.
  stddev = 1.5 * 0.8 / 40
  assert once.size == model.num_parameters > 50_000
  assert is_gaussian(once, stddev)
  # Two rounds add up like independent noises.
  assert is_gaussian(twice, stddev * math.sqrt(2))
  assert is_gaussian(twice - once, stddev)
  # The broken twins: noise of the simulated cohort, without the clip, 5 % too small,
  # and the same noise in both rounds.
  assert not is_gaussian(once, 1.5 * 0.8 / _COHORT)
  assert not is_gaussian(once, 1.5 / 40)
  assert not is_gaussian(once * 0.95, stddev)
  assert not is_gaussian(2 * once, stddev * math.sqrt(2))
  assert float(_rows(tmp_path)[0]['num_examples']) == 0


def test_a_run_that_stops_at_its_target_ends_there_and_stays_there(
  program, tff_runtime, tmp_path
):
  wanted = selection.Selection(target=math.inf, metric='word_perplexity', stops=True)
  program = dataclasses.replace(program, selection=wanted)
  outcome = _train(program, tmp_path, tff_runtime)
  # The first evaluation is after round 3 of 5.
  assert (outcome.ended, outcome.rounds_done, outcome.target_round) == (
    'finished',
    3,
    3,
  )
  again = _train(program, tmp_path, tff_runtime)
  assert again.rounds_done == 3 and again.ledger == outcome.ledger
  for first, second in zip(outcome.weights, again.weights, strict=True):
    np.testing.assert_array_equal(first, second)
