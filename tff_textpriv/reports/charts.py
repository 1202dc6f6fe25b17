"""Charts as SVG: lines over rounds, and points of utility against cost.

They are drawn at the width of a phone, so that their text can be read there, and stand
side by side where there is room. Colours are classes, which the page's style sets for
light, dark and paper.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

from markupsafe import Markup

from tff_textpriv.reports import scales
from tff_textpriv.reports.markup import element, join

# Series with a colour of their own; further ones are grey.
NUM_COLOURS = 8
GREY = 'grey'
_WIDTH, _HEIGHT = 380, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 368, 14, 228
_LANE = 64  # Width of the lane of points without a figure.
_MAX_POINTS = 240  # Of a line: more than a phone has pixels for.
_RADIUS = 5.5
# Where a point's number may stand, seen from the point.
_DIRECTIONS = (
  *((1, 0), (-1, 0), (0, -1), (0, 1)),
  *((0.7, -0.7), (-0.7, -0.7), (0.7, 0.7), (-0.7, 0.7)),
)


@dataclasses.dataclass(frozen=True)
class Line:
  """A line of a chart: (round, value), and the class of its colour."""

  name: str
  points: Sequence[tuple[int, float]]
  colour: str


@dataclasses.dataclass(frozen=True)
class Point:
  """A point of a chart.

  Attributes:
    number: What is written beside it.
    x: Its cost; `None` puts it into the lane at the right.
    y: Its utility.
    size: Its area, relative to the usual one.
    shade: How dark it is filled, of 0 to 1; `None` in the usual colour.
    is_marked: Whether it stands out.
    hint: What is said when it is pointed at.
  """

  number: str
  x: float | None
  y: float
  size: float
  shade: float | None
  is_marked: bool
  hint: str


@dataclasses.dataclass(frozen=True)
class Axes:
  """What is written around a chart, and whether its axes are logarithmic.

  Attributes:
    title: What is drawn.
    note: What else is to be known of it.
    x: The name of the x axis.
    log_x: Whether the x axis is logarithmic.
    log_y: Whether the y axis is.
    lane: The name of the lane of points without a place on the x axis.
  """

  title: str
  note: str
  x: str
  log_x: bool = False
  log_y: bool = False
  lane: str = ''


def line_chart(lines: Sequence[Line], axes: Axes) -> Markup:
  """Draws lines; all of them have at least one point."""
  rounds = [number for line in lines for number, _ in line.points]
  values = [value for line in lines for _, value in line.points]
  x = scales.Scale(0, max(1, *rounds), False, _LEFT, _RIGHT)
  y = scales.fit(values, _BOTTOM, _TOP, axes.log_y)
  # Grey lines lie under the others.
  ordered = sorted(lines, key=lambda line: line.colour != GREY)
  return _chart(axes, x, y, [_line(line, x, y) for line in ordered])


def scatter_chart(
  points: Sequence[Point], axes: Axes, all_y: Sequence[float]
) -> Markup:
  """Draws points with their numbers.

  Args:
    points: The points; at least one has a place on the x axis.
    axes: What is written around them.
    all_y: The values that the y axis shows, for charts that stand side by side.
  """
  placed = [point.x for point in points if point.x is not None]
  in_lane = [point for point in points if point.x is None]
  right = _RIGHT - (_LANE + 6 if in_lane else 0)
  x = scales.fit(placed, _LEFT, right, axes.log_x)
  y = scales.fit(all_y, _BOTTOM - _RADIUS, _TOP + _RADIUS, axes.log_y)
  step = _LANE / (len(in_lane) + 1)
  in_lane_x = itertools.count(_RIGHT - _LANE + step, step)
  places = [
    (next(in_lane_x) if p.x is None else x.place(p.x), y.place(p.y)) for p in points
  ]
  order = sorted(range(len(points)), key=lambda i: points[i].is_marked)
  parts = [_lane(axes.lane)] if in_lane else []
  parts += [_point(points[i], *places[i]) for i in order]
  parts += _numbers(points, places)
  return _chart(axes, x, y, parts)


def _chart(
  axes: Axes, x: scales.Scale, y: scales.Scale, content: Sequence[Markup]
) -> Markup:
  """Draws the frame around a chart's content."""
  grid = []
  for value in y.ticks(5):
    place = _shown(y.place(value))
    grid.append(element('path', d=f'M{_LEFT} {place}H{_RIGHT}', class_='grid'))
    grid.append(
      _text(scales.label(value), _LEFT - 6, f'{y.place(value) + 3.5:.1f}', 'end')
    )
  for value in x.ticks(5):
    place = _shown(x.place(value))
    grid.append(element('path', d=f'M{place} {_BOTTOM}v4', class_='axis'))
    grid.append(_text(scales.label(value), place, _BOTTOM + 16, 'middle'))
  grid.append(element('path', d=f'M{_LEFT} {_BOTTOM}H{_shown(x.end)}', class_='axis'))
  middle = (x.start + x.end) / 2
  grid.append(_text(axes.x, _shown(middle), _HEIGHT - 8, 'middle', 'name'))
  picture = element(
    'svg',
    element('title', axes.title),
    *grid,
    *content,
    viewBox=f'0 0 {_WIDTH} {_HEIGHT}',
    role='img',
  )
  caption = element('figcaption', element('strong', axes.title), ' ', axes.note)
  return element('figure', caption, picture)


