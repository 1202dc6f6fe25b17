"""The parts of a report that show runs one by one: state, card, tokenizers, samples."""

import base64
from collections.abc import Callable, Sequence

from markupsafe import Markup

from tff_textpriv.reports import (
  charts,
  folders,
  markdown,
  promises,
  result_section,
  runs,
)
from tff_textpriv.reports.markup import details, element, join, table

# With more runs, their table is folded.
_MAX_SHOWN = 24


def overview(all_runs: Sequence[runs.Run]) -> Markup:
  """Writes the table of all runs, and what is wrong with some of them.

  Of one run that is well, all of it stands elsewhere.
  """
  if not all_runs or (len(all_runs) == 1 and not all_runs[0].problems):
    return Markup()
  rows = [
    [run.name, run.task, run.algo, _state(run), f'{run.rounds_done:,}', _headline(run)]
    for run in all_runs
  ]
  header = ('run', 'task', 'algorithm', 'state', 'rounds', 'promise')
  broken = [
    element('li', element('strong', run.name), ': ', f'{"; ".join(run.problems)}.')
    for run in all_runs
    if run.problems
  ]
  found = table(header, rows, numeric=(4,))
  if len(all_runs) > _MAX_SHOWN:
    found = details(f'All {len(all_runs)} runs', found)
  return join([found, element('ul', *broken, class_='problems') if broken else None])


def _state(run: runs.Run) -> Markup:
  if not run.config or (run.problems and run.results):
    return element('span', 'incomplete', class_='state bad')
  if not run.results:
    return element('span', 'not ended', class_='state bad')
  if run.results.get('ended') == 'budget':
    return element('span', 'budget spent', class_='state')
  return element('span', 'finished', class_='state')


def _headline(run: runs.Run) -> str:
  if run.card is None:
    return '–'
  return str(run.card.get('headline', promises.read(run.card).label))


def cards(all_runs: Sequence[runs.Run]) -> Markup:
  """Writes the privacy cards; runs with the very same card share one."""
  return _shared_pages(
    all_runs,
    lambda run: run.card_text,
    lambda run: element('span', _headline(run), class_='headline'),
    _privacy_curve,
  )


def _privacy_curve(run: runs.Run) -> Markup | None:
  """Draws the epsilons of a run at all deltas, if its card has them."""
  points = promises.curve(run.card)
  if len(points) < 2:
    return result_section.other_plans(run)
  axes = charts.Axes(
    'Epsilon at other deltas:', 'all hold at once; delta is 10 to the minus x', 'x'
  )
  line = charts.Line(run.name, points, 's0')
  drawn = element('div', charts.line_chart([line], axes), class_='charts')
  return join([drawn, result_section.other_plans(run)])


def tokenizers(all_runs: Sequence[runs.Run]) -> Markup:
  """Writes where tokenizers came from; runs with the very same lineage share one."""
  return _shared_pages(all_runs, lambda run: run.lineage)


def _shared_pages(
  all_runs: Sequence[runs.Run],
  page_of: Callable[[runs.Run], str],
  note_of: Callable[[runs.Run], Markup | None] = lambda _: None,
  figure_of: Callable[[runs.Run], Markup | None] = lambda _: None,
) -> Markup:
  """Writes each different page once, under the names of the runs that have it."""
  by_text: dict[str, list[runs.Run]] = {}
  for run in all_runs:
    if page_of(run):
      by_text.setdefault(page_of(run), []).append(run)
  return join(
    details(
      join(
        [element('strong', ', '.join(run.name for run in group)), note_of(group[0])]
      ),
      join([figure_of(group[0]), markdown.to_html(text, top_level=4)]),
      is_open=len(all_runs) == 1,
    )
    for text, group in by_text.items()
  )


def samples(all_runs: Sequence[runs.Run]) -> Markup:
  """Writes some of what models wrote."""
  return join(
    details(
      join([element('strong', run.name), f' {sample.file}']),
      element('p', _source(run), class_='small'),
      element('div', _texts(sample), _tokens(sample), class_='side'),
      is_open=len(all_runs) == 1,
    )
    for run in all_runs
    for sample in run.samples
  )


def _texts(sample: runs.Sample) -> Markup:
  """Writes the first texts that a model wrote."""
  texts = (element('li', text, dir='auto') for text in sample.texts)
  return element('ul', *texts, class_='texts')


def _tokens(sample: runs.Sample) -> Markup | None:
  """Writes, beside the texts, the new pieces that were learnt from them."""
  if not sample.tokens:
    return None
  pieces = join((element('code', token) for token in sample.tokens), ' ')
  title = element('strong', 'New tokens, the most frequent first:')
  return element('p', title, ' ', pieces, class_='tokens')


def _source(run: runs.Run) -> str:
  if promises.read(run.card).epsilon is None:
    return (
      'The first texts. This run has no formal guarantee: the model may repeat what its '
      'users wrote.'
    )
  return 'The first texts. What a private model writes costs no further privacy.'


def summaries(pages: Sequence[folders.Summary]) -> Markup:
  """Writes the tables of studies and sweeps."""
  return join(
    details(
      element('strong', page.name),
      None if page.plot is None else _picture(page),
      markdown.to_html(page.text, top_level=4),
      is_open=len(pages) == 1,
    )
    for page in pages
  )


def _picture(page: folders.Summary) -> Markup:
  """Shows a plot as a picture: in one, nothing runs and nothing is loaded."""
  assert page.plot is not None
  content = base64.b64encode(page.plot).decode()
  source = f'data:image/svg+xml;base64,{content}'
  return element('img', src=source, alt=f'plot of {page.name}', class_='plot')
