"""Measures how well local mechanisms tell a mean: error against epsilon, bytes, dimension.

  python -m benchmarks.mean_estimation            # d of 50 to 10^6; some minutes
  python -m benchmarks.mean_estimation --quick    # does it run? in half a minute

Clients have vectors of norm 1 in random directions, and each reports once. The error is
the squared error of the estimate from one report, summed over coordinates: estimates are
unbiased, but for what clipping takes, so that the mean of n reports has an n-th of it. As
the vectors have norm 1, it is also how many reports it takes before the error of the mean
is as long as a vector.
"""

import dataclasses
import json
import math
import pathlib
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tff_textpriv import files, flags, randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.aggregators import bit_reports, messages, of_mechanism
from tff_textpriv.privacy import (
  calibration,
  costs,
  local_gaussian,
  mechanism,
  priv_unit,
  randomized_bits,
  sqkr,
)
from tff_textpriv.reports import plots
from tff_textpriv.settings import setting

_DELTA = 1e-6
# Bits have a range for each coordinate: that of so many of its standard deviations.
_RANGE = 3.0


@dataclasses.dataclass(frozen=True)
class MeanEstimationSettings(settings_lib.Settings):
  """What to measure."""

  dimensions: tuple[int, ...] = setting(
    (50, 5_000, 100_000, 1_000_000), 'Dimensions of the vectors.', low=2
  )
  epsilons: tuple[float, ...] = setting(
    (0.5, 1.0, 2.0, 4.0, 8.0, 16.0), 'Epsilons of a report.', above=0
  )
  reports: int = setting(30, 'Reports of each mechanism, at each epsilon.', low=2)
  seed: int = setting(0, 'Decides vectors and reports.', low=0)
  output: str = setting('build/mean_estimation.json', 'The file for the results.')
  picture: str = setting('build/mean_estimation.svg', 'The file for the picture.')
  quick: bool = setting(False, 'Only see whether it runs: low dimensions, few reports.')


def main(settings: MeanEstimationSettings) -> int:
  """Measures all, prints a table, writes JSON and a picture; returns 0."""
  if settings.quick:
    settings = dataclasses.replace(
      settings, dimensions=(50, 200), epsilons=(1.0, 8.0), reports=20
    )
  rows = [
    row
    for dimension in settings.dimensions
    for epsilon in settings.epsilons
    for row in _measure(dimension, epsilon, settings)
  ]
  _print(rows)
  output = pathlib.Path(settings.output)
  output.parent.mkdir(parents=True, exist_ok=True)
  files.write_atomically(output, json.dumps(rows, indent=2) + '\n')
  files.write_atomically(pathlib.Path(settings.picture), _draw(rows))
  print(f'written: {output}, {settings.picture}')
  return 0


class _Contender(NamedTuple):
  """A mechanism, and the bytes of a report of its as it crosses."""

  chosen: mechanism.Mechanism
  num_bytes: int


def _contenders(dimension: int, epsilon: float) -> dict[str, _Contender]:
  """Returns what is compared, by name; a report of each has the epsilon."""
  once = mechanism.Deployment(
    'fixed',
    population=1,
    cohort=1,
    rounds=1,
    num_coordinates=dimension,
    stream=randomness.Stream.of_seed(0),
  )
  bits = randomized_bits.LocalPrivacySettings(
    target_epsilon=epsilon,
    delta=_DELTA,
    privacy_claim=False,
    quantization_range=_RANGE / math.sqrt(dimension),
  )
  # A user who takes part for sure; any update may stand in place of any other.
  noise = calibration.noise_for_budget(
    costs.SampledGaussian('poisson', 1, 1, 0.0),
    1,
    calibration.Budget(epsilon, _DELTA, 'pld'),
  )
  few = bits.mechanism(once)
  every = dataclasses.replace(bits, coordinates_per_client=dimension).mechanism(once)
  vectors = priv_unit.PrivUnitSettings(
    target_epsilon=epsilon, clip_norm=1.0, delta=_DELTA, privacy_claim=False
  )
  symbol = sqkr.SqkrSettings(
    target_epsilon=epsilon, clip_norm=1.0, delta=_DELTA, privacy_claim=False
  ).mechanism(once)
  gaussian = local_gaussian.LocalGaussian(
    clip_norm=1.0, stddev=2 * noise, delta=_DELTA, num_coordinates=dimension
  )
  return {
    'PrivUnitG': _Contender(vectors.mechanism(once), 2 * dimension),
    # The seed of the coordinates is 16 bytes, as that of few bits.
    'SQKR': _Contender(symbol, messages.packed_size(symbol.num_bits) + 16),
    'few bits': _Contender(few, _bytes_of_bits(few)),
    'all bits': _Contender(every, _bytes_of_bits(every)),
    'Gaussian': _Contender(gaussian, 4 * dimension),
  }