def _line(line: Line, x: scales.Scale, y: scales.Scale) -> Markup:
  step = -(-len(line.points) // _MAX_POINTS)
  kept = [*line.points[:-1:step], line.points[-1]]
  places = [(_shown(x.place(number)), _shown(y.place(value))) for number, value in kept]
  class_ = f'line {line.colour}'
  hint = element('title', line.name)
  if len(places) == 1:
    return element('circle', hint, cx=places[0][0], cy=places[0][1], r=3, class_=class_)
  path = 'M' + 'L'.join(' '.join(place) for place in places)
  return element('path', hint, d=path, class_=class_)


def _lane(label: str) -> Markup:
  """Draws the place of points that have no figure on the x axis."""
  left = _RIGHT - _LANE
  words = label.split(' ', 1)
  return join(
    [
      element(
        'rect', x=left, y=_TOP, width=_LANE, height=_BOTTOM - _TOP, class_='lane'
      ),
      *(
        _text(word, left + _LANE / 2, _BOTTOM + 24 + 13 * i, 'middle')
        for i, word in enumerate(words)
      ),
    ]
  )


def _point(point: Point, x: float, y: float) -> Markup:
  shade = None if point.shade is None else f'--shade:{point.shade:.0%}'
  return element(
    'circle',
    element('title', point.hint),
    cx=_shown(x),
    cy=_shown(y),
    r=_shown(_RADIUS * point.size**0.5),
    style=shade,
    class_='point' + ' marked' * point.is_marked + ' shaded' * (shade is not None),
  )


def _numbers(
  points: Sequence[Point], places: Sequence[tuple[float, float]]
) -> list[Markup]:
  """Writes the numbers of points where they cover as little as they can."""
  taken = list(places)
  texts = []
  for point, (x, y) in zip(points, places, strict=True):
    away = _RADIUS * point.size**0.5 + 7
    around = [(x + dx * away, y + dy * away) for dx, dy in _DIRECTIONS]
    inside = [
      (a, b) for a, b in around if _LEFT < a < _WIDTH - 6 and _TOP - 6 < b < _BOTTOM
    ]
    others = [other for other in taken if other != (x, y)]
    best = max(inside or around, key=functools.partial(_room, others))
    taken.append(best)
    texts.append(
      _text(
        point.number,
        _shown(best[0]),
        _shown(best[1] + 3.5),
        'middle',
        'number marked' if point.is_marked else 'number',
      )
    )
  return texts


def _room(others: Sequence[tuple[float, float]], place: tuple[float, float]) -> float:
  """Tells how far the nearest other place is; a little more or less does not matter."""
  return min((math.dist(place, other) for other in others), default=1e9) // 12


def _text(
  content: str, x: float | str, y: float | str, anchor: str, class_: str | None = None
) -> Markup:
  return element('text', content, x=x, y=y, text_anchor=anchor, class_=class_)


def _shown(place: float) -> str:
  return f'{place:.1f}'
