"""Draws what trust saves in noise: one curve for each trust model, over epsilon."""

import itertools
from collections.abc import Mapping, Sequence

import matplotlib.figure
import numpy as np
from matplotlib import ticker

from tff_textpriv.reports import plots

# Who is trusted tells the colour, and what else the line: from much trust to none.
_COLOURS = (
  *('#1f4e79', '#2f7f8f', '#5aa9a3', '#9cc7a0'),
  *('#7d8b3a', '#6a4c9c', '#a48cc8'),
  *('#e0a030', '#d1743c', '#b03a48', '#6b1f2a'),
)


def draw(
  path: str,
  title: str,
  epsilons: Sequence[float],
  noises: Mapping[str, Sequence[float | None]],
) -> None:
  """Draws the comparison into a file.

  Args:
    path: The file; its ending says the format.
    title: What is compared.
    epsilons: Where the curves have points.
    noises: The noise of each trust model at each epsilon; `None` where there is none.
  """
  figure = matplotlib.figure.Figure(figsize=(8.6, 5.2), layout='constrained')
  axes = figure.subplots()
  for (name, values), colour in zip(
    noises.items(), itertools.cycle(_COLOURS), strict=False
  ):
    points = [
      (epsilon, value)
      for epsilon, value in zip(epsilons, values, strict=True)
      if value is not None
    ]
    if points:
      axes.plot(
        *zip(*points, strict=True), marker='o', markersize=4, color=colour, label=name
      )
  axes.set_xscale('log')
  axes.set_yscale('log')
  axes.xaxis.set_major_locator(ticker.FixedLocator(epsilons))
  axes.xaxis.set_major_formatter(ticker.FormatStrFormatter('%g'))
  axes.xaxis.set_minor_formatter(ticker.NullFormatter())
  axes.set_xlabel('epsilon of the whole run')
  axes.set_ylabel('noise on the mean of a round, in clip norms')
  axes.set_title(title, fontsize='medium')
  axes.grid(True, which='major', color='#e4e4e4')
  axes.spines[['top', 'right']].set_visible(False)
  # Beside the curves, in the order of their right ends.
  lines = sorted(axes.get_lines(), key=lambda line: -np.asarray(line.get_ydata())[-1])
  axes.legend(
    handles=lines, frameon=False, loc='center left', bbox_to_anchor=(1.0, 0.5)
  )
  plots.save(figure, path)
