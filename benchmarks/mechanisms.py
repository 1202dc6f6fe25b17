"""Times a round under every mechanism of sums against one of DP-FedAvg, interleaved.

  python -m benchmarks.mechanisms            # small and large; ten minutes
  python -m benchmarks.mechanisms --quick    # does it run? in half a minute

All train the same clients on the same batches; they differ in the noise, and in who adds
it. They take turns, and a ratio is that of two neighbouring rounds.
"""

import dataclasses
import json
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from benchmarks import workloads
from tff_textpriv import files, flags, randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.models import language_models
from tff_textpriv.privacy import distributed_settings, ftrl_settings, mechanism
from tff_textpriv.runtime import execution, heaps
from tff_textpriv.settings import setting

_BASELINE = 'dp_fed_avg'
_PRESETS = {'small': ('lstm_tiny', 2004), 'large': ('lstm_small', 10004)}
_WORDS = 20
# In a run of so many rounds users come back after so many, which decides the bands.
_SEPARATION = 20


@dataclasses.dataclass(frozen=True)
class MechanismsSettings(settings_lib.Settings):
  """What to time."""

  workloads: tuple[str, ...] = setting(
    tuple(_PRESETS), 'The models; see benchmarks.speed.', choices=tuple(_PRESETS)
  )
  num_clients: int = setting(20, 'Clients in a round.', low=1)
  repeats: int = setting(10, 'Timed rounds of each mechanism.', low=1)
  output: str = setting('build/mechanisms.json', 'The file for the results.')
  quick: bool = setting(False, 'Only see whether it runs: few clients, one round.')


def main(settings: MechanismsSettings) -> int:
  """Times all, prints a table for each model, writes JSON; returns 0."""
  if settings.quick:
    settings = dataclasses.replace(
      settings, workloads=('small',), num_clients=2, repeats=1
    )
  heaps.limit()  # As a run does.
  report = {}
  with (
    tempfile.TemporaryDirectory() as folder,
    execution.execution(1, log_dir=pathlib.Path(folder)),
  ):
    for name in settings.workloads:
      report[name] = _seconds(name, settings)
      _print(name, report[name])
  output = pathlib.Path(settings.output)
  output.parent.mkdir(parents=True, exist_ok=True)
  files.write_atomically(output, json.dumps(report, indent=2) + '\n')
  print(f'written: {output}')
  return 0


def _mechanisms(
  num_clients: int, num_coordinates: int
) -> dict[str, mechanism.Mechanism]:
  """Returns what is compared, by name."""
  from benchmarks.contenders import ours

  deployment = mechanism.Deployment(
    'separated',
    _SEPARATION * num_clients,
    num_clients,
    rounds=ours.MOST_ROUNDS,
    num_coordinates=num_coordinates,
    separation=_SEPARATION,
  )
  common: dict[str, Any] = {
    'noise_multiplier': 1.0,
    'clip': workloads.CLIP,
    'privacy_claim': False,
  }
  correlated = {
    f'dp_ftrl, {kind}': ftrl_settings.FtrlPrivacySettings(ftrl_noise=kind, **common)
    for kind in ('blt', 'tree', 'banded')
  }
  summed = {
    f'distributed, {law}, {bits} bits': distributed_settings.DistributedPrivacySettings(
      device_noise=law, modular_bits=bits, **common
    )
    for law, bits in (('discrete_gaussian', '32'), ('skellam', '16'))
  }
  return {
    'fed_avg': ours.no_privacy(),
    _BASELINE: ours.gaussian(num_clients),
    **{
      name: chosen.mechanism(deployment)
      for name, chosen in (correlated | summed).items()
    },
  }


def _seconds(name: str, settings: MechanismsSettings) -> dict[str, list[float]]:
  """Returns the seconds of the rounds of each mechanism, which took turns."""
  preset, vocab_size = _PRESETS[name]
  model = language_models.build(preset, vocab_size, tied=False)
  posts = workloads.synthetic_posts(settings.num_clients, vocab_size)
  cohort = [
    workloads.training_batches(each, i, _WORDS, vocab_size)
    for i, each in enumerate(posts)
  ]
  rounds = {
    each: _rounds(model, chosen, cohort)
    for each, chosen in _mechanisms(settings.num_clients, model.num_parameters).items()
  }
  seconds: dict[str, list[float]] = {each: [] for each in rounds}
  for number in range(settings.repeats + 1):
    for each, train in rounds.items():
      started = time.perf_counter()
      train(number)
      if number:  # The first one compiles.
        seconds[each].append(time.perf_counter() - started)
  return seconds


def _rounds(
  model: language_models.LanguageModel, chosen: mechanism.Mechanism, cohort: list[Any]
) -> Callable[[int], None]:
  """Returns a function that trains one round after the other."""
  from benchmarks.contenders import ours
  from tff_textpriv.iterative_processes import contract, stacked_batches

  process = ours.build_process(model, model.initial_weights(0), chosen)
  next_round = stacked_batches.NextRound(process)
  state = process.initialize()
  stream = randomness.Stream.of_seed(0)
  has_seeds = contract.reads(process) != (contract.BATCHES,)

  def train(number: int) -> None:
    nonlocal state
    read = cohort
    if has_seeds:
      read = [
        (batches, [stream.words('client', number, i)])
        for i, batches in enumerate(cohort)
      ]
    state = next_round(state, read).state

  return train


def _print(name: str, seconds: dict[str, list[float]]) -> None:
  print(
    f'\n{name:40} {"seconds":>8} {"over DP-FedAvg":>15} {"lowest":>8} {"highest":>8}'
  )
  for each, own in seconds.items():
    ratios = [
      mine / theirs for mine, theirs in zip(own, seconds[_BASELINE], strict=True)
    ]
    print(
      f'{each:40} {statistics.median(own):8.3f} {statistics.median(ratios):15.2f} '
      f'{min(ratios):8.2f} {max(ratios):8.2f}',
      flush=True,
    )


if __name__ == '__main__':
  flags.run(main, MechanismsSettings, __doc__.splitlines()[0])
