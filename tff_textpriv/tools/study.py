"""Runs a study of the papers: all its runs, then a table, a CSV and a plot.

    python -m tff_textpriv.tools.study --study=subword_table1 --task=stackoverflow

Flags of the task and of the algorithms are passed on to every run that has them.
A study that was stopped goes on where it was; runs that are done are not repeated.
"""

import dataclasses
import json
import pathlib
import re
import sys
from collections.abc import Sequence
from typing import Any

from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import registry
from tff_textpriv.settings import setting
from tff_textpriv.tasks import base
from tff_textpriv.tools import (
  attention_studies,
  rr_studies,
  studies,
  study_output,
  subword_studies,
  vocab_studies,
)
from tff_textpriv.training import experiment as experiment_lib

STUDIES = {
  study.name: study
  for study in (
    *subword_studies.SUBWORD_STUDIES,
    *rr_studies.RR_STUDIES,
    *attention_studies.ATTENTION_STUDIES,
    *vocab_studies.VOCAB_STUDIES,
  )
}
_TASKS = tuple(
  dict.fromkeys(task for study in STUDIES.values() for task in study.tasks)
)


@dataclasses.dataclass(frozen=True)
class StudySettings(settings_lib.Settings):
  """Flags of the command itself."""

  study: str = setting('demo', 'The study.', choices=tuple(STUDIES))
  task: str | None = setting(
    None, 'The task it is run on; by default the study’s usual one.', choices=_TASKS
  )
  study_dir: str = setting('runs/studies', 'The folder of all studies.')
  format: str = setting(
    'text', 'How the table is printed in the end.', choices=('text', 'json')
  )
  cross_data: str | None = setting(
    None,
    'Text of another domain, one document a line, for subword_table2; the embedded '
    'data take the text of the other task.',
  )


def main(argv: Sequence[str]) -> int:
  """Runs a study.

  Args:
    argv: The arguments, without the program's name.

  Returns:
    The exit code: that of the first run that did not end well, or 0.
  """
  own, passed_on = _split(argv)
  chosen = flags.make(StudySettings, flags.parse(own, _groups()))
  study = STUDIES[chosen.study]
  if chosen.task is not None and chosen.task not in study.tasks:
    raise settings_lib.SettingsError(
      'task', chosen.task, f'{study.name} is a study of {", ".join(study.tasks)}'
    )
  task = base.find(chosen.task or study.tasks[0])
  folder = pathlib.Path(chosen.study_dir) / f'{study.name}_{task.name}'
  passed_on = [*study.default_flags, *passed_on]
  arms = study.arms(_scale(chosen, task, passed_on, folder))
  experiments = [_experiment(task, arm, passed_on, folder) for arm in arms]
  results = []
  for number, (arm, experiment) in enumerate(zip(arms, experiments, strict=True), 1):
    print(f'\n=== {arm.label} (run {number} of {len(arms)})')
    finished = _results(experiment)
    if finished is None:
      code = base.run(experiment)
      if code:
        return code
      finished = _results(experiment)
    assert finished is not None  # A run that ended well has written them.
    results.append(finished)
  rows = [
    study_output.Row(arm, experiment.folder, result, arm.paper.get(task.name, {}))
    for arm, experiment, result in zip(arms, experiments, results, strict=True)
  ]
  table = study_output.write(study, task.name, rows, folder, argv)
  if chosen.format == 'json':
    print(json.dumps({row.arm.label: row.results for row in rows}, indent=2))
  else:
    print(f'\n{table}\n\nwritten: {folder}/{study.name}.md, .csv, .png')
  return 0


def help_page() -> str:
  """Writes the command's help."""
  listed = '; '.join(f'{name}: {study.title}' for name, study in STUDIES.items())
  return flags.format_help(
    'python -m tff_textpriv.tools.study --study=NAME [--flag=value ...]',
    f'Runs a study and writes a table, a CSV and a plot. Studies: {listed}. All other '
    'flags are passed on to the runs (see the help of the task).',
    _groups(),
  )


