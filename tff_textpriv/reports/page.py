"""The whole report: one page of HTML that needs no other file and no network."""

import datetime
import importlib.resources
import pathlib
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from tff_textpriv import files
from tff_textpriv.reports import (
  attack_section,
  comparison,
  comparison_section,
  folders,
  result_section,
  run_sections,
)
from tff_textpriv.reports.markup import element

# Nothing is loaded from anywhere, and no script runs, whatever the page may hold.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write(searched: Sequence[pathlib.Path], output: pathlib.Path) -> folders.Material:
  """Writes a report, and returns what was found.

  Args:
    searched: Folders of runs, studies, sweeps or attacks, or folders of such.
    output: The file to write.

  Raises:
    ReportError: If there is nothing to report on, or the file cannot be written.
  """
  material = folders.search(searched)
  try:
    files.write_atomically(output, render(material))
  except OSError as error:
    raise folders.ReportError(f'cannot write {output}: {error.strerror}') from error
  return material


def render(material: folders.Material) -> str:
  """Makes the page."""
  sections = list(_sections(material))
  title = _title(material)
  now = datetime.datetime.now()
  style = importlib.resources.files(__package__).joinpath('style.css').read_text()
  head = element(
    'head',
    element('meta', charset='utf-8'),
    element('meta', name='viewport', content='width=device-width, initial-scale=1'),
    element('meta', name='color-scheme', content='light dark'),
    element('meta', http_equiv='Content-Security-Policy', content=_POLICY),
    element('title', title),
    element('style', Markup(style)),
  )
  contents = element(
    'nav',
    *(element('a', name, href=f'#part-{i}') for i, (name, _) in enumerate(sections)),
  )
  body = element(
    'body',
    element(
      'header',
      element('h1', title),
      element('p', f'{material.contents} · {now:%Y-%m-%d %H:%M}', class_='small'),
      contents,
    ),
    element(
      'main',
      _what_is_private(material),
      *(
        element('section', element('h2', name), content, id=f'part-{i}')
        for i, (name, content) in enumerate(sections)
      ),
    ),
  )
  return f'<!doctype html>\n{element("html", head, body, lang="en")}\n'


def _title(material: folders.Material) -> str:
  if len(material.runs) == 1 and not material.scoreboards:
    run = material.runs[0]
    return f'{run.name}: {run.algo} on {run.task}'
  return 'Report on private training'


def _sections(material: folders.Material) -> Iterator[tuple[str, Markup]]:
  """Yields the parts that have content: name and HTML."""
  compared = comparison.compare(material.runs, material.scoreboards)
  parts = [
    ('Studies and sweeps', run_sections.summaries(material.summaries)),
    (_results(material), result_section.section(material.runs)),
    ('Runs', run_sections.overview(material.runs)),
    *((one.title, comparison_section.section(one)) for one in compared),
    ('Privacy cards', run_sections.cards(material.runs)),
    ('Tokenizers', run_sections.tokenizers(material.runs)),
    ('Generated samples', run_sections.samples(material.runs)),
    ('Attacks', attack_section.section(material.scoreboards)),
  ]
  yield from (part for part in parts if part[1])


def _results(material: folders.Material) -> str:
  return 'Result' if len(material.runs) == 1 else 'Results'


def _what_is_private(material: folders.Material) -> Markup:
  """Says which parts hold users' data, as the privacy card does."""
  sentences = []
  if any(run.curves or run.results for run in material.runs):
    sentences.append(
      'Learning curves and figures are exact measurements of users’ data and not private.'
    )
  if any(run.lineage for run in material.runs):
    sentences.append(
      'Figures of tokenizers compare with users’ text and are exact too.'
    )
  if any(run.samples for run in material.runs):
    sentences.append(
      'Generated samples are a model’s own text, as private as the card of its run says.'
    )
  if any(board.cases for board in material.scoreboards):
    sentences.append('Case studies of attacks show users’ own text, word for word.')
  sentences.append('Do not publish these parts about real users.')
  return element(
    'p',
    element('strong', 'What here is not private. '),
    ' '.join(sentences),
    class_='note',
  )
