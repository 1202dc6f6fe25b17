"""Makes the runs of a study, shared beginnings once, and reads what they have left.

An arm that branches from another one is a copy of that run's folder at their last common
round, which goes on.
"""

import contextlib
import dataclasses
import signal
import sys
from collections.abc import Sequence

import tqdm

from tff_textpriv import run_folder
from tff_textpriv.experiments import study as study_lib
from tff_textpriv.experiments import study_plan, study_tables, sweep_children
from tff_textpriv.tasks import base
from tff_textpriv.training import experiment as experiment_lib
from tff_textpriv.training import output, stopping


def run_all(runs: Sequence[study_plan.Run], jobs: int = 1) -> int:
  """Makes the runs that are not done; returns the first exit code that is not 0.

  Branches come first, in the order of their rounds: then the run that they branch from
  has not passed them.

  Args:
    runs: All runs of the study.
    jobs: How many are made at a time, but for branches and what they branch from.
  """
  order = sorted(runs, key=lambda run: (not run.arm.branch_from, run.arm.at_round))
  by_name = {(run.arm.label, run.seed): run for run in runs}
  trunks = {run.arm.branch_from for run in runs}
  beside = [
    run
    for run in order
    if jobs > 1 and not run.arm.branch_from and run.arm.label not in trunks
  ]
  for number, run in enumerate(order, 1):
    if run in beside:
      continue
    print(f'\n=== {run.name} (run {number} of {len(runs)})')
    if run.results() is not None:
      continue
    if run.arm.branch_from and not run.experiment.folder.exists():
      code = _begin_branch(by_name[run.arm.branch_from, run.seed], run)
      if code:
        return code
    code = base.run(run.experiment)
    if code:
      return code
  return _run_beside(beside, jobs)


def _run_beside(runs: Sequence[study_plan.Run], jobs: int) -> int:
  """Makes runs several at a time, each in a process; returns an exit code as above."""
  to_do = [run for run in runs if run.results() is None]
  if runs:
    print(f'{len(runs) - len(to_do)} of {len(runs)} runs are done', flush=True)
  first_code = 0
  with (
    stopping.stop_on_signals() as stop,
    contextlib.closing(sweep_children.attempts(to_do, jobs, stop)) as attempts,
  ):
    for number, ended in enumerate(attempts, 1):
      how = f'failed: {ended.error}' if ended.error else 'finished'
      if ended.code and not ended.error:
        how = 'stopped'
      clock = tqdm.tqdm.format_interval(ended.seconds)
      print(
        f'[{number}/{len(to_do)}] {ended.run.name}: {how}, {clock} '
        f'(log: {ended.run.log_file})',
        flush=True,
      )
      first_code = first_code or ended.code
  if stop:
    print('stopped; repeat the command to go on', file=sys.stderr)
    return 128 + (stop.signal_number or 0)
  return first_code


def outcome(
  study: study_lib.Study,
  task: experiment_lib.Task,
  plan: study_plan.Plan,
  compares: bool,
) -> study_tables.Outcome:
  """Reads what the runs of a study have left; all must have finished."""
  rows: dict[str, study_tables.Row] = {}
  for run in plan.runs:
    row = rows.setdefault(run.arm.label, study_tables.Row(run.arm, {}))
    results = run.results()
    assert results is not None  # A run that ended well has written them.
    found = study_tables.SeedResult(run.experiment.folder, results)
    rows[run.arm.label] = dataclasses.replace(
      row, by_seed={**row.by_seed, run.seed: found}
    )
  return study_tables.Outcome(
    study, task.name, list(rows.values()), rows[plan.reference], compares
  )


def _begin_branch(trunk: study_plan.Run, branch: study_plan.Run) -> int:
  """Trains what two runs have in common and copies it; returns an exit code.

  Where the trunk is further already, or they have nothing in common, the branch is
  left to train from its start, which gives the same.
  """
  last = branch.arm.at_round
  folder = trunk.experiment.folder
  if (
    last < 1 or run_folder.has_finished(folder) or run_folder.last_round(folder) > last
  ):
    return 0
  print(f'rounds 1 to {last}, which are those of {trunk.name}, too')
  machine = dataclasses.replace(trunk.experiment.machine, stop_after_round=last)
  code = base.run(dataclasses.replace(trunk.experiment, machine=machine))
  # What was stopped on purpose ends as after Ctrl-C, but at that round.
  if code != 128 + signal.SIGINT or run_folder.last_round(folder) != last:
    return code
  with output.OutputFolder(folder):
    run_folder.branch(
      folder,
      branch.experiment.folder,
      branch.experiment.config,
      {*trunk.arm.flags, *branch.arm.flags} - {'algo'},
    )
  return 0
