"""The part of a report in which runs on the same data are compared."""

from tff_textpriv.reports import charts, comparison, front_section, promises, runs
from tff_textpriv.reports.markup import Markup, details, element, join, table

# Columns of metrics.csv that are drawn for all runs, and how they are called.
_TRAIN_LOSS = ('train_loss', 'training loss')


def section(compared: comparison.Comparison) -> Markup:
  """Writes the front, the curves, all figures and the settings of one comparison."""
  return join(
    [
      front_section.section(compared) if len(compared.variants) > 1 else Markup(),
      _curves(compared),
      _figures(compared),
      _settings(compared),
    ]
  )


def _curves(compared: comparison.Comparison) -> Markup:
  """Draws the curves of all runs that have measured something."""
  colours = _colours(compared)
  drawn = []
  if compared.utility is not None:
    column, label = compared.utility.curve, f'validation {compared.utility.label}'
    drawn.append((column, label, not compared.utility.higher_is_better))
  else:
    found = (
      one for one in _VALIDATION if any(one in run.curves for run in compared.runs)
    )
    drawn += [(one, one.replace('_', ' '), 'perplexity' in one) for one in found]
  drawn += [
    (*_TRAIN_LOSS, False),
    ('epsilon', 'epsilon spent so far', False),
  ]
  figures = []
  for column, label, log_y in drawn:
    lines = [
      charts.Line(run.name, run.curves[column], colours[run.name])
      for run in compared.runs
      if run.curves.get(column)
    ]
    if lines and (column != 'epsilon' or _is_one_promise(compared)):
      title = f'{label[0].upper()}{label[1:]}.'
      figures.append(
        charts.line_chart(lines, charts.Axes(title, 'round', '', log_y=log_y))
      )
  if not figures:
    return Markup()
  shown = {name: colour for name, colour in colours.items() if colour != charts.GREY}
  return join(
    [
      element('h3', 'Learning curves'),
      element('div', *figures, class_='charts'),
      _legend_of_lines(shown, has_grey=len(shown) < len(colours)),
    ]
  )


# Columns of metrics.csv that stand for the utility while no run has ended.
_VALIDATION = (
  'validation_auc',
  'validation_accuracy',
  'validation_word_perplexity',
  'validation_local_accuracy',
)


def _is_one_promise(compared: comparison.Comparison) -> bool:
  """Tells whether the epsilons of the runs are all of one promise."""
  labels = {
    promises.read(run.card).label for run in compared.runs if run.curves.get('epsilon')
  }
  return len(labels - {promises.NONE.label}) == 1


def _colours(compared: comparison.Comparison) -> dict[str, str]:
  """Gives runs colours: seeds of a variant share one; too many runs are grey.

  Those on the front come first, then those that are not finished.
  """
  groups = [
    [run.name for run in variant.runs]
    for _, variant in sorted(
      enumerate(compared.variants), key=lambda item: item[0] not in compared.front
    )
  ]
  known = {name for group in groups for name in group}
  groups += [[run.name] for run in compared.runs if run.name not in known]
  by_name = {
    name: f's{i}' if i < charts.NUM_COLOURS else charts.GREY
    for i, group in enumerate(groups)
    for name in group
  }
  return {run.name: by_name[run.name] for run in compared.runs}


def _legend_of_lines(shown: dict[str, str], has_grey: bool) -> Markup:
  entries = [
    element('li', element('span', class_=f'swatch {colour}'), name)
    for name, colour in shown.items()
  ]
  if has_grey:
    entries.append(
      element('li', element('span', class_='swatch grey'), 'all other runs')
    )
  return element('ul', *entries, class_='legend')


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