def _bytes_of_bits(plan: randomized_bits.RandomizedBits) -> int:
  return messages.num_bytes(bit_reports.message_type(plan, weighted=False))


def _measure(
  dimension: int, epsilon: float, settings: MeanEstimationSettings
) -> list[dict[str, Any]]:
  """Returns the errors of all mechanisms, of the same vectors."""
  rows = []
  for name, contender in _contenders(dimension, epsilon).items():
    squares = _squared_errors(contender.chosen, dimension, settings)
    rows.append(
      {
        'dimension': dimension,
        'epsilon': epsilon,
        'mechanism': name,
        'error': float(squares.mean()),
        'standard_error': float(squares.std(ddof=1) / math.sqrt(squares.size)),
        'bytes': contender.num_bytes,
      }
    )
  return rows


def _squared_errors(
  chosen: mechanism.Mechanism, dimension: int, settings: MeanEstimationSettings
) -> np.ndarray:
  """Returns the squared error of each report's estimate, float [reports]."""
  stream = randomness.Stream.of_seed(settings.seed)

  @tf.function
  def squared_error(vector: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    (estimate,) = of_mechanism.seen(chosen, [vector], seed, 'server')
    return tf.reduce_sum(tf.square(tf.cast(estimate - vector, tf.float64)))

  squares = []
  for number in range(settings.reports):
    vector = stream.generator('vector', number).normal(size=dimension)
    vector = tf.constant(vector / np.linalg.norm(vector), tf.float32)
    seed = tf.constant(stream.words('report', number))
    squares.append(float(squared_error(vector, seed)))
  return np.array(squares)


def _print(rows: list[dict[str, Any]]) -> None:
  print(
    f'{"dimension":>10} {"epsilon":>8}  {"mechanism":12} {"error":>12} {"bytes":>10}'
  )
  for row in rows:
    print(
      f'{row["dimension"]:>10,} {row["epsilon"]:>8g}  {row["mechanism"]:12} '
      f'{row["error"]:>12,.4g} {row["bytes"]:>10,}'
    )


def _draw(rows: list[dict[str, Any]]) -> str:
  """Draws errors over epsilon, of the lowest and the highest dimension."""
  figure, axes = plots.blank(7, 4.5)
  dimensions = [row['dimension'] for row in rows]
  styles = {min(dimensions): '-', max(dimensions): ':'}
  colours: dict[str, str] = {}
  for row in rows:
    colours.setdefault(row['mechanism'], f'C{len(colours)}')
  for dimension, style in styles.items():
    for name, colour in colours.items():
      line = [r for r in rows if (r['dimension'], r['mechanism']) == (dimension, name)]
      axes.errorbar(
        [row['epsilon'] for row in line],
        [row['error'] / dimension for row in line],
        [row['standard_error'] / dimension for row in line],
        color=colour,
        linestyle=style,
        marker='o',
        markersize=3,
        label=f'{name}, d = {dimension:,}',
      )
  axes.set(
    xscale='log',
    yscale='log',
    xlabel='epsilon of a report',
    ylabel='squared error of a report, over d',
  )
  epsilons = sorted({row['epsilon'] for row in rows})
  axes.set_xticks(epsilons, [f'{epsilon:g}' for epsilon in epsilons])
  axes.set_xticks([], minor=True)
  axes.legend(frameon=False, fontsize='small')
  return plots.svg(figure)


if __name__ == '__main__':
  flags.run(main, MeanEstimationSettings, __doc__.splitlines()[0])
