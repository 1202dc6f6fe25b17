"""Runs a study of the papers: all its runs, then tables, CSV files and a plot.

    python -m tff_textpriv.tools.study --study=subword_table1 --task=stackoverflow

Flags of the task and of the algorithms are passed on to every run that has them.
A study that was stopped goes on where it was; runs that are done are not repeated.
"""

import dataclasses
import json
import pathlib
import sys
from collections.abc import Sequence

from tff_textpriv import files, flags, run_folder
from tff_textpriv import settings as settings_lib
from tff_textpriv.experiments import study_files, study_plan, study_runner, study_tables
from tff_textpriv.settings import setting
from tff_textpriv.tasks import base, command_flags, shared_flags


@dataclasses.dataclass(frozen=True)
class StudySettings(settings_lib.Settings):
  """Flags of the command itself."""

  study: str = setting(
    'demo', 'The study: one of those below, or the path of a .toml file of your own.'
  )
  task: str | None = setting(
    None, 'The task it is run on; by default the study’s usual one.'
  )
  seeds: tuple[int, ...] = setting(
    (),
    'Seeds, 0,1,2 say: every arm is run with every one, and differences between arms '
    'are compared seed by seed. By default one run per arm, with --seed.',
    low=0,
    high=2**31 - 1,
  )
  jobs: int = setting(
    1,
    'Runs at a time; they share the cores of this machine. Small models keep one core busy '
    'and no more.',
    low=1,
  )
  arms: tuple[str, ...] = setting(
    (),
    'Arms to make, by the names of their folders; * stands for any letters, as in '
    'bpe_*,word_oracle. The arm that others are compared with is always among them. By '
    'default all.',
  )
  study_dir: str = setting('runs/studies', 'The folder of all studies.')
  format: str = setting(
    'text', 'How the table is printed in the end.', choices=('text', 'json')
  )
  cross_data: str | None = setting(
    None,
    'Text of another domain, one document per line, for subword_table2, whose rows have '
    'the name of the file; the embedded data take the text of the other task.',
  )


_GROUPS = [flags.Group('Study', StudySettings)]


def main(argv: Sequence[str]) -> int:
  """Runs a study; returns the code of the first run that did not end well, or 0."""
  own, passed_on = shared_flags.split(argv, StudySettings)
  chosen = flags.make(StudySettings, flags.parse(own, _GROUPS))
  study = study_files.load(chosen.study)
  if chosen.task is not None and chosen.task not in study.tasks:
    raise settings_lib.SettingsError(
      'task', chosen.task, f'{study.name} is a study of {", ".join(study.tasks)}'
    )
  task = base.find(chosen.task or study.tasks[0])
  folder = pathlib.Path(chosen.study_dir) / f'{study.name}_{task.name}'
  plan = study_plan.make_plan(
    study,
    task,
    flags.parse(passed_on, command_flags.groups(task)),
    chosen.seeds,
    folder,
    chosen.cross_data,
    chosen.arms,
  )
  for note in plan.notes:
    print(note)
  code = study_runner.run_all(plan.runs, chosen.jobs)
  if code:
    return code
  outcome = study_runner.outcome(study, task, plan, compares=bool(chosen.seeds))
  study_tables.write(outcome, folder, argv)
  # Only now is matplotlib needed, which takes a second.
  from tff_textpriv.experiments import study_plot
  from tff_textpriv.reports import page, plots

  figure = study_plot.draw(study, outcome.rows)
  files.write_atomically(folder / f'{study.name}.png', plots.png(figure))
  files.write_atomically(folder / f'{study.name}.svg', plots.svg(figure))
  if chosen.format == 'json':
    print(json.dumps(outcome.as_json, indent=2))
  else:
    print(f'\n{outcome.text}\n\nwritten: {folder}/{study.name}.md, .csv, .png, .svg')
    file = folder / run_folder.REPORT
    page.write([folder], file)
    print(f'report:  {file} (open it in a browser)')
  return 0


def help_page() -> str:
  """Writes the command's help."""
  listed = '; '.join(
    f'{name}: {study_files.load(name).title}' for name in study_files.names()
  )
  return flags.format_help(
    'python -m tff_textpriv.tools.study --study=NAME [--flag=value ...]',
    f'Runs a study and writes tables, CSV files and a plot. Studies: {listed}. All other '
    'flags are passed on to the runs that have them (see the help of the task).',
    _GROUPS,
  )


if __name__ == '__main__':
  flags.exit_with_sentences(lambda: main(sys.argv[1:]), help_page)
