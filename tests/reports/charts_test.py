"""Charts: scales with round ticks, and pictures in which all points lie inside."""

import re

import pytest

from tff_textpriv.reports import charts, scales


@pytest.mark.parametrize(
  ('low', 'high', 'is_log', 'expected'),
  [
    (0, 10, False, [0, 2, 4, 6, 8, 10]),
    (0.61, 0.89, False, [0.65, 0.7, 0.75, 0.8, 0.85]),
    (0.5, 20, True, [0.5, 1, 2, 5, 10, 20]),
    (1, 1e12, True, [1, 1e3, 1e6, 1e9, 1e12]),
    (0.91, 1.09, True, [0.95, 1, 1.05]),
  ],
)
def test_ticks_are_round_and_few(low, high, is_log, expected):
  ticks = scales.Scale(low, high, is_log, 0, 1).ticks(5)
  assert ticks == pytest.approx(expected)


@pytest.mark.parametrize('is_log', [False, True])
@pytest.mark.parametrize('values', [[3.0], [1e-9, 1e9], [5.0, 5.0 + 1e-12], [1.0, 7.0]])
def test_all_values_lie_inside_a_fitted_scale(values, is_log):
  scale = scales.fit(values, 100, 0, is_log)
  assert all(0 <= scale.place(value) <= 100 for value in values)
  assert all(-1e-6 <= scale.place(tick) <= 100 + 1e-6 for tick in scale.ticks(5))


def test_zero_and_negative_values_have_a_linear_scale():
  assert scales.fit([0.0], 0, 1, False).place(0) == pytest.approx(0.5)
  assert scales.fit([-2.0, 4.0], 0, 1, False).place(1) == pytest.approx(0.5)


@pytest.mark.parametrize(
  ('value', 'text'),
  [(0.05, '0.05'), (1500, '1500'), (20_000, '20k'), (3e6, '3M'), (-2e9, '-2G')],
)
def test_ticks_are_written_in_few_characters(value, text):
  assert scales.label(value) == text


def test_a_long_curve_is_thinned_out_and_keeps_its_end():
  line = charts.Line('x', [(i, float(i)) for i in range(1, 10_001)], 's0')
  picture = charts.line_chart([line], charts.Axes('T', 'round', 'y'))
  (path,) = re.findall(r'd="M([^"]+)" class="line s0"', picture)
  points = path.split('L')
  assert len(points) <= 241
  assert points[-1].startswith('368.0 ')


def test_a_curve_of_one_point_is_a_dot():
  line = charts.Line('x', [(1, 2.0)], 's0')
  assert '<circle' in charts.line_chart([line], charts.Axes('T', 'round', 'y'))


def _point(number, x, y, is_marked=False):
  return charts.Point(number, x, y, 1.0, None, is_marked, f'hint {number}')


def test_points_without_a_figure_stand_in_the_lane():
  points = [_point('1', 1.0, 0.5, True), _point('2', None, 0.9), _point('3', None, 0.9)]
  axes = charts.Axes('T', 'note', 'epsilon', log_x=True, lane='no guarantee')
  picture = charts.scatter_chart(points, axes, [0.5, 0.9])
  places = {
    hint: float(x)
    for x, hint in re.findall(r'<circle cx="([\d.]+)".*?<title>hint (\d)', picture)
  }
  assert places['1'] < 304 <= places['2'] < places['3'] <= 368
  assert picture.count('class="point marked"') == 1
  assert 'guarantee</text>' in picture


def test_names_in_charts_are_escaped():
  line = charts.Line('<script>', [(1, 2.0), (2, 3.0)], 's0')
  picture = charts.line_chart([line], charts.Axes('<b>', '<i>', '<u>'))
  assert '&lt;script&gt;' in picture
  assert not re.search('<(script|b|i|u)>', picture)
