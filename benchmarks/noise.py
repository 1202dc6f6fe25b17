"""Times the private mean on whole numbers against one of floating point, interleaved.

  python -m benchmarks.noise              # as many weights as `small` and `large`, 20 clients
  python -m benchmarks.noise --quick      # does it run? in a second

Both clip the updates of a cohort, add them up and noise the sum. The one that ours is
compared with is what was done before: single precision, and TensorFlow's generator, whose
Gaussian ends at 5.7 standard deviations. What a round costs besides, training above all,
is the same, so that the difference is what the precision costs a round.
"""

import dataclasses
import json
import pathlib
import statistics
import time
from typing import Any

import tensorflow as tf

from tff_textpriv import files, flags, randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.aggregators import clipping, lattice_noise
from tff_textpriv.privacy.central import CentralGaussian
from tff_textpriv.settings import setting


@dataclasses.dataclass(frozen=True)
class NoiseSettings(settings_lib.Settings):
  """What to time."""

  sizes: tuple[int, ...] = setting(
    (365_588, 4_050_748), 'Numbers of weights: those of small and large.', low=1
  )
  cohort: int = setting(20, 'Clients whose updates are added up.', low=1)
  threads: int = setting(
    1, 'Threads of an operation, as in a worker of two cores.', low=1
  )
  repeats: int = setting(11, 'Timed rounds of each.', low=1)
  output: str = setting('build/noise.json', 'The file for the results.')
  quick: bool = setting(False, 'Only see whether it runs: few weights, once.')


def main(settings: NoiseSettings) -> int:
  """Times both in turn, prints and writes what the precision costs; returns 0."""
  if settings.quick:
    settings = dataclasses.replace(settings, sizes=(2000,), repeats=1)
  else:
    tf.config.threading.set_intra_op_parallelism_threads(settings.threads)
  report = {str(size): _compare(size, settings) for size in settings.sizes}
  output = pathlib.Path(settings.output)
  files.write_atomically(output, json.dumps(report, indent=2) + '\n')
  for size, seconds in report.items():
    ours, theirs = (1000 * statistics.median(each) for each in seconds.values())
    print(
      f'{int(size):>10,} weights: {ours:6.0f} ms on whole numbers, {theirs:6.0f} ms in '
      f'floating point: {ours - theirs:+.0f} ms a round'
    )
  print(f'written: {output}')
  return 0


def _compare(size: int, settings: NoiseSettings) -> dict[str, list[float]]:
  """Returns the seconds of both, in turn."""
  plan = _plan(settings.cohort, settings.repeats + 1)
  update = tf.random.stateless_normal([size], [1, 2])
  means = {'whole numbers': _whole(plan, size), 'floating point': _floating(plan)}
  seconds: dict[str, list[float]] = {name: [] for name in means}
  for number in range(settings.repeats + 1):
    for name, mean in means.items():
      started = time.perf_counter()
      mean(update, tf.constant(plan.round_seeds()[number])).numpy()
      if number:  # The first call traces.
        seconds[name].append(time.perf_counter() - started)
  return seconds


def _plan(cohort: int, rounds: int) -> CentralGaussian:
  sizes = dict.fromkeys(('cohort', 'simulated_cohort'), cohort)
  users = dict.fromkeys(('population', 'simulated_population'), 100 * cohort)
  return CentralGaussian(
    sampling='poisson', rounds=rounds, clip=0.01, noise_multiplier=1.0, delta=1e-6,
    stream=randomness.Stream.of_seed(0), **sizes, **users,
  )  # fmt: skip


def _whole(plan: CentralGaussian, size: int) -> Any:
  points = plan.points(size)
  law = plan.noise_law(plan.sum_stddev(1.0) * points.clip, plan.update_noise_multiplier)

  @tf.function
  def mean(update: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    total = tf.zeros([size], tf.int32)
    for client in tf.range(plan.simulated_cohort):
      own = update * (1 + tf.cast(client, tf.float32))
      total += clipping.clip_update(own, tf.constant(plan.clip), points)['update']
    return lattice_noise.noisy(total, law, seed, tf.constant(plan.clip / points.clip))

  return mean


def _floating(plan: CentralGaussian) -> Any:
  @tf.function
  def mean(update: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    total = tf.zeros_like(update)
    for client in tf.range(plan.simulated_cohort):
      own = update * (1 + tf.cast(client, tf.float32))
      finite = tf.reduce_all(tf.math.is_finite(own))
      own = tf.where(finite, own, tf.zeros_like(own))
      total += own * tf.minimum(1.0, plan.clip / tf.linalg.global_norm([own]))
    return total + plan.sum_stddev(plan.clip) * tf.random.stateless_normal(
      tf.shape(total), seed
    )

  return mean


if __name__ == '__main__':
  flags.run(main, NoiseSettings, 'Times the private mean on whole numbers.')
