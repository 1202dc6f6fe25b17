"""The part of a report in which runs on the same data are compared."""

from tff_textpriv.reports import comparison, curve_section, front_section, runs
from tff_textpriv.reports.markup import Markup, details, element, join, table


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
  rows = [[run.name, *(_figure(run, column) for column in columns)] for run in finished]
  header = ['run', *(column.replace('_', ' ') for column in columns)]
  return details('All figures', table(header, rows, numeric=range(1, len(header))))


def _figure(run: runs.Run, column: str) -> str:
  if column not in run.results:
    return '–'
  value = run.results[column]
  if column == 'epsilon' and value is None:
    return 'none'
  known = runs.number(value)
  if known is None:
    return '–' if value is None else str(value)
  return f'{known:,.0f}' if known.is_integer() else f'{known:,.5g}'


def _settings(compared: comparison.Comparison) -> Markup:
  """Sets the settings that differ between runs into a table, and folds the others."""
  differing = compared.differing
  parts = []
  if differing:
    rows = [
      [run.name, *(comparison.shown_setting(run, name) for name in differing)]
      for run in compared.runs
    ]
    parts += [
      element('h3', 'Settings that differ'),
      element('p', 'A dash: the algorithm has no such setting.', class_='small'),
      table(['run', *differing], rows),
    ]
  same = [name for name in compared.runs[0].config if name not in differing]
  title = f'{len(same)} settings that all runs share' if differing else 'Settings'
  rows = [[name, comparison.shown_setting(compared.runs[0], name)] for name in same]
  return join([*parts, details(title, table(['setting', 'value'], rows))])
