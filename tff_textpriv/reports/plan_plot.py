"""Draws the privacy trade-off of a deployment: noise, cohort and rounds."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib import axes as axes_lib
from matplotlib import ticker

from tff_textpriv.privacy import planning
from tff_textpriv.reports import plots

_STRENGTH_FACTORS = np.geomspace(0.6, 2.5, 7)
_COHORT_FACTORS = (0.25, 1, 4)
_ROUNDS_FACTORS = np.geomspace(0.02, 2, 9)  # Each takes up to a second.
_COLOURS = ('#5aa9a3', '#1f4e79', '#c26a3d')
_LABELS = {
  planning.NOISE: 'noise multiplier',
  planning.REPORT: 'local epsilon of a report',
}
Solve = Callable[[planning.Question], Sequence[planning.Solution]]


def draw(
  path: str,
  question: planning.Question,
  solutions: Sequence[planning.Solution],
  solve: Solve,
) -> None:
  """Draws the trade-off around a solution into a file.

  Args:
    path: The file; its ending says the format.
    question: What was asked.
    solutions: What was found, one for each accountant; that of the first is drawn.
    solve: Answers such questions.
  """
  figure = matplotlib.figure.Figure(figsize=(11, 4.4), layout='constrained')
  by_strength, by_rounds = figure.subplots(1, 2)
  found = solutions[0]
  asked = question.answered(found)

  def epsilon(**numbers: Any) -> float:
    answers = solve(dataclasses.replace(asked, **numbers))
    return next(each.epsilon for each in answers if each.accountant == found.accountant)

  _draw_strength(by_strength, asked, found, epsilon)
  _draw_rounds(by_rounds, asked, found, epsilon)
  plots.save(figure, path)


def _draw_strength(
  axes: axes_lib.Axes,
  asked: planning.Question,
  found: planning.Solution,
  epsilon: Callable[..., float],
) -> None:
  """Draws epsilon against noise, or that of a report; one curve per cohort."""
  name = asked.strength
  strength = getattr(found, name)
  cohorts = sorted(
    {
      min(asked.population, max(1, round(found.cohort * factor)))
      for factor in _COHORT_FACTORS
    }
  )
  for cohort, colour in zip(cohorts, _COLOURS, strict=False):
    points = strength * _STRENGTH_FACTORS
    values = [epsilon(**{name: float(point), 'cohort': cohort}) for point in points]
    axes.plot(points, values, color=colour, label=f'cohort {cohort:,}')
  _mark(axes, strength, found.epsilon, 'this plan', _COLOURS[1], 5)
  axes.set_xscale('log')
  axes.set_yscale('log')
  for axis in (axes.xaxis, axes.yaxis):
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ticker.FormatStrFormatter('%g'))
    axis.set_minor_formatter(ticker.NullFormatter())
  axes.set_xlabel(_LABELS[name])
  axes.set_title(
    f'{found.rounds:,} rounds of {asked.population:,} users '
    f'({found.accountant.upper()})'
  )
  _finish(axes, asked.delta)


def _draw_rounds(
  axes: axes_lib.Axes,
  asked: planning.Question,
  found: planning.Solution,
  epsilon: Callable[..., float],
) -> None:
  """Draws epsilon against the rounds that are planned."""
  counts = {max(1, round(found.rounds * factor)) for factor in _ROUNDS_FACTORS}
  points = sorted({*counts, found.rounds})
  strength = getattr(found, asked.strength)
  axes.plot(
    points,
    [epsilon(rounds=point) for point in points],
    color=_COLOURS[1],
    marker='.',
    label=f'{_LABELS[asked.strength]} {strength:.3g}, cohort {found.cohort:,}',
  )
  text = f'{found.rounds:,} rounds'
  _mark(axes, found.rounds, found.epsilon, text, _COLOURS[1], -16)
  axes.set_xlim(left=0)
  axes.set_ylim(bottom=0)
  axes.xaxis.set_major_formatter(ticker.StrMethodFormatter('{x:,.0f}'))
  axes.set_xlabel('rounds')
  axes.set_title(f'epsilon of longer runs ({found.accountant.upper()})')
  _finish(axes, asked.delta)


def _mark(
  axes: axes_lib.Axes, x: float, epsilon: float, text: str, colour: str, rise: float
) -> None:
  """Marks a solution with a dot and its numbers."""
  axes.plot([x], [epsilon], 'o', color=colour, markersize=7, zorder=3)
  axes.annotate(
    f'{text}: {epsilon:.3g}',
    (x, epsilon),
    xytext=(8, rise),
    textcoords='offset points',
    color=colour,
  )


def _finish(axes: axes_lib.Axes, delta: float) -> None:
  """Adds what both panels share."""
  axes.set_ylabel(f'epsilon at delta {delta:g}')
  axes.grid(True, which='major', color='#e4e4e4')
  axes.spines[['top', 'right']].set_visible(False)
  axes.legend(frameon=False)
