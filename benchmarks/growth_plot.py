"""Draws what benchmarks/scale.py measured: seconds and memory of ever larger rounds.

python -m benchmarks.growth_plot build/scale.json --picture=growth.svg
"""

import dataclasses
import json
import operator
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib.figure
from matplotlib import axes as axes_lib
from matplotlib import ticker

from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.reports import plots
from tff_textpriv.settings import setting

_GIB = 2**30
# What grows: the part of the benchmark, the column, and what to write below the axis.
_GROWTHS = (
  ('clients', 'clients', 'clients per round'),
  ('parameters', 'parameters', 'parameters, 12 clients'),
  ('population', 'population', 'users, 1,000 per round'),
  ('rounds', 'rounds', 'rounds of one run'),
)
# Of the rounds with which the model grows, those of so many clients are drawn.
_DRAWN_CLIENTS = 12
_COLOURS = {1: '#1f4e79', 2: '#c26a3d'}


@dataclasses.dataclass(frozen=True)
class GrowthPlotSettings(settings_lib.Settings):
  """What to draw."""

  results: tuple[str, ...] = setting(
    (), 'Files that benchmarks.scale has written.', positional=True
  )
  picture: str = setting('growth.svg', 'The file to draw in; .png, .pdf or .svg.')


def main(settings: GrowthPlotSettings) -> int:
  """Draws one picture of all files; returns 0."""
  if not settings.results:
    raise flags.UsageError('name a file that benchmarks.scale has written')
  results = [
    result
    for path in settings.results
    for result in json.loads(pathlib.Path(path).read_text())
  ]
  figure = matplotlib.figure.Figure(figsize=(13, 5.4), layout='constrained')
  panels = figure.subplots(2, len(_GROWTHS), sharex='col')
  for (part, column, label), (above, below) in zip(_GROWTHS, panels.T, strict=True):
    grown = [
      result
      for result in results
      if result['part'] == part
      and (part != 'parameters' or result['clients'] == _DRAWN_CLIENTS)
    ]
    _draw(above, grown, column, operator.itemgetter('seconds'))
    _draw(below, grown, column, _memory)
    below.set_xlabel(label)
  panels[0, 0].set_ylabel('seconds per round')
  panels[1, 0].set_ylabel('memory of a worker, GiB')
  panels[1, 0].legend(frameon=False, fontsize='small')
  plots.save(figure, settings.picture)
  print(f'written: {settings.picture}')
  return 0


def _memory(result: dict[str, Any]) -> float:
  """Returns what a worker held: at most in a round, or after so many rounds.

  The main process of the benchmark keeps the graphs of all models before, and so tells
  nothing of one of them.
  """
  name = 'bytes_workers' if result['part'] == 'rounds' else 'peak_bytes_workers'
  return max(result[name]) / _GIB


def _draw(
  axes: axes_lib.Axes,
  results: Sequence[dict[str, Any]],
  column: str,
  value: Callable[[dict[str, Any]], float],
) -> None:
  """Draws one line for each number of workers."""
  for workers, colour in _COLOURS.items():
    own = [result for result in results if result['num_workers'] == workers]
    if own:
      axes.plot(
        [result[column] for result in own],
        [value(result) for result in own],
        marker='o',
        markersize=4,
        color=colour,
        label=f'{workers} worker{"s" * (workers > 1)}',
      )
  axes.set_xscale('log')
  if column in ('clients', 'parameters'):
    axes.set_yscale('log')
  else:
    axes.set_ylim(bottom=0)
  for axis in (axes.xaxis, axes.yaxis):
    axis.set_minor_locator(ticker.NullLocator())
  axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=''))
  axes.yaxis.set_major_formatter(ticker.FormatStrFormatter('%g'))
  axes.grid(True, color='#e4e4e4')
  axes.spines[['top', 'right']].set_visible(False)


if __name__ == '__main__':
  flags.run(main, GrowthPlotSettings, __doc__.splitlines()[0])
