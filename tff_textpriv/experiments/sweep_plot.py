"""The plot of a sweep: a figure over a swept number, a line for all else."""

import math
from collections.abc import Sequence
from typing import Any

from tff_textpriv.experiments import paired, sweep_table
from tff_textpriv.reports import plots

# Values that reach over more than this factor stand on a logarithmic axis.
_LINEAR_FACTOR = 8


def swept_number(points: Sequence[sweep_table.Point]) -> str | None:
  """Returns the first swept flag that is a number wherever it is set; `None` if none."""
  names = dict.fromkeys(name for point in points for name in point.settings)
  for name in names:
    values = [point.settings[name] for point in points if name in point.settings]
    if all(type(value) in (int, float) for value in values):
      return name
  return None


def draw(points: Sequence[sweep_table.Point], flag: str, figure_name: str) -> bytes:
  """Draws means over a swept flag, with bars of a standard deviation.

  Args:
    points: What was run.
    flag: The swept flag on the axis. What does not have it, such as the baseline of
      another algorithm, is drawn as a level.
    figure_name: The figure of results.json.

  Returns:
    The plot, a PNG file.
  """
  lines: dict[str, list[tuple[Any, paired.Spread]]] = {}
  for point in points:
    spread = point.spread(figure_name)
    if spread is not None:
      rest = {name: value for name, value in point.settings.items() if name != flag}
      line = lines.setdefault(sweep_table.label(rest), [])
      line.append((point.settings.get(flag), spread))
  figure, axes = plots.blank(7, 4.2)
  for label, line in lines.items():
    placed = sorted(
      (x, spread.mean, spread.deviation or 0.0) for x, spread in line if x is not None
    )
    if placed:
      x, mean, deviation = zip(*placed, strict=True)
      axes.errorbar(x, mean, deviation, marker='o', capsize=3, label=label)
    for x, spread in line:
      if x is None:
        axes.axhline(spread.mean, color='gray', ls='--', label=label)
  seeds = {spread.n for line in lines.values() for _, spread in line}
  axes.set(
    xlabel=flag,
    ylabel=figure_name,
    xscale=_scale([x for line in lines.values() for x, _ in line if x is not None]),
    title=f'mean and standard deviation, n = {" or ".join(map(str, sorted(seeds)))}',
  )
  axes.legend(fontsize='small')
  return plots.png(figure)


def _scale(values: Sequence[float]) -> str:
  """Returns the scale of an axis for these values."""
  if min(values) <= 0 or not math.isfinite(max(values)):
    return 'linear'
  return 'log' if max(values) > _LINEAR_FACTOR * min(values) else 'linear'
