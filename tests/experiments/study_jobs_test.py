"""Studies that make several runs at a time, each in a process of its own."""

import csv
import json
import os

import pytest
import stand_in_run

from tff_textpriv.experiments import (
  study_files,
  study_plan,
  study_runner,
  sweep_children,
)
from tff_textpriv.tasks import base
from tff_textpriv.tools import study

_STUDY = """
title = 'Few clients'
question = 'How many?'
tasks = ['imdb']
rows = 'clients'
columns = ['test_auc']

[plot]
metric = 'auc'

[[arms]]
label = 'N={clients}'
flags.algo = 'rr_ldp'
flags.num_clients = '{clients}'
flags.epsilon_per_coordinate = 1
grid.clients = [10, 20, 67]
"""


@pytest.fixture
def start(monkeypatch, tmp_path):
  """Returns what runs a study of stand-ins, two runs at a time."""
  monkeypatch.setattr(sweep_children, 'COMMAND', stand_in_run.CHILD_COMMAND)
  file = tmp_path / 'few.toml'
  file.write_text(_STUDY)

  def run(*argv):
    given = (
      f'--study={file}',
      f'--study_dir={tmp_path}',
      '--total_rounds=1',
      '--jobs=2',
    )
    return study.main([*given, *argv])

  return run


def test_runs_are_made_beside_each_other_and_a_failure_costs_no_other(
  start, tmp_path, capsys
):
  folder = tmp_path / 'few_imdb'
  # Of 67 clients one run fails, once with each seed.
  assert start('--seeds=0,1') == 1
  said = capsys.readouterr().out
  assert 'N=67, seed 1: failed: RuntimeError: first line' in said
  assert len((folder / 'begun').read_text().splitlines()) == 6
  assert not (folder / 'few.csv').exists()
  (folder / 'mended').touch()
  assert start('--seeds=0,1') == 0
  assert '4 of 6 runs are done' in capsys.readouterr().out
  assert len((folder / 'begun').read_text().splitlines()) == 8
  with open(folder / 'few.csv', newline='') as stream:
    rows = list(csv.DictReader(stream))
  found = {(row['arm'], row['seed']): float(row['test_auc']) for row in rows}
  assert found['N=20', '0'] == pytest.approx(0.53)
  assert found['N=67', '1'] == pytest.approx(0.587)
  # They share the cores.
  share = max(1, (len(os.sched_getaffinity(0)) + 1) // 2)
  results = [json.loads(file.read_text()) for file in folder.glob('*/results.json')]
  assert {each['test_cores'] for each in results} <= {share, share - 1} - {0}
  assert 'pretending to train' in next(folder.glob('n_10*/run.log')).read_text()


def test_branches_are_made_in_turn_with_what_they_branch_from(
  runs, monkeypatch, tmp_path
):
  asked = []

  def attempts(some, *_):
    asked.append(some)
    yield from ()

  monkeypatch.setattr(sweep_children, 'attempts', attempts)
  chosen = study_files.load('subword_figure3')
  plan = study_plan.make_plan(chosen, base.find('reddit'), {}, (), tmp_path)
  study_runner.run_all(plan.runs, jobs=2)
  (beside,) = asked
  assert [run.arm.label for run in beside] == ['public', 'oracle']
  assert len(runs) == 4 == len(plan.runs) - 2


def test_the_flags_of_a_run_make_the_same_run_in_another_process(tmp_path):
  for name in ('subword_improvements', 'trust_models', 'vocab_table4', 'rr_one_review'):
    chosen = study_files.load(name)
    task = base.find(chosen.tasks[0])
    for run in study_plan.make_plan(chosen, task, {}, (3,), tmp_path).runs:
      assert base.parse(task, run.argv) == run.experiment
