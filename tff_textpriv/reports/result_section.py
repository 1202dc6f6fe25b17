"""The first part of a report: what was trained, on whom, how good it is, what it costs."""

from collections.abc import Sequence

from markupsafe import Markup

from tff_textpriv import metrics, sanity
from tff_textpriv.reports import promises, runs
from tff_textpriv.reports.markup import details, element, join, table

# With more runs, each has its line in the tables of the comparison.
_MOST_RUNS = 6


def section(all_runs: Sequence[runs.Run]) -> Markup:
  """Writes the result of a run with all that belongs to it, or the verdicts of a few."""
  finished = [run for run in all_runs if run.is_finished]
  if len(all_runs) == 1:
    return join(
      join([_verdict(run), _facts(run), _tested(run), _data(run)]) for run in finished
    )
  if len(all_runs) > _MOST_RUNS:
    return Markup()
  return join(
    join([element('h3', run.name), _verdict(run), _facts(run)]) for run in finished
  )


def _verdict(run: runs.Run) -> Markup | None:
  """Says whether the model is better than guesses that need none."""
  compared = sanity.compare(run.results)
  if not compared:
    return None
  of_use = sanity.is_of_use(compared)
  return element(
    'div',
    *(element('p', sentence) for sentence in sanity.lines(run.results)),
    class_='verdict' if of_use else 'verdict bad',
  )


def _facts(run: runs.Run) -> Markup:
  """Writes what was trained, on whom, under which promise, and what a client sends."""
  config = run.config
  promise = promises.read(run.card)
  headline = (run.card or {}).get('headline', promise.label)
  data = config.get('data')
  facts = {
    'Trained': f'{config.get("model", "a model")} with {run.algo}, '
    f'{run.results.get("rounds", "?")} rounds',
    'On': run.task if data is None else f'{run.task}, {runs.without_folders(data)}',
    'Promise': headline,
  }
  if run.bytes_up is not None:
    facts['A client sends'] = f'{run.bytes_up:,.0f} bytes per round'
  terms = (
    part
    for name, text in facts.items()
    for part in (element('dt', name), element('dd', text))
  )
  return element('dl', *terms, class_='facts')


def _tested(run: runs.Run) -> Markup | None:
  """Sets the figures of the test into a table."""
  rows = []
  for column, value in run.results.items():
    known = metrics.number(value)
    if column.startswith(metrics.TEST) and known is not None:
      is_known = metrics.is_known(column)
      metric = metrics.find(column) if is_known else None
      label = metric.label if metric else column.removeprefix(metrics.TEST)
      shown = metric.shown(known) if metric else f'{known:,.5g}'
      rows.append([label.replace('_', ' '), shown])
  if not rows:
    return None
  return join([element('h3', 'On test users'), table(['', ''], rows, numeric=(1,))])


def _data(run: runs.Run) -> Markup | None:
  """Shows what the run said of its data and settings when it began."""
  if not run.about:
    return None
  return join(
    [element('h3', 'Data and settings, as the run began'), element('pre', run.about)]
  )


def other_plans(run: runs.Run) -> Markup | None:
  """Sets the epsilons of other plans with the same noise into a table, if they are known."""
  plans = promises.other_plans(run.card)
  if plans is None:
    return None
  header, rows = plans
  return details(
    'What other cohorts and rounds would cost, at the same noise multiplier',
    element(
      'p',
      'Epsilon by the RDP accountant, which is a little above the figure of the card '
      'where that is of another one. `python -m tff_textpriv.tools.plan` solves for '
      'whatever is left out.',
      class_='small',
    ),
    table(header, rows, numeric=range(1, len(header))),
    is_open=True,
  )
