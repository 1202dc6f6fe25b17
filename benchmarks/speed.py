"""Times one federated round of ours against those of others, interleaved.

  python -m benchmarks.speed                     # everything; about half an hour
  python -m benchmarks.speed --workloads=small --repeats=5 --private=no
  python -m benchmarks.speed --quick             # does it run? in half a minute

Contenders train the same weights on the same batches, and their weights after a
round are compared. Each lives in a process of its own and is asked for a round in
turn, so that whatever else the machine does disturbs all of them alike; ratios are
those of neighbouring rounds. `make benchmark-peers` installs the peers.
"""

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import platform
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np
import psutil

from benchmarks import processes, reference, workloads
from tff_textpriv import files, flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.models import presets
from tff_textpriv.settings import setting

# Our contenders, which the others are compared with.
_OURS = ('ours', 'ours_2_workers')
# Flower averages weights, not differences, in single precision: with short updates the
# rounding alone is beyond the tolerance, and the command says so and fails.
_ON_REQUEST = ('flower',)
# Twice rounding errors of float32 that a round amplifies; DP adds a little noise.
_TOLERANCE = 1e-3
_REFERENCE_CLIENTS = 3
# How long to look whether others use the machine, and what share of it is too much.
_BUSY_SECONDS = 2.0
_BUSY = 0.1
_WORKLOADS = ('small', 'large', 'text_small', 'text_large')
_PRESETS = {'small': ('lstm_tiny', 2004), 'large': ('lstm_small', 10004)}


@dataclasses.dataclass(frozen=True)
class SpeedSettings(settings_lib.Settings):
  """What to time."""

  workloads: tuple[str, ...] = setting(
    ('small', 'large'),
    'Model and text: small and large have 32 sentences of 20 words a client, text_small '
    'and text_large real users.',
    choices=_WORKLOADS,
  )
  contenders: tuple[str, ...] = setting(
    tuple(name for name in processes.COMMANDS if name not in _ON_REQUEST),
    'Who is timed; left out are those whose environment is not installed.',
    choices=tuple(processes.COMMANDS),
  )
  private: str = setting(
    'both',
    'Rounds with clipping and noise, without, or both.',
    choices=('yes', 'no', 'both'),
  )
  repeats: int = setting(10, 'Timed rounds of each contender and workload.', low=1)
  num_clients: int = setting(20, 'Clients in a round.', low=1)
  text: str | None = setting(
    None, 'The SQLite file of real users for text_*, as prepare_data writes it.'
  )
  max_words_per_user: int = setting(1600, 'Where real users are cut off.', low=1)
  max_sentence_words: int = setting(32, 'Words in a row of real text.', low=2)
  output: str = setting('build/speed.json', 'The file for the results.')
  quick: bool = setting(
    False, 'Only see whether it runs: a few clients, two contenders, one round.'
  )


def main(settings: SpeedSettings) -> int:
  """Runs the comparison, prints a table for each workload, writes JSON."""
  if settings.quick:
    settings = dataclasses.replace(
      settings,
      workloads=('small',),
      contenders=('ours', 'plain_fast'),
      private='yes',
      repeats=1,
      num_clients=3,
    )
  # Reading real users loads TensorFlow, whose remarks on the machine are no news.
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
  results = []
  with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
    to_run = list(_workloads(settings))
    contenders = processes.start(settings.contenders, pathlib.Path(folder), stack)
    for workload in to_run:
      results.append(
        _compare(workload, contenders, settings.repeats, pathlib.Path(folder))
      )
      print(_table(results[-1]), flush=True)
  report = {'machine': _machine(), 'results': results}
  output = pathlib.Path(settings.output)
  output.parent.mkdir(parents=True, exist_ok=True)
  files.write_atomically(output, json.dumps(report, indent=2) + '\n')
  print(f'written: {output}')
  return 0 if all(result['agree'] for result in results) else 1


def _workloads(settings: SpeedSettings) -> Iterator[workloads.Workload]:
  """Makes the workloads that were asked for."""
  private = {'yes': (True,), 'no': (False,), 'both': (False, True)}[settings.private]
  for name, is_private in itertools.product(settings.workloads, private):
    preset, vocab_size = _PRESETS[name.removeprefix('text_')]
    if name.startswith('text_'):
      if settings.text is None:
        raise settings_lib.SettingsError(
          'text', None, f'--workloads={name} needs an SQLite file of real users'
        )
      max_words = settings.max_sentence_words
      posts = workloads.real_posts(
        settings.text, settings.num_clients, vocab_size, settings.max_words_per_user
      )
    else:
      max_words = 20
      posts = workloads.synthetic_posts(settings.num_clients, vocab_size)
    yield workloads.make(
      name, preset, vocab_size, posts, max_words=max_words, private=is_private
    )


