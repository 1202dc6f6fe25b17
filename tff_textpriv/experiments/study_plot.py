"""The plot of a study: its figure over rounds, over the arms' numbers, or as bars."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib import figure as figure_lib

from tff_textpriv import metrics, run_folder
from tff_textpriv.experiments import study as study_lib
from tff_textpriv.experiments import study_tables
from tff_textpriv.reports import plots

# Inches of a plot that has room enough.
_HEIGHT = 4.2
# Curves that can be told apart in a legend that lies upon them.
_MOST_INSIDE = 6


def draw(study: study_lib.Study, rows: Sequence[study_tables.Row]) -> figure_lib.Figure:
  """Draws means over seeds and, along lines, the seeds between which they lie."""
  metric = _drawn(study.plot, rows)
  figure, axes = plots.blank(7, _HEIGHT)
  if study.plot.kind == 'rounds':
    _rounds(axes, metric, rows)
  elif study.plot.kind == 'lines':
    _lines(axes, metric, rows)
    axes.set(xlabel=study.plot.x_label, xscale=study.plot.x_scale)
    places = sorted({row.arm.x for row in rows if row.arm.x is not None})
    axes.set_xticks(places, [f'{place:g}' for place in places], minor=False)
    axes.set_xticks([], minor=True)
  else:
    _bars(axes, metric, rows)
  axes.set_title(study.title)
  return figure


def _drawn(plot: study_lib.Plot, rows: Sequence[study_tables.Row]) -> metrics.Metric:
  """Returns the first of a plot's figures that the runs have."""
  known = [metrics.find(name) for name in plot.metrics]

  def is_there(metric: metrics.Metric) -> bool:
    if plot.kind == 'rounds':
      return any(_mean_curve(row, metric.validation)[0] for row in rows)
    return any(row.mean(metric.column) is not None for row in rows)

  return next(filter(is_there, known), known[0])


def _rounds(
  axes: Any, metric: metrics.Metric, rows: Sequence[study_tables.Row]
) -> None:
  for row in rows:
    axes.plot(*_mean_curve(row, metric.validation), marker='.', label=row.arm.label)
  axes.set(xlabel='round', ylabel=f'validation {metric.label}')
  axes.set_yscale('log' if metric.is_perplexity else 'linear')
  _add_legend(axes)


def _mean_curve(row: study_tables.Row, column: str) -> tuple[list[int], list[float]]:
  """Returns the rounds that all seeds have measured, and the means."""
  curves = [
    dict(zip(*run_folder.points(each.rounds, column), strict=True))
    for each in row.by_seed.values()
  ]
  shared = [number for number in curves[0] if all(number in curve for curve in curves)]
  return shared, [
    sum(curve[number] for curve in curves) / len(curves) for number in shared
  ]


def _lines(axes: Any, metric: metrics.Metric, rows: Sequence[study_tables.Row]) -> None:
  placed = [row for row in rows if row.arm.x is not None]
  for curve in dict.fromkeys(row.arm.curve for row in placed):
    of_curve = [row for row in placed if row.arm.curve == curve]
    places = [row.arm.x for row in of_curve]
    axes.errorbar(
      places,
      [_mean(row, metric) for row in of_curve],
      yerr=list(zip(*(_reach(row, metric) for row in of_curve), strict=True)),
      marker='o',
      markersize=4,
      elinewidth=0.8,
      label=curve,
    )
  for row in rows:
    if row.arm.x is None:
      axes.axhline(_mean(row, metric), color='gray', ls='--', label=row.arm.label)
  axes.set(ylabel=_label(metric))
  axes.set_yscale('log' if metric.is_perplexity else 'linear')
  _add_legend(axes)


def _add_legend(axes: Any) -> None:
  """Names the curves: among them if they are few, and otherwise beside them."""
  number = len(axes.get_legend_handles_labels()[0])
  if number <= _MOST_INSIDE:
    axes.legend()
    return
  axes.figure.set_size_inches(9.5, max(_HEIGHT, 0.24 * number))
  axes.legend(loc='center left', bbox_to_anchor=(1, 0.5), frameon=False)


def _bars(axes: Any, metric: metrics.Metric, rows: Sequence[study_tables.Row]) -> None:
  shown = [row for row in rows if not math.isnan(_mean(row, metric))]
  axes.figure.set_figheight(max(_HEIGHT, 0.3 * len(shown)))
  bars = axes.barh(
    [row.arm.label for row in shown], [_mean(row, metric) for row in shown]
  )
  axes.bar_label(bars, fmt=metric.pattern, padding=3)
  axes.margins(x=0.12)
  axes.invert_yaxis()
  axes.set(xlabel=_label(metric))


def _mean(row: study_tables.Row, metric: metrics.Metric) -> float:
  """Returns the mean over seeds; not a number, which has no point, if one has none."""
  mean = row.mean(metric.column)
  return math.nan if mean is None else mean


def _reach(row: study_tables.Row, metric: metrics.Metric) -> tuple[float, float]:
  """Returns how far the lowest and the highest seed are from the mean."""
  mean = row.mean(metric.column)
  if mean is None:
    return math.nan, math.nan
  values = [value for value in row.values(metric.column).values() if value is not None]
  return mean - min(values), max(values) - mean


def _label(metric: metrics.Metric) -> str:
  return f'test {metric.label}' if metric.is_tested else metric.label
