"""What the plots of tools share."""

import io
import pathlib

import matplotlib
from matplotlib import axes as axes_lib
from matplotlib import figure as figure_lib


def blank(width: float, height: float) -> tuple[figure_lib.Figure, axes_lib.Axes]:
  """Returns a figure of a size in inches, and its axes; needs no display."""
  figure = figure_lib.Figure(figsize=(width, height), layout='constrained')
  axes = figure.subplots()
  axes.spines[['top', 'right']].set_visible(False)
  return figure, axes


def png(figure: figure_lib.Figure) -> bytes:
  """Draws a figure as a PNG file."""
  picture = io.BytesIO()
  figure.savefig(picture, format='png', dpi=120)
  return picture.getvalue()


def svg(figure: figure_lib.Figure) -> str:
  """Draws a figure as an SVG file with text as text; the same bytes for the same figure."""
  picture = io.StringIO()
  with matplotlib.rc_context({'svg.fonttype': 'none', 'svg.hashsalt': 'tff_textpriv'}):
    figure.savefig(picture, format='svg', metadata={'Date': None})
  return ''.join(f'{line.rstrip()}\n' for line in picture.getvalue().splitlines())


def save(figure: figure_lib.Figure, path: str) -> None:
  """Draws a figure into a file, whose ending says the format."""
  if path.endswith('.svg'):
    pathlib.Path(path).write_text(svg(figure), encoding='utf-8')
  else:
    figure.savefig(path, dpi=150)
