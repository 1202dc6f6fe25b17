"""The part of a report that sets utility against what it costs: the Pareto front."""

import math
from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from tff_textpriv import metrics
from tff_textpriv.reports import charts, comparison, promises
from tff_textpriv.reports.markup import details, element, join, table

# The smallest and the largest area of a point, for the fewest and the most bytes.
_SMALL, _LARGE = 0.6, 2.6

_Figure = Callable[[comparison.Variant], float | None]


def section(compared: comparison.Comparison) -> Markup:
  """Draws utility against each cost, and sets the same into a table."""
  utility = compared.utility
  promised = {
    variant.promise.label: variant.promise.explanation
    for variant in compared.variants
    if variant.promise.epsilon is not None
  }
  figures = [
    *(_epsilon_chart(compared, label) for label in promised),
    _cost_chart(compared, 'bytes', 'sent by a client in a round', _bytes, True),
    _cost_chart(
      compared,
      'leakage',
      'share of tokens that attacks found',
      lambda variant: variant.leakage,
    ),
  ]
  *others, last = compared.criteria
  what = f'{", ".join(others)} and {last}'
  return join(
    [
      element('h3', 'Utility against what it costs'),
      element(
        'p',
        f'Ringed points and ● are the Pareto front: no other run is as good in {what}, '
        f'and better in one. {_capital(utility.label)}: {utility.better} is better. Numbers are '
        'those of the table.',
      ),
      _explanations(promised),
      element('div', *figures, class_='charts'),
      _legend_of_points(compared),
      _front_table(compared, utility),
    ]
  )


def _explanations(promised: Mapping[str, str]) -> Markup:
  """Says what each kind of epsilon in the charts promises."""
  if not promised:
    return element('p', 'None of these runs has a formal guarantee.')
  title = 'What epsilon promises here; smaller is stronger.'
  if len(promised) > 1:
    title = 'What the epsilons promise. Those of different promises are not compared.'
  terms = (
    part
    for label, sentence in promised.items()
    for part in (element('dt', label), element('dd', sentence))
  )
  return details(title, element('dl', *terms), is_open=True)


def _bytes(variant: comparison.Variant) -> float | None:
  return variant.bytes_up or None  # Nothing sent has no place on a logarithmic axis.


def _points(
  compared: comparison.Comparison,
  figure: _Figure,
  is_shown: Callable[[comparison.Variant], bool],
) -> list[charts.Point]:
  """Makes a chart's points of the variants that are shown in it."""
  utility = compared.utility
  known = [variant.bytes_up for variant in compared.variants if variant.bytes_up]
  return [
    charts.Point(
      number=str(i + 1),
      x=figure(variant),
      y=variant.utility,
      size=_size(variant.bytes_up, known),
      shade=variant.leakage,
      is_marked=i in compared.front,
      hint=f'{i + 1}: {variant.name}, {utility.label} '
      f'{utility.shown(variant.utility)}, epsilon {variant.promise.shown}',
    )
    for i, variant in enumerate(compared.variants)
    if is_shown(variant)
  ]


def _size(bytes_up: float | None, known: Sequence[float]) -> float:
  """Returns a point's area: that of its bytes among all, on a logarithmic scale."""
  if not bytes_up or min(known) == max(known):
    return 1.0
  share = math.log(bytes_up / min(known)) / math.log(max(known) / min(known))
  return _SMALL + (_LARGE - _SMALL) * share


def _epsilon_chart(compared: comparison.Comparison, label: str) -> Markup:
  """Draws the variants of one promise, with those that have none in a lane."""
  points = _points(
    compared,
    lambda variant: variant.promise.placed,
    lambda variant: variant.promise.label in (label, promises.NONE.label),
  )
  axes = charts.Axes(
    f'{_capital(compared.utility.label)} against epsilon:',
    label.replace('e-', 'e\N{NON-BREAKING HYPHEN}'),
    'epsilon',
    log_x=True,
    log_y=_is_wide(compared),
    lane='no guarantee',
  )
  return charts.scatter_chart(points, axes, _utilities(compared))


def _cost_chart(
  compared: comparison.Comparison,
  name: str,
  note: str,
  figure: _Figure,
  log_x: bool = False,
) -> Markup | None:
  """Draws utility against a cost of which at least two different values are known."""
  known = {figure(variant) for variant in compared.variants} - {None}
  if len(known) < 2:
    return None
  points = _points(compared, figure, lambda variant: figure(variant) is not None)
  title = f'{_capital(compared.utility.label)} against {name}:'
  axes = charts.Axes(title, note, name, log_x, log_y=_is_wide(compared))
  return charts.scatter_chart(points, axes, _utilities(compared))


def _utilities(compared: comparison.Comparison) -> list[float]:
  return [variant.utility for variant in compared.variants]


def _is_wide(compared: comparison.Comparison) -> bool:
  """Tells whether utilities need a logarithmic axis."""
  values = _utilities(compared)
  return compared.utility.is_perplexity and max(values) > 5 * min(values) > 0


def _capital(text: str) -> str:
  return f'{text[0].upper()}{text[1:]}'


def _legend_of_points(compared: comparison.Comparison) -> Markup | None:
  notes = []
  if len({v.bytes_up for v in compared.variants if v.bytes_up}) > 1:
    notes.append('larger points send more bytes')
  if any(variant.leakage is not None for variant in compared.variants):
    notes.append(
      'the redder a point, the more it leaks (blue ones were not attacked): leakage is '
      'the share of tokens that the best attack found in what clients of this algorithm '
      'send under the same privacy settings, with the model, optimizer and batch of the '
      'attack'
    )
  if not notes:
    return None
  return element('p', ' '.join(f'{_capital(note)}.' for note in notes), class_='small')


def _front_table(compared: comparison.Comparison, utility: metrics.Metric) -> Markup:
  has_leakage = any(variant.leakage is not None for variant in compared.variants)
  header = [
    '#',
    'run',
    'algorithm',
    utility.label,
    'epsilon',
    'promise',
    'bytes sent',
  ]
  rows = [
    [
      f'{i + 1} ●' if i in compared.front else i + 1,
      variant.name,
      variant.runs[0].algo,
      _with_spread(variant, utility),
      variant.promise.shown,
      variant.promise.label,
      '–' if variant.bytes_up is None else f'{variant.bytes_up:,.0f}',
      *(['–' if variant.leakage is None else f'{variant.leakage:.0%}'] * has_leakage),
    ]
    for i, variant in enumerate(compared.variants)
  ]
  if has_leakage:
    header.append('leakage')
  return table(header, rows, numeric=(3, 4, 6, 7))


def _with_spread(variant: comparison.Variant, utility: metrics.Metric) -> str:
  mean = utility.shown(variant.utility)
  if len(variant.values) == 1:
    return mean
  low, high = (utility.shown(bound(variant.values)) for bound in (min, max))
  return f'{mean} ({low} to {high})'
