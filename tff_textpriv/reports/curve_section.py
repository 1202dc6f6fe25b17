"""The part of a report that draws how runs learnt."""

import dataclasses

from markupsafe import Markup

from tff_textpriv import metrics
from tff_textpriv.reports import charts, comparison, promises, runs
from tff_textpriv.reports.markup import element, join


@dataclasses.dataclass(frozen=True)
class _Series:
  """Runs that share a colour."""

  name: str
  runs: tuple[runs.Run, ...]
  colour: str


def section(compared: comparison.Comparison) -> Markup:
  """Draws the curves of all runs that have measured something."""
  utility = _followed(compared)
  drawn = [
    (utility.validation, f'Validation {utility.label}:', utility.is_perplexity),
    ('train_loss', 'Training loss:', False),
  ]
  if _is_one_promise(compared):
    drawn.append(('epsilon', 'Epsilon spent so far:', False))
  all_series = _series(compared)
  figures = []
  for column, title, log_y in drawn:
    lines = [
      charts.Line(run.name, run.curves[column], series.colour)
      for series in all_series
      for run in series.runs
      if run.curves.get(column)
    ]
    if lines:
      axes = charts.Axes(title, 'by round', 'round', log_y=log_y)
      figures.append(charts.line_chart(lines, axes))
  if not figures:
    return Markup()
  return join(
    [
      element('h3', 'Learning curves'),
      element('div', *figures, class_='charts'),
      _legend(all_series),
    ]
  )


def _followed(compared: comparison.Comparison) -> metrics.Metric:
  """Returns what runs followed on validation users: the figure that counts, or another.

  Some figures are known of the test alone, since they take long.
  """
  candidates = (compared.utility, *metrics.UTILITIES)
  return next(
    (
      one
      for one in candidates
      if any(run.curves.get(one.validation) for run in compared.runs)
    ),
    compared.utility,
  )


def _is_one_promise(compared: comparison.Comparison) -> bool:
  """Tells whether the epsilons of the runs are all of one promise."""
  labels = {
    promises.read(run.card).label for run in compared.runs if run.curves.get('epsilon')
  }
  return len(labels - {promises.NONE.label}) == 1


def _series(compared: comparison.Comparison) -> list[_Series]:
  """Gives colours to variants and to runs that have not ended; too many are grey.

  The front comes first: it is the last to be grey.
  """
  places = sorted(range(len(compared.variants)), key=lambda i: i not in compared.front)
  groups = [(compared.variants[i].name, compared.variants[i].runs) for i in places]
  ended = {run.name for _, group in groups for run in group}
  groups += [(run.name, (run,)) for run in compared.runs if run.name not in ended]
  return [
    _Series(name, group, f's{i}' if i < charts.NUM_COLOURS else charts.GREY)
    for i, (name, group) in enumerate(groups)
  ]


def _legend(all_series: list[_Series]) -> Markup:
  named = {
    series.name: series.colour for series in all_series if series.colour != charts.GREY
  }
  if len(named) < len(all_series):
    named['all others'] = charts.GREY
  return element(
    'ul',
    *(
      element('li', element('span', class_=f'swatch {colour}'), name)
      for name, colour in named.items()
    ),
    class_='legend',
  )
