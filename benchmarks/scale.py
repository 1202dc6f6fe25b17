"""Measures how time, memory and traffic of a round grow; fits the cost.

  python -m benchmarks.scale                          # all parts; an hour or so
  python -m benchmarks.scale --parts=clients --num_workers=1
  python -m benchmarks.scale --quick                  # does it run? half a minute

Parts: `clients` and `parameters` grow one of the two and fit the cost of both;
`population` draws cohorts from ever more users in an SQLite file, read and encoded
as in training; `paper` trains a cohort of the paper's model of 14M parameters; `rounds`
makes ever more rounds of one run and looks at the memory that is held. All of it is drawn
into a picture by

  python -m benchmarks.growth_plot build/scale.json --picture=growth.svg
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import psutil

from benchmarks import cost_model, memory
from tff_textpriv import files, flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.runtime import execution, local_worker
from tff_textpriv.settings import setting

_PARTS = ('clients', 'parameters', 'population', 'paper', 'rounds')
# Vocabulary, embedding, LSTM, layers: 10 thousand to 14 million parameters.
_MODELS = (
  (200, 16, 24, 1),
  (1_000, 32, 64, 1),
  (2_004, 64, 128, 1),
  (5_000, 96, 256, 1),
  (10_004, 96, 670, 1),
  (10_004, 448, 448, 3),
)
_SMALL_MODEL, _PAPER_MODEL = _MODELS[1], _MODELS[-1]
# Clients and their sentences in the rounds with which the model grows. Three of them
# tell apart what a round, a client and a step of SGD cost.
_FEW_CLIENTS = ((4, 32), (12, 16), (4, 128))
_LONG_RUN_CLIENTS = 20
_MIB = 2**20


@dataclasses.dataclass(frozen=True)
class ScaleSettings(settings_lib.Settings):
  """What to measure."""

  parts: tuple[str, ...] = setting(_PARTS, 'What to measure.', choices=_PARTS)
  clients: tuple[int, ...] = setting(
    (10, 30, 100, 300, 1000), 'Clients in a round, in the part clients.', low=1
  )
  population: tuple[int, ...] = setting(
    (1_000, 10_000, 100_000, 342_477), 'Users, in the part population.', low=1
  )
  cohort: int = setting(1000, 'Clients in a round, in the part population.', low=1)
  rounds: tuple[int, ...] = setting(
    (10, 30, 100, 300, 1000),
    'After how many rounds to look, in the part rounds.',
    low=1,
  )
  paper_cohort: int = setting(100, 'Clients in a round, in the part paper.', low=1)
  max_parameters: int = setting(
    20_000_000, 'Leave larger models out of the part parameters.', low=1
  )
  num_workers: tuple[int, ...] = setting((1, 2), 'Numbers of workers to try.', low=1)
  max_concurrent_clients: int = setting(
    0, 'Clients that a worker trains at a time; 0 as in training.', low=0
  )
  repeats: int = setting(3, 'Timed rounds of each size.', low=1)
  folder: str = setting('build/scale', 'The folder for generated users.')
  output: str = setting('build/scale.json', 'The file for the results.')
  quick: bool = setting(False, 'Only see whether it runs: small sizes, one worker.')


def main(settings: ScaleSettings) -> int:
  """Measures, prints a line for each size and the fit, writes JSON."""
  if settings.quick:
    settings = dataclasses.replace(
      settings,
      clients=(4, 12),
      population=(200,),
      cohort=20,
      rounds=(1, 3),
      paper_cohort=2,
      max_parameters=100_000,
      num_workers=(1,),
      repeats=1,
    )
  # Only now is TensorFlow needed.
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
  from benchmarks import scale_rounds

  results: list[dict[str, Any]] = []
  for workers in settings.num_workers:
    print(_HEADER, flush=True)
    of_these: list[dict[str, Any]] = []
    for make_rounds in _rounds(settings, scale_rounds):
      with _workers(workers, settings.max_concurrent_clients) as pids:
        result = _measure(make_rounds(), pids, workers, settings.repeats)
      of_these.append({'num_workers': workers} | result)
      print(_line(of_these[-1]), flush=True)
    if 'rounds' in settings.parts:
      of_these += _long_run(settings, workers, scale_rounds)
    results += of_these
    for cost in ('seconds', 'cpu_seconds'):
      _print_fit(of_these, cost)
  output = pathlib.Path(settings.output)
  files.write_atomically(output, json.dumps(results, indent=2) + '\n')
  print(f'written: {output}')
  return 0


def _rounds(settings: ScaleSettings, scale_rounds: Any) -> Iterator[Callable[[], Any]]:
  """Yields what makes the rounds of each size; to be called when workers are there."""
  if 'clients' in settings.parts:
    for num_clients in settings.clients:
      yield partial(scale_rounds.synthetic, 'clients', _SMALL_MODEL, num_clients)
  if 'parameters' in settings.parts:
    for sizes in _MODELS:
      if scale_rounds.num_parameters(sizes) <= settings.max_parameters:
        for few in _FEW_CLIENTS:
          yield partial(scale_rounds.synthetic, 'parameters', sizes, *few)
  if 'population' in settings.parts:
    for num_users in settings.population:
      yield partial(
        scale_rounds.from_population,
        _SMALL_MODEL,
        num_users,
        min(settings.cohort, num_users),
        pathlib.Path(settings.folder),
      )
  if 'paper' in settings.parts:
    yield partial(scale_rounds.synthetic, 'paper', _PAPER_MODEL, settings.paper_cohort)


def _long_run(
  settings: ScaleSettings, num_workers: int, scale_rounds: Any
) -> list[dict[str, Any]]:
  """Makes one run and tells, after some of its rounds, what they take and hold."""
  results = []
  with _workers(num_workers, settings.max_concurrent_clients) as pids:
    rounds = scale_rounds.synthetic('rounds', _SMALL_MODEL, _LONG_RUN_CLIENTS)
    rounds.run(0)
    started, before = time.perf_counter(), 0
    for done in settings.rounds:
      for number in range(before + 1, done + 1):
        rounds.run(number)
      seconds = (time.perf_counter() - started) / (done - before)
      held = [memory.resident(pid) for pid in (os.getpid(), *pids)]
      print(
        f'after {done:6,} rounds: {seconds:.3f} s per round, main '
        f'{held[0] / _MIB:,.0f} MiB, worker {max(held[1:]) / _MIB:,.0f} MiB',
        flush=True,
      )
      results.append(
        {
          'part': 'rounds',
          'num_workers': num_workers,
          'rounds': done,
          'seconds': seconds,
          'bytes_main': held[0],
          'bytes_workers': held[1:],
        }
      )
      started, before = time.perf_counter(), done
  return results


@contextlib.contextmanager
def _workers(num_workers: int, max_concurrent_clients: int) -> Iterator[list[int]]:
  """Runs TFF on fresh workers; yields their process ids."""
  with (
    tempfile.TemporaryDirectory() as folder,
    execution.execution(
      num_workers,
      max_concurrent_clients=max_concurrent_clients,
      log_dir=pathlib.Path(folder),
    ) as runtime,
  ):
    yield [
      worker.process.pid
      for worker in runtime.workers
      if isinstance(worker, local_worker.LocalWorker)
    ]


def _measure(
  rounds: Any, worker_pids: Sequence[int], num_workers: int, repeats: int
) -> dict[str, Any]:
  """Times rounds after a first one that compiles, and watches memory."""
  processes = [os.getpid(), *worker_pids]
  rounds.run(0)
  memory.reset_peak(processes)
  seconds, preparing = [], []
  cpu_before = _cpu_seconds(processes)
  for round_number in range(1, repeats + 1):
    started = time.perf_counter()
    cohort = rounds.make_cohort(round_number)
    preparing.append(time.perf_counter() - started)
    rounds.train(cohort)
    seconds.append(time.perf_counter() - started)
  return {
    **rounds.facts(num_workers),
    'seconds': statistics.median(seconds),
    'cpu_seconds': (_cpu_seconds(processes) - cpu_before) / repeats,
    'seconds_lowest': min(seconds),
    'seconds_highest': max(seconds),
    'seconds_of_preparing': statistics.median(preparing),
    'peak_bytes_main': memory.peak(processes[0]),
    'peak_bytes_workers': [memory.peak(pid) for pid in worker_pids],
  }


def _cpu_seconds(pids: Sequence[int]) -> float:
  """Adds up what processes have computed, which others' load hardly changes."""
  return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