def _groups() -> list[flags.Group]:
  return [flags.Group('Study', StudySettings)]


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
  """Tells the command's own flags from those that are passed on to the runs."""
  if '--help' in argv:
    raise flags.HelpRequested()
  names = {field.name for field in dataclasses.fields(StudySettings)}
  argv = flags.expand_flagfiles(argv)
  own = [argument for argument in argv if _name(argument) in names]
  return own, [argument for argument in argv if argument not in own]


def _name(argument: str) -> str:
  return argument.lstrip('-').split('=')[0]


def _experiment(
  task: experiment_lib.Task,
  arm: studies.Arm,
  passed_on: Sequence[str],
  folder: pathlib.Path,
) -> experiment_lib.Experiment:
  """Makes the experiment of an arm, with all flags that its algorithm has."""
  slug = re.sub(r'[^a-z0-9.]+', '_', arm.label.lower())
  common = [argument for argument in passed_on if _is_for(argument, task, arm)]
  return base.parse(
    task,
    [*common, *arm.flags, f'--root_output_dir={folder}', f'--experiment_name={slug}'],
  )


def _is_for(argument: str, task: experiment_lib.Task, arm: studies.Arm) -> bool:
  """Tells whether a flag is to be passed on to an arm.

  A flag of another algorithm is not, since arms of several algorithms share one
  command line. A flag of no algorithm at all is: parsing it will refuse it.
  """
  name = _name(argument).removeprefix('no')
  owners = {
    algorithm.name
    for algorithm in registry.ALGORITHMS.values()
    for group in (algorithm.settings, algorithm.privacy)
    if group is not None and name in {f.name for f in dataclasses.fields(group)}
  }
  algorithm = next(_value(f) for f in arm.flags if _name(f) == 'algo')
  is_task_flag = name in {field.name for field in dataclasses.fields(task.settings)}
  return not owners or algorithm in owners or is_task_flag


def _value(argument: str) -> str:
  return argument.split('=', 1)[1]


def _scale(
  chosen: StudySettings,
  task: experiment_lib.Task,
  passed_on: Sequence[str],
  folder: pathlib.Path,
) -> studies.Scale:
  """Reads, from the flags of the runs, what decides the arms."""
  probe = _experiment(
    task, studies.Arm('probe', ('--algo=dp_fed_avg',)), passed_on, folder
  )
  if task.kind == 'classification':
    return studies.Scale(
      task.name,
      probe.run.total_rounds,
      vectors_file=probe.task_settings.vectors_file or '',
      given=frozenset(map(_name, passed_on)),
    )
  cross_data = chosen.cross_data
  if cross_data is None and chosen.study == 'subword_table2':
    cross_data = _other_domain(probe, folder)
  return studies.Scale(
    task.name,
    total_rounds=probe.run.total_rounds,
    num_clients=getattr(
      probe.task_settings, 'num_clients', probe.task_settings.num_users
    ),
    vocab_size=probe.task_settings.vocab_size,
    model_size=probe.task_settings.model.split('_')[1],
    cross_data=cross_data or '',
  )


def _other_domain(probe: experiment_lib.Experiment, folder: pathlib.Path) -> str:
  """Writes the text of the other task's embedded users to a file."""
  if probe.task_settings.data != 'embedded':
    raise settings_lib.SettingsError(
      'cross_data', None, f'is needed with --data={probe.task_settings.data}'
    )
  other = {'stackoverflow': 'reddit', 'reddit': 'stackoverflow'}[probe.task.name]
  data = base.find(other).load(probe.task_settings, probe.run.seed)
  file = folder / f'{other}.txt'
  file.parent.mkdir(parents=True, exist_ok=True)
  with open(file, 'w', encoding='utf-8') as stream:
    for user in data.train.client_ids:
      stream.writelines(f'{text}\n' for text in data.train.read(user))
  return str(file)


def _results(experiment: experiment_lib.Experiment) -> dict[str, Any] | None:
  """Reads the results of a run that is done with the same settings."""
  results = experiment.folder / 'results.json'
  config = experiment.folder / 'config.json'
  if not results.exists() or not config.exists():
    return None
  if json.loads(config.read_text()) != json.loads(json.dumps(experiment.config)):
    # Running it will say which settings differ.
    return None
  return json.loads(results.read_text())


if __name__ == '__main__':
  flags.exit_with_sentences(lambda: main(sys.argv[1:]), help_page)
