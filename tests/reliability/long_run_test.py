"""A long run takes no more memory and no more open files at its end than at its start.

`pytest -m slow tests/reliability/long_run_test.py -s` prints the figures that are in
docs/reliability.md. TFF_TEXTPRIV_LONG_RUN chooses another number of rounds.
"""

import csv
import os
import time
from typing import NamedTuple

import disturbed_runs
import numpy as np
import psutil
import pytest

_ROUNDS = int(os.environ.get('TFF_TEXTPRIV_LONG_RUN', '2000'))
# Every size of cohort is met within 300 rounds, and the heaps of the worker, which has
# graphs for each of them, are as large as they get after about 800.
_WARM_UP = _ROUNDS // 2
_SECONDS_BETWEEN = 1.0
_MAX_MB_PER_100_ROUNDS = 1.0


class _Sample(NamedTuple):
  """What the two processes held after so many rounds; memory is in MB."""

  rounds: int
  main_mb: float
  main_files: int
  worker_mb: float
  worker_files: int


@pytest.mark.slow
def test_memory_and_open_files_of_a_long_run_do_not_grow(tmp_path):
  """Poisson cohorts: four users are expected, and none to a dozen come."""
  command = disturbed_runs.Command(
    disturbed_runs.Settings(
      'stackoverflow',
      (
        '--algo=dp_fed_avg', '--noise_multiplier=1', f'--total_rounds={_ROUNDS}',
        '--num_users=60', '--clients_per_round=4', '--vocab_size=300',
        '--max_words_per_user=120', '--max_eval_users=2', '--rounds_per_eval=100',
      ),
    ),
    tmp_path / 'long_run',
    tmp_path / 'log.txt',
  )  # fmt: skip
  started = time.monotonic()
  samples = _watch(command)
  assert command.wait() == 0, command.log
  seconds = time.monotonic() - started
  with open(tmp_path / 'samples.csv', 'w', newline='') as stream:
    csv.writer(stream).writerows([_Sample._fields, *samples])
  warm = [sample for sample in samples if sample.rounds >= _WARM_UP]
  assert len(warm) > 20
  slopes = {name: _per_100_rounds(warm, name) for name in ('main_mb', 'worker_mb')}
  print(f'\n{_ROUNDS} rounds in {seconds:.0f} s, {len(samples)} samples: {tmp_path}')
  print(f'first     {samples[0]}\nwarmed up {warm[0]}\nlast      {warm[-1]}')
  print({name: f'{slope:+.3f} MB per 100 rounds' for name, slope in slopes.items()})
  assert max(slopes.values()) < _MAX_MB_PER_100_ROUNDS
  # More sizes of cohort than executors are kept for.
  assert len(_cohort_sizes(command)) > 4
  half = len(warm) // 2
  for name in ('main_files', 'worker_files'):
    counts = [getattr(sample, name) for sample in warm]
    assert max(counts[half:]) <= max(counts[:half]), name


def _watch(command: disturbed_runs.Command) -> list[_Sample]:
  """Samples a command's processes until it has done its rounds."""
  samples: list[_Sample] = []
  due = 0.0

  def is_due() -> bool:
    return time.monotonic() >= due

  while command.wait_until(is_due):
    due = time.monotonic() + _SECONDS_BETWEEN
    rounds = disturbed_runs.rounds_done(command.folder)
    if rounds == _ROUNDS:
      break
    workers = command.workers()
    if rounds and workers:
      samples.append(
        _Sample(rounds, *_held(psutil.Process(command.pid)), *_held(workers[0]))
      )
  return samples


def _held(process: psutil.Process) -> tuple[float, int]:
  return process.memory_info().rss / 1e6, process.num_fds()


def _per_100_rounds(samples: list[_Sample], name: str) -> float:
  """Fits a line to a figure by least squares; returns how it grows in 100 rounds."""
  rounds = [sample.rounds for sample in samples]
  return 100 * np.polyfit(rounds, [getattr(sample, name) for sample in samples], 1)[0]


def _cohort_sizes(command: disturbed_runs.Command) -> set[str]:
  with open(command.folder / 'metrics.csv', newline='') as stream:
    return {row['num_clients'] for row in csv.DictReader(stream)}