_HEADER = (
  f'\n{"part":11} {"workers":>7} {"clients":>7} {"parameters":>11} {"users":>8} '
  f'{"steps":>6} {"tokens":>8} {"seconds":>8} {"of these":>8} {"CPU":>8} {"main":>7} '
  f'{"worker":>7} {"state":>8} {"data":>7}\n'
  f'{"":62} {"":>8} {"data s":>8} {"s":>8} {"MiB":>7} {"MiB":>7} {"MiB":>8} {"MiB":>7}'
)


def _line(result: dict[str, Any]) -> str:
  """Writes a result in one line of the table."""
  return (
    f'{result["part"]:11} {result["num_workers"]:7} {result["clients"]:7,} '
    f'{result["parameters"]:11,} {result["population"]:8,} {result["steps"]:6,} '
    f'{result["tokens"]:8,} {result["seconds"]:8.3f} '
    f'{result["seconds_of_preparing"]:8.3f} {result["cpu_seconds"]:8.3f} '
    f'{result["peak_bytes_main"] / _MIB:7,.0f} '
    f'{max(result["peak_bytes_workers"]) / _MIB:7,.0f} '
    f'{(result["bytes_to_workers"] + result["bytes_from_workers"]) / _MIB:8.2f} '
    f'{result["bytes_of_data"] / _MIB:7.2f}'
  )


def _print_fit(results: Sequence[dict[str, Any]], cost: str) -> None:
  """Fits a cost to the rounds of generated clients, and prints it."""
  points = [
    cost_model.Point(
      clients=result['clients'],
      parameters=result['parameters'],
      steps=result['steps'],
      tokens=result['tokens'],
      seconds=result[cost],
    )
    for result in results
    if result['part'] not in ('population', 'rounds')
  ]
  if not points or len(points) <= len(points[0].parts):
    return  # A fit to so few would say nothing.
  fit = cost_model.fit(points)
  print(f'\n{cost.replace("_", " ")} of a round, fitted to {len(points)} sizes:')
  for name, seconds in fit.seconds_per.items():
    print(f'  {seconds:10.3g} s for each {name}')
  print(f'  worst error {fit.worst_error:.0%}')


if __name__ == '__main__':
  flags.run(main, ScaleSettings, __doc__.splitlines()[0])