def _compare(
  workload: workloads.Workload,
  contenders: Sequence[processes.Process],
  repeats: int,
  folder: pathlib.Path,
) -> dict:
  """Times all contenders on a workload, in turn."""
  place = folder / f'{workload.name}_{workload.private}'
  workload.save(place)
  for contender in contenders:
    contender.send({'prepare': str(place)})
  for contender in contenders:
    contender.receive()
  after = {}
  for contender in contenders:
    contender.ask({'round': True})
    file = place / f'{contender.name}.npz'
    contender.ask({'weights': str(file)})
    after[contender.name] = workloads.load_weights(file)
  # One more round to warm up: what the first leaves behind has been seen by then.
  for contender in contenders:
    contender.ask({'round': True})
  busy = psutil.cpu_percent(_BUSY_SECONDS) / 100
  seconds: dict[str, list[float]] = {contender.name: [] for contender in contenders}
  for _ in range(repeats):
    for contender in contenders:
      seconds[contender.name].append(contender.ask({'round': True})['seconds'])
  same = agreement(workload, after)
  return {
    'workload': workload.name,
    'private': workload.private,
    'model': dataclasses.asdict(presets.SIZES[workload.preset])
    | {'vocab_size': workload.vocab_size},
    'num_parameters': sum(weight.size for weight in workload.weights),
    'num_clients': len(workload.posts),
    'num_steps': workload.num_steps,
    'num_tokens': workload.num_tokens,
    'num_padded_tokens': workload.num_padded_tokens,
    'busy_with_others': busy,
    'seconds': seconds,
    'ratios': {
      ours: {
        name: paired_ratio(seconds[ours], times) for name, times in seconds.items()
      }
      for ours in _OURS
      if ours in seconds
    },
    'loss_before': _loss(workload, workload.weights),
    **same,
  }


def agreement(workload: workloads.Workload, after: dict[str, list[np.ndarray]]) -> dict:
  """Compares what contenders made of the same weights in a round."""
  first = next(iter(after.values()))
  update = _distance(first, workload.weights)
  differences = {
    name: _distance(weights, first) / update for name, weights in after.items()
  }
  return {
    'loss_after': {name: _loss(workload, weights) for name, weights in after.items()},
    'difference_of_updates': differences,
    'agree': all(difference < _TOLERANCE for difference in differences.values()),
  }


def _loss(workload: workloads.Workload, weights: Sequence[np.ndarray]) -> float:
  return reference.loss(weights, workload.batches[:_REFERENCE_CLIENTS])


def _distance(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> float:
  squares = (
    np.sum((a.astype(np.float64) - b) ** 2) for a, b in zip(some, others, strict=True)
  )
  return float(np.sqrt(sum(squares)))


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
  """Summarises the ratios of neighbouring rounds."""
  ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
  return {
    'median': statistics.median(ratios),
    'lowest': ratios[0],
    'highest': ratios[-1],
  }


def _table(result: dict) -> str:
  """Writes a workload's results in a table."""
  title = (
    f'\n{result["workload"]}, {"with" if result["private"] else "without"} DP: '
    f'{result["num_parameters"]:,} parameters, {result["num_clients"]} clients, '
    f'{result["num_steps"]} steps, {result["num_tokens"]:,} tokens '
    f'({result["num_padded_tokens"]:,} with padding); loss before the round '
    f'{result["loss_before"]:.5f}'
  )
  header = f'{"":16} {"median s":>9} {"lowest":>8} {"highest":>8} {"tokens/s":>9}'
  header += ''.join(f' {f"{ours}/it":>24}' for ours in result['ratios'])
  header += f' {"loss after":>11} {"difference":>11}'
  lines = [title, header]
  for name, seconds in result['seconds'].items():
    median = statistics.median(seconds)
    line = (
      f'{name:16} {median:9.3f} {min(seconds):8.3f} {max(seconds):8.3f} '
      f'{result["num_tokens"] / median:9,.0f}'
    )
    for ratios in result['ratios'].values():
      ratio = ratios[name]
      line += (
        f' {ratio["median"]:9.3f} ({ratio["lowest"]:5.2f}-{ratio["highest"]:5.2f})'
      )
    line += f' {result["loss_after"][name]:11.5f} {result["difference_of_updates"][name]:11.1e}'
    lines.append(line)
  lines.append(
    'the same work: '
    + ('yes' if result['agree'] else f'NO, updates differ by more than {_TOLERANCE:g}')
  )
  if result['busy_with_others'] > _BUSY:
    lines.append(
      f'NOT TO BE QUOTED: others kept the machine {result["busy_with_others"]:.0%} busy; '
      'PyTorch, whose threads wait for each other at every step, suffers most'
    )
  return '\n'.join(lines)


def _machine() -> dict:
  """Describes the machine."""
  return {
    'platform': platform.platform(),
    'cores': len(os.sched_getaffinity(0)),
    'load': os.getloadavg()[0],
    'python': sys.version.split()[0],
  }


if __name__ == '__main__':
  flags.run(main, SpeedSettings, __doc__.splitlines()[0])
