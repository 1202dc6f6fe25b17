"""Writes one page on runs, studies, sweeps and attacks, to read, print or mail.

python -m tff_textpriv.tools.report runs/studies/demo_stackoverflow runs/attacks
"""

import dataclasses
import pathlib

from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.reports import page
from tff_textpriv.settings import setting


@dataclasses.dataclass(frozen=True)
class ReportSettings(settings_lib.Settings):
  """Arguments of the command."""

  folders: tuple[str, ...] = setting(
    settings_lib.REQUIRED,
    'Folders of runs, studies, sweeps or attacks, or folders of such; each is searched.',
    positional=True,
  )
  output: str = setting('report.html', 'The file to write.')


def main(chosen: ReportSettings) -> int:
  """Writes the report; returns 0."""
  output = pathlib.Path(chosen.output)
  material = page.write([pathlib.Path(folder) for folder in chosen.folders], output)
  for run in material.runs:
    for problem in run.problems:
      print(f'note: {run.name}: {problem}')
  for board in material.scoreboards:
    if board.problem:
      print(f'note: {board.name}: {board.problem}')
  size = output.stat().st_size / 1000
  print(f'written: {output} ({size:,.0f} kB): {material.contents}')
  return 0


if __name__ == '__main__':
  flags.run(main, ReportSettings, __doc__.splitlines()[0])
