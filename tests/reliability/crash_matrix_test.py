"""However a run of any algorithm is struck, it ends where it would have ended.

`pytest -m slow tests/reliability/crash_matrix_test.py -s` strikes 60 times and prints
what came of it; docs/reliability.md has the figures.
"""

import dataclasses
import pathlib
import random
import shutil
import subprocess
import time

import crash_faults
import disturbed_runs
import finished_runs
import pytest

from tff_textpriv.iterative_processes import registry

_SEED = 9
_NUM_POINTS = 60
_DISK_BYTES = 64 * 2**20
_ROUNDS = 5
_COMMON = (
  f'--total_rounds={_ROUNDS}', '--rounds_per_eval=2', '--rounds_per_checkpoint=2',
)  # fmt: skip
_TEXT = (
  '--num_users=12', '--clients_per_round=3', '--vocab_size=300',
  '--max_words_per_user=120', '--max_eval_users=2', *_COMMON,
)  # fmt: skip
_REVIEWS = (
  '--num_clients=4', '--clients_per_round=2', '--max_train_examples=40',
  '--hash_buckets=50', *_COMMON,
)  # fmt: skip
_WORDS = (
  '--num_clients=4', '--clients_per_round=2', '--max_train_examples=40',
  '--max_words=8', '--max_eval_users=1', '--max_eval_examples=9', *_COMMON,
)  # fmt: skip


def _settings(task: str, algo: str, *given: str) -> disturbed_runs.Settings:
  return disturbed_runs.Settings(task, (f'--algo={algo}', *given))


