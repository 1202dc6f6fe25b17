"""Draws the privacy trade-off of a deployment: noise, cohort and rounds."""

import dataclasses
from collections.abc import Mapping

import matplotlib.figure
import numpy as np
from matplotlib import axes as axes_lib
from matplotlib import ticker
from matplotlib.backends import backend_agg

from tff_textpriv.privacy import accountants
from tff_textpriv.privacy.costs import SampledGaussian

_NOISE_FACTORS = np.geomspace(0.6, 2.5, 15)
_COHORT_FACTORS = (0.25, 1, 4)
_ROUNDS_FACTORS = np.geomspace(0.02, 2, 40)
_PLD_ROUNDS_FACTORS = np.geomspace(0.02, 2, 9)  # Each takes up to a second.
_COLOURS = ('#5aa9a3', '#1f4e79', '#c26a3d')


def draw(
  path: str,
  mechanisms: Mapping[str, SampledGaussian],
  rounds: Mapping[str, int],
  delta: float,
) -> None:
  """Draws the trade-off around a solution into a file.

  Args:
    path: The file; its ending says the format.
    mechanisms: The solved mechanism by accountant; 'rdp' is always there.
    rounds: The solved number of rounds by accountant.
    delta: Delta of the guarantee.
  """
  figure = matplotlib.figure.Figure(figsize=(11, 4.4), layout='constrained')
  backend_agg.FigureCanvasAgg(figure)
  by_noise, by_rounds = figure.subplots(1, 2)
  _draw_noise(by_noise, mechanisms['rdp'], rounds['rdp'], delta)
  _draw_rounds(by_rounds, mechanisms, rounds, delta)
  figure.savefig(path, dpi=150)


def _draw_noise(
  axes: axes_lib.Axes, mechanism: SampledGaussian, rounds: int, delta: float
) -> None:
  """Draws epsilon against noise, one curve per cohort; RDP, which is quick."""
  noises = mechanism.noise_multiplier * _NOISE_FACTORS
  cohorts = sorted(
    {
      min(mechanism.population, max(1, round(mechanism.cohort * factor)))
      for factor in _COHORT_FACTORS
    }
  )
  for cohort, colour in zip(cohorts, _COLOURS, strict=False):
    epsilons = [
      accountants.epsilon_of_rounds(
        dataclasses.replace(mechanism, cohort=cohort, noise_multiplier=noise),
        rounds,
        delta,
        'rdp',
      )
      for noise in noises
    ]
    axes.plot(noises, epsilons, color=colour, label=f'cohort {cohort:,}')
  solved = accountants.epsilon_of_rounds(mechanism, rounds, delta, 'rdp')
  _mark(axes, mechanism.noise_multiplier, solved, 'this plan', _COLOURS[1], 5)
  axes.set_xscale('log')
  axes.set_yscale('log')
  for axis in (axes.xaxis, axes.yaxis):
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ticker.FormatStrFormatter('%g'))
    axis.set_minor_formatter(ticker.NullFormatter())
  axes.set_xlabel('noise multiplier')
  axes.set_title(f'{rounds:,} rounds of {mechanism.population:,} users (RDP)')
  _finish(axes, delta)


def _draw_rounds(
  axes: axes_lib.Axes,
  mechanisms: Mapping[str, SampledGaussian],
  rounds: Mapping[str, int],
  delta: float,
) -> None:
  """Draws epsilon over rounds, one curve per accountant with its own solution."""
  for i, (accountant, mechanism) in enumerate(mechanisms.items()):
    colour = _COLOURS[1 + i]
    factors = _ROUNDS_FACTORS if accountant == 'rdp' else _PLD_ROUNDS_FACTORS
    counts = sorted({max(1, round(rounds[accountant] * factor)) for factor in factors})
    counts = sorted({*counts, rounds[accountant]})
    epsilons = [
      accountants.epsilon_of_rounds(mechanism, count, delta, accountant)
      for count in counts
    ]
    label = (
      f'{accountant.upper()}: noise {mechanism.noise_multiplier:.3g}, '
      f'cohort {mechanism.cohort:,}'
    )
    axes.plot(counts, epsilons, color=colour, label=label)
    solved = epsilons[counts.index(rounds[accountant])]
    text = f'{accountant.upper()}, {rounds[accountant]:,} rounds'
    _mark(axes, rounds[accountant], solved, text, colour, -16 - 14 * i)
  axes.set_xlim(left=0)
  axes.set_ylim(bottom=0)
  axes.xaxis.set_major_formatter(ticker.StrMethodFormatter('{x:,.0f}'))
  axes.set_xlabel('rounds')
  axes.set_title('epsilon as training goes on')
  _finish(axes, delta)


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
