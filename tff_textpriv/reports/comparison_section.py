"""The part of a report in which runs on the same data are compared."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from tff_textpriv import metrics
from tff_textpriv.reports import (
  comparison,
  curve_section,
  front_section,
  promises,
  runs,
)
from tff_textpriv.reports.markup import details, element, join, table


def section(compared: comparison.Comparison) -> Markup:
  """Writes the front, the curves, all figures and the settings of one comparison."""
  return join(
    [
      front_section.section(compared) if len(compared.variants) > 1 else Markup(),
      curve_section.section(compared),
      _figures(compared),
      _settings(compared),
    ]
  )


def _figures(compared: comparison.Comparison) -> Markup:
  """Sets all figures of results.json into a table."""
  finished = [run for run in compared.runs if run.is_finished]
  if not finished:
    return Markup()
  columns = dict.fromkeys(column for run in finished for column in run.results)
  columns.pop('sanity', None)  # Sentences, which stand above.
  cells = {
    column.replace('_', ' '): [_figure(run, column) for run in finished]
    for column in columns
  }
  figures = _by_run(finished, cells, is_numeric=True)
  return details('All figures', figures, is_open=len(compared.runs) > 1)


def _by_run(
  shown: Sequence[runs.Run],
  cells: Mapping[str, Sequence[str]],
  is_numeric: bool = False,
) -> Markup:
  """Makes a table of what there is of each run; its longer side goes down the page.

  Args:
    shown: The runs.
    cells: By name, the texts of all runs.
    is_numeric: Whether the texts are figures.
  """
  names = [run.name for run in shown]
  if len(cells) > len(shown):
    header = ['', *names]
    rows = [[name, *texts] for name, texts in cells.items()]
  else:
    header = ['run', *cells]
    rows = [list(row) for row in zip(names, *cells.values(), strict=True)]
  return table(header, rows, numeric=range(1, len(header)) if is_numeric else ())


def _figure(run: runs.Run, column: str) -> str:
  if column not in run.results:
    return '–'
  value = run.results[column]
  known = metrics.number(value)
  if column == 'epsilon':
    return promises.shown(known)
  if known is None:
    return '–' if value is None else str(value)
  return f'{known:,.0f}' if known.is_integer() else f'{known:,.5g}'


def _settings(compared: comparison.Comparison) -> Markup:
  """Sets the settings that differ between runs into a table, and folds the others."""
  differing = compared.differing
  parts = []
  if differing:
    cells = {
      name: [comparison.shown_setting(run, name) for run in compared.runs]
      for name in differing
    }
    parts += [
      element('h3', 'Settings that differ'),
      element('p', 'A dash: the algorithm has no such setting.', class_='small'),
      _by_run(compared.runs, cells),
    ]
  same = [name for name in compared.runs[0].config if name not in differing]
  title = f'{len(same)} settings that all runs share' if differing else 'Settings'
  rows = [[name, comparison.shown_setting(compared.runs[0], name)] for name in same]
  return join([*parts, details(title, table(['setting', 'value'], rows))])