# Every algorithm on the cheapest task that has all its parts.
_RUNS = {
  'central': _settings('imdb', 'central', *_REVIEWS),
  'dp_fed_avg': _settings('stackoverflow', 'dp_fed_avg', '--noise_multiplier=1', *_TEXT),
  'dp_fed_avg with a secret': _settings(
    'stackoverflow', 'dp_fed_avg', '--noise_multiplier=1', '--noise_source=system', *_TEXT
  ),
  'dp_ftrl': _settings('stackoverflow', 'dp_ftrl', '--noise_multiplier=1', *_TEXT),
  'fed_att': _settings('imdb', 'fed_att', *_REVIEWS),
  'fed_avg': _settings('imdb', 'fed_avg', *_REVIEWS),
  'fed_nova': _settings('imdb', 'fed_nova', *_REVIEWS),
  'fed_prox': _settings('imdb', 'fed_prox', *_REVIEWS),
  'fed_recon': _settings('sst2', 'fed_recon', *_WORDS),
  'fed_sgd': _settings('imdb', 'fed_sgd', *_REVIEWS),
  'fede_vocab': _settings('sst2', 'fede_vocab', *_WORDS),
  'fede_vocab in memory': _settings(
    'sst2', 'fede_vocab', '--device_store=memory', *_WORDS
  ),
  'lg_fedavg': _settings('sst2', 'lg_fedavg', *_WORDS),
  'local_only': _settings('sst2', 'local_only', *_WORDS),
  'local_only of text': _settings('stackoverflow', 'local_only', *_TEXT),
  'priv_unit': _settings('imdb', 'rr_ldp', '--mechanism=priv_unit', *_REVIEWS),
  'robust_avg': _settings('imdb', 'robust_avg', *_REVIEWS),
  'rr_ldp': _settings('imdb', 'rr_ldp', *_REVIEWS),
  'scaffold': _settings('stackoverflow', 'scaffold', *_TEXT),
  'subword_resample': _settings(
    'stackoverflow', 'subword_resample', *_TEXT, '--resample_rounds=3',
    '--sample_tokens=4000', '--sample_max_length=24', '--vocab_size=700',
    '--warm_start_epochs=1', '--distillation_epochs=1',
  ),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _Point:
  """Where a run is struck: after which round, and how far into the next one."""

  run: str
  fault: crash_faults.Fault
  round_before: int
  part: float
  seed: int

  def __str__(self) -> str:
    return f'{self.run}-{self.fault.__name__}-{self.round_before + self.part:.2f}'


def _points() -> list[_Point]:
  """Deals faults to runs so that no pair comes twice; the rest is drawn."""
  rng = random.Random(_SEED)
  names = list(_RUNS)
  # As many runs as faults have no divisor in common, going round both visits all pairs.
  return [
    _Point(
      names[i % len(names)],
      crash_faults.ALL[i % len(crash_faults.ALL)],
      rng.randrange(_ROUNDS + 1),
      rng.random(),
      rng.randrange(2**31),
    )
    for i in range(_NUM_POINTS)
  ]


@dataclasses.dataclass(frozen=True)
class _Reference:
  folder: pathlib.Path
  seconds: list[float]


@pytest.fixture(scope='module')
def undisturbed(tmp_path_factory):
  """Returns what makes an undisturbed run; the same one only once."""
  root = tmp_path_factory.mktemp('undisturbed')
  made: dict[str, _Reference] = {}

  def make(name: str) -> _Reference:
    if name not in made:
      command = disturbed_runs.Command(
        _RUNS[name], root / name.replace(' ', '_'), root / 'log.txt'
      )
      seconds = disturbed_runs.durations(command)
      assert command.wait() == 0, command.log
      made[name] = _Reference(command.folder, seconds)
    return made[name]

  return make


@pytest.fixture
def disk(tmp_path):
  """A small disk of its own, so that filling it hurts nobody else."""
  folder = tmp_path / 'disk'
  folder.mkdir()
  mount = ['mount', '-t', 'tmpfs', '-o', f'size={_DISK_BYTES}', 'tmpfs', str(folder)]
  if subprocess.run(mount, capture_output=True, check=False).returncode:
    pytest.skip('only root may mount a small disk to be filled')
  yield folder
  subprocess.run(['umount', '--lazy', str(folder)], check=True)


def test_all_algorithms_and_faults_have_their_points():
  algorithms = {settings.flags[0] for settings in _RUNS.values()}
  assert algorithms == {f'--algo={name}' for name in registry.ALGORITHMS}
  points = _points()
  assert len({(point.run, point.fault) for point in points}) == _NUM_POINTS
  assert {point.run for point in points} == set(_RUNS)
  assert {point.fault for point in points} == set(crash_faults.ALL)


@pytest.mark.slow
@pytest.mark.parametrize('point', _points(), ids=str)
def test_a_run_that_was_struck_ends_where_it_would_have(point, disk, undisturbed):
  _strike(point, disk, undisturbed(point.run))


def test_a_run_killed_before_it_released_a_round_that_it_charged_spends_it_once(
  disk, undisturbed
):
  run = 'dp_fed_avg with a secret'
  point = _Point(run, crash_faults.killed_before_release, 2, 0.5, 0)
  _strike(point, disk, undisturbed(run))


@pytest.mark.slow
def test_a_quick_run_on_a_full_disk_ends_where_it_would_have(disk, undisturbed):
  point = _Point('fed_sgd', crash_faults.disk_full, 3, 0.5, 0)
  _strike(point, disk, undisturbed('fed_sgd'))


def _strike(point: _Point, disk: pathlib.Path, reference: _Reference) -> None:
  """Strikes a run, lets it go on, and compares it with one that was left alone."""
  seconds = point.part * reference.seconds[point.round_before]
  folder = disk / reference.folder.name
  started = time.monotonic()
  secret = reference.folder / 'secret.key'
  if secret.exists():  # Two runs with one secret, which only a test may have.
    folder.mkdir()
    shutil.copy2(secret, folder)
  case = crash_faults.Case(
    _RUNS[point.run],
    folder,
    disk.parent / 'log.txt',
    point.round_before,
    seconds,
    random.Random(point.seed),
  )
  ending = point.fault(case)
  rounds = disturbed_runs.rounds_done(folder)
  if not (folder / 'report.html').exists():  # The last file of a run.
    command = case.start()
    assert command.wait() == 0, command.log
  finished_runs.assert_same(folder, reference.folder)
  print(
    f'\n{point.fault.__name__:22} {point.run:22} '
    f'round {point.round_before} + {seconds:5.2f} s  {ending} ({rounds} rounds)  '
    f'{time.monotonic() - started:.0f} s'
  )
