"""Sweeps: every combination once, whatever happens on the way."""

import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import processes
import psutil
import pytest
import stand_in_run

from tff_textpriv import flags
from tff_textpriv.experiments import sweep_children, sweep_grid, sweep_table
from tff_textpriv.settings import SettingsError
from tff_textpriv.tasks import base, imdb, stackoverflow
from tff_textpriv.tools import sweep
from tff_textpriv.training import output

# A sweep as a command, but with stand-ins for training.
_COMMAND = f"""
import sys
from tff_textpriv import flags
from tff_textpriv.experiments import sweep_children
from tff_textpriv.tools import sweep
sweep_children.COMMAND = {stand_in_run.CHILD_COMMAND!r}
flags.exit_with_sentences(lambda: sweep.main(sys.argv[1:]), sweep.help_page)
"""
_BASE = ('--task=imdb', '--algo=rr_ldp', '--total_rounds=1')
# 3 x 2 x 2 runs.
_GRID = (
  '--task=imdb',
  '--algo=rr_ldp',
  '--epsilon_per_coordinate=0.1,1,10',
  '--num_clients=10,100',
  '--seeds=2',
)


def _names(*passed_on, task=imdb.TASK, algorithms=('rr_ldp',), seeds=1):
  return [
    run.name for run in _runs(*passed_on, task=task, algorithms=algorithms, seeds=seeds)
  ]


def _runs(*passed_on, task=imdb.TASK, algorithms=('rr_ldp',), seeds=1):
  return sweep_grid.make_runs(
    task, algorithms, passed_on, seeds, pathlib.Path('sweeps/one')
  )


def test_a_grid_has_every_combination_in_order_and_seeds_change_fastest():
  assert _names('--num_clients=10,20', '--quantization_range=0.1,0.01', seeds=2) == [
    f'rr_ldp_num_clients={clients}_quantization_range={q}_seed={seed}'
    for clients in (10, 20)
    for q in (0.1, 0.01)
    for seed in (0, 1)
  ]


def test_a_run_has_its_flags_its_folder_and_what_is_varied():
  (first, *_) = _runs('--num_clients=10,20', '--total_rounds=7', '--seed=4')
  assert first.config['num_clients'] == 10 and first.config['total_rounds'] == 7
  assert first.point == {'algo': 'rr_ldp', 'num_clients': 10}
  assert first.folder == pathlib.Path('sweeps/one/rr_ldp_num_clients=10_seed=4')
  assert '--root_output_dir=sweeps/one' in first.argv
  assert f'--experiment_name={first.name}' in first.argv


def test_values_of_a_list_flag_are_separated_by_semicolons():
  runs = _runs(
    '--resample_rounds=10,20;30',
    task=stackoverflow.TASK,
    algorithms=('subword_resample',),
  )
  assert [run.config['resample_rounds'] for run in runs] == [(10, 20), (30,)]
  (run,) = _runs(
    '--resample_rounds=10,20',
    task=stackoverflow.TASK,
    algorithms=('subword_resample',),
  )
  assert run.config['resample_rounds'] == (10, 20)


def test_a_value_with_a_comma_is_kept_whole_by_a_semicolon():
  runs = _runs('--data=a,b;c')
  assert [run.config['data'] for run in runs] == ['a,b', 'c']
  assert [run.config['data'] for run in _runs('--data=a,b;')] == ['a,b']


def test_switches_are_swept_and_turned_off():
  runs = _runs('--privacy_claim=true,false')
  assert [run.config['privacy_claim'] for run in runs] == [True, False]
  assert [run.config['privacy_claim'] for run in _runs('--noprivacy_claim')] == [False]


def test_an_algorithm_without_a_swept_flag_is_run_once():
  runs = _runs('--epsilon_per_coordinate=1,2', algorithms=('rr_ldp', 'fed_avg'))
  assert [run.name for run in runs] == [
    'rr_ldp_epsilon_per_coordinate=1.0_seed=0',
    'rr_ldp_epsilon_per_coordinate=2.0_seed=0',
    'fed_avg_seed=0',
  ]
  # A flag whose name begins with "no" is not a switch that is turned off.
  both = _runs(
    '--noise_multiplier=1', '--target_epsilon=2', algorithms=('dp_fed_avg', 'fed_avg')
  )
  assert [run.config.get('noise_multiplier') for run in both] == [1.0, None]


def test_values_that_are_the_same_are_run_once():
  assert len(_runs('--epsilon_per_coordinate=1,1.0,1e0')) == 1


@pytest.mark.parametrize(
  ('passed_on', 'error', 'message'),
  [
    (['--coordinates=1,2'], flags.UsageError, 'did you mean --coordinates_per_client'),
    (['--clip=1,2'], flags.UsageError, 'belongs to dp_fed_avg'),
    (['--num_workers=1,2'], SettingsError, 'num_workers: does not change the result'),
    (['--root_output_dir=x'], SettingsError, 'use --sweep_dir'),
    (['--num_clients=1,none'], SettingsError, '--num_clients=none: must be'),
    (['--data=a/b,a_b'], flags.UsageError, 'would have the same folder'),
    (['oops'], flags.UsageError, "'oops' is not a flag"),
  ],
)
def test_what_cannot_be_swept_is_refused(passed_on, error, message):
  with pytest.raises(error, match=message):
    _runs(*passed_on)


def test_several_seeds_are_given_either_by_number_or_by_name():
  assert len(_names('--seed=3,5')) == 2
  with pytest.raises(SettingsError, match='--seeds=2: counts on from one --seed'):
    _names('--seed=3,5', seeds=2)


@pytest.fixture
def start(monkeypatch, tmp_path):
  """Returns what runs a sweep of stand-ins in the folder `tmp_path/one`."""
  monkeypatch.setattr(sweep_children, 'COMMAND', stand_in_run.CHILD_COMMAND)

  def run(*argv):
    return sweep.main([*argv, f'--sweep_dir={tmp_path}', '--sweep_name=one'])

  return run


def _table(folder, name='sweep.csv'):
  with open(folder / name, newline='') as stream:
    return list(csv.DictReader(stream))


def _begun(folder):
  return (folder / 'begun').read_text().splitlines()


def test_a_sweep_writes_a_row_a_run_and_means_over_seeds(start, tmp_path, capsys):
  assert (
    start(*_BASE, '--epsilon_per_coordinate=1,10', '--num_clients=20', '--seeds=3') == 0
  )
  folder = tmp_path / 'one'
  rows = _table(folder)
  assert len(rows) == 6
  assert {row['status'] for row in rows} == {'finished'}
  assert {row['quantization_range'] for row in rows} == {''}
  assert [row['seed'] for row in rows] == ['0', '1', '2'] * 2
  assert all(float(row['seconds']) >= 0 for row in rows)
  assert float(rows[0]['test_auc']) == pytest.approx(0.5 + 0.01 + 0.02)
  summary = _table(folder, 'sweep_summary.csv')
  assert [row['epsilon_per_coordinate'] for row in summary] == ['1.0', '10.0']
  assert {row['n'] for row in summary} == {'3'}
  # Seeds add 0, 0.01 and 0.04: the mean is 0.05 / 3, the sum of squares 0.0017.
  mean = 0.53 + 0.05 / 3
  deviation = ((0.0017 - 0.05**2 / 3) / 2) ** 0.5
  assert float(summary[0]['test_auc_mean']) == pytest.approx(mean)
  assert float(summary[0]['test_auc_sd']) == pytest.approx(deviation)
  assert 'ended_mean' not in summary[0]
  page = (folder / 'sweep_summary.md').read_text()
  assert f'{mean:.4f} ± {deviation:.4f}' in page and '--seeds=3' in page
  assert (folder / 'sweep.png').read_bytes().startswith(b'\x89PNG')
  printed = capsys.readouterr().out
  assert (
    '[6/6] finished: rr_ldp epsilon_per_coordinate=10.0 seed=2, test_auc 0.66'
    in printed
  )
  assert '6 of 6 runs finished, 0 failed' in printed
  log = folder / rows[0]['run'] / 'run.log'
  assert log.read_text() == f'pretending to train in {rows[0]["run"]}\n'


def test_finished_runs_are_not_repeated_and_new_values_are_added(
  start, tmp_path, capsys
):
  start(*_BASE, '--num_clients=10,20')
  start(*_BASE, '--num_clients=10,20')
  assert '2 finished before, 0 failed before, 0 to do' in capsys.readouterr().out
  start(*_BASE, '--num_clients=10,20,30')
  assert len(_begun(tmp_path / 'one')) == 3
  rows = _table(tmp_path / 'one')
  assert [row['num_clients'] for row in rows] == ['10', '20', '30']
  assert all(row['seconds'] for row in rows)


def test_a_run_that_fails_or_crashes_is_told_of_and_the_sweep_goes_on(
  start, tmp_path, capsys
):
  argv = (*_BASE, '--num_clients=66,10,67,68,20')
  assert start(*argv) == 1
  folder = tmp_path / 'one'
  rows = {row['num_clients']: row for row in _table(folder)}
  assert {number: row['error'] for number, row in rows.items()} == {
    '66': '--num_clients=66: is not my number',
    '10': '',
    '67': 'RuntimeError: first line',
    '68': 'its process was ended by SIGKILL',
    '20': '',
  }
  assert [row['status'] for row in rows.values()].count('failed') == 3
  printed = capsys.readouterr().out
  log = folder / rows['67']['run'] / 'run.log'
  assert f'RuntimeError: first line (log: {log})' in printed
  assert 'Traceback' in log.read_text()
  assert '2 of 5 runs finished, 3 failed; --retry_failed makes those again' in printed

  (folder / 'mended').touch()
  assert start(*argv) == 1
  assert len(_begun(folder)) == 5
  assert 'its process was ended by SIGKILL' in capsys.readouterr().out
  assert start(*argv, '--retry_failed') == 0
  assert len(_begun(folder)) == 8
  assert {(row['status'], row['error']) for row in _table(folder)} == {('finished', '')}


def test_jobs_share_the_cores_and_run_at_a_time(start, tmp_path):
  assert start(*_BASE, '--num_clients=1,2,3,4', '--jobs=2') == 0
  available = len(os.sched_getaffinity(0))
  fair = {max(1, available // 2), max(1, (available + 1) // 2)}
  assert {int(row['test_cores']) for row in _table(tmp_path / 'one')} <= fair
  assert sorted(map(len, sweep_children._shares(1))) == [available]
  assert len(sweep_children._shares(available + 1)) == available + 1
  assert all(sweep_children._shares(available + 1))


def test_a_folder_with_other_settings_is_refused_before_anything_runs(start, tmp_path):
  start(*_BASE, '--num_clients=10,20')
  with pytest.raises(
    output.OutputError, match='--total_rounds: 1 before, 2 now.*--sweep_name'
  ):
    start('--task=imdb', '--algo=rr_ldp', '--total_rounds=2', '--num_clients=5,10')
  assert len(_begun(tmp_path / 'one')) == 2


def test_two_sweeps_in_one_folder_are_refused(start, tmp_path):
  with (
    output.OutputFolder(tmp_path / 'one'),
    pytest.raises(output.OutputError, match='another process.*--sweep_name'),
  ):
    start(*_BASE)


def test_mistakes_are_refused(start):
  with pytest.raises(flags.UsageError, match='--task is missing'):
    start('--algo=rr_ldp')
  with pytest.raises(flags.UsageError, match='--algo is missing'):
    start('--task=imdb')
  with pytest.raises(SettingsError, match='--task=imbd.*did you mean imdb'):
    start('--task=imbd', '--algo=rr_ldp')
  with pytest.raises(SettingsError, match='--metric=auc: must be one of .*test_auc'):
    start(*_BASE, '--num_clients=10', '--metric=auc')
  with pytest.raises(flags.HelpRequested):
    start('--help')
  assert 'separated by semicolons' in ' '.join(sweep.help_page().split())


def test_without_a_swept_number_there_is_no_plot(start, tmp_path, capsys):
  start(*_BASE, '--num_clients=10', '--privacy_claim=true,false')
  assert not (tmp_path / 'one' / 'sweep.png').exists()
  assert 'sweep.png' not in capsys.readouterr().out


def test_a_baseline_without_the_swept_flag_has_no_guarantee_and_is_drawn_as_a_level(
  start, tmp_path
):
  argv = (
    '--task=imdb',
    '--algo=rr_ldp,fed_avg',
    '--total_rounds=1',
    '--num_clients=10',
  )
  assert start(*argv, '--epsilon_per_coordinate=1,10') == 0
  page = (tmp_path / 'one' / 'sweep_summary.md').read_text()
  (baseline,) = [line for line in page.splitlines() if line.startswith('| fed_avg')]
  assert 'no guarantee' in baseline
  assert (tmp_path / 'one' / 'sweep.png').exists()


def test_a_figure_that_some_runs_lack_has_no_mean():
  (run,) = _runs()
  rows = [
    sweep_table.Row(run, 'finished', results={'test_auc': 0.5, 'epsilon': 1.0}),
    sweep_table.Row(run, 'finished', results={'test_auc': 0.7, 'epsilon': None}),
    sweep_table.Row(run, 'unfinished'),
  ]
  (point,) = sweep_table.points(rows)
  assert point.spread('test_auc').mean == pytest.approx(0.6)
  assert point.spread('test_auc').n == 2
  assert point.spread('epsilon') is None


@pytest.fixture
def begin():
  """Returns what starts a sweep as a command, by default one of stand-ins."""
  begun = []

  def start_sweep(folder, *argv, command=('-c', _COMMAND)):
    where = (f'--sweep_dir={folder.parent}', f'--sweep_name={folder.name}')
    begun.append(
      subprocess.Popen(
        [sys.executable, *command, *argv, *where],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
      )
    )
    return begun[-1]

  yield start_sweep
  for process in begun:
    process.kill()
    process.wait()
    process.stdout.close()


def _wait_for(condition, seconds=180):
  """Waits until a condition holds, and returns what it says."""
  deadline = time.monotonic() + seconds
  while not (value := condition()):
    assert time.monotonic() < deadline
    time.sleep(0.01)
  return value


def _results(folder):
  return {
    file.parent.name: file.stat().st_mtime_ns for file in folder.glob('*/results.json')
  }


def test_a_sweep_that_is_killed_half_way_goes_on_and_repeats_no_finished_run(
  begin, tmp_path
):
  folder = tmp_path / 'killed'
  argv = (*_GRID, '--total_rounds=20', '--jobs=2')
  first = begin(folder, *argv)
  _wait_for(lambda: len(_results(folder)) >= 6)
  children = psutil.Process(first.pid).children(recursive=True)
  first.kill()
  first.communicate()
  assert len(children) == 2
  assert all(map(processes.ends, children))
  done = _results(folder)
  assert 6 <= len(done) < 12

  second = begin(folder, *argv)
  printed, _ = second.communicate(timeout=180)
  assert second.returncode == 0, printed
  assert f'{len(done)} finished before' in printed
  begun = _begun(folder)
  assert {name: begun.count(name) for name in done} == dict.fromkeys(done, 1)
  assert {name: _results(folder)[name] for name in done} == done
  rows = _table(folder)
  assert len(rows) == 12 and {row['status'] for row in rows} == {'finished'}


@pytest.mark.slow
def test_ctrl_c_stops_the_children_after_their_round_and_the_next_start_goes_on(
  begin, tmp_path
):
  folder = tmp_path / 'stopped'
  argv = ('--task=imdb', '--algo=rr_ldp', '--num_clients=10,20', '--seeds=2')
  argv = (*argv, '--total_rounds=150', '--jobs=2')
  first = begin(folder, *argv)
  # Runs that have just begun: those of the first pair may end at any moment.
  under_way = _wait_for(
    lambda: {name for name in _under_way(folder) if 'num_clients=20' in name}
  )
  children = psutil.Process(first.pid).children(recursive=True)
  first.send_signal(signal.SIGINT)
  printed, _ = first.communicate(timeout=180)
  assert first.returncode == 128 + signal.SIGINT
  assert not any(child.is_running() for child in children)
  assert 'unfinished: rr_ldp' in printed and 'repeat the command to go on' in printed
  assert 'Traceback' not in printed
  statuses = [row['status'] for row in _table(folder)]
  assert statuses.count('finished') == len(_results(folder)) < 4
  assert 'failed' not in statuses
  for name in under_way:
    assert 'stopping after this round' in (folder / name / 'run.log').read_text()

  done = _results(folder)
  second = begin(folder, *argv)
  second.communicate(timeout=180)
  assert second.returncode == 0
  assert {name: _results(folder)[name] for name in done} == done
  assert {row['status'] for row in _table(folder)} == {'finished'}


def _under_way(folder):
  """Returns the names of the runs that are training."""
  logs = folder.glob('*/run.log')
  training = {log.parent.name for log in logs if 'pretending' in log.read_text()}
  return training - _results(folder).keys()


# What training takes by itself: seconds a run.
_TINY = (
  '--hash_buckets=50',
  '--max_train_examples=200',
  '--total_rounds=20',
  '--rounds_per_eval=10',
  '--rounds_per_checkpoint=4',
)


@pytest.mark.slow
def test_a_real_sweep_killed_half_way_ends_as_if_nothing_had_been(begin, tmp_path):
  command = ('-m', 'tff_textpriv.tools.sweep')
  folder = tmp_path / 'real'
  first = begin(folder, *_GRID, *_TINY, command=command)
  _wait_for(lambda: len(_results(folder)) >= 6, seconds=900)
  halfway = _wait_for(lambda: _beyond_a_checkpoint(folder))
  children = psutil.Process(first.pid).children(recursive=True)
  assert any('worker_binary' in child.name() for child in children)
  first.kill()
  first.communicate()
  assert all(map(processes.ends, children))
  done = _results(folder)
  assert 6 <= len(done) < 12 and not halfway & done.keys()

  second = begin(folder, *_GRID, *_TINY, command=command)
  printed, _ = second.communicate(timeout=900)
  assert second.returncode == 0, printed
  assert {name: _results(folder)[name] for name in done} == done
  assert {row['status'] for row in _table(folder)} == {'finished'}
  assert len(_results(folder)) == 12
  runs = sweep_grid.make_runs(
    imdb.TASK, ['rr_ldp'], [*_GRID[2:4], *_TINY], 2, tmp_path / 'again'
  )
  for run in runs:
    if run.name in halfway:
      assert base.run(base.parse(imdb.TASK, run.argv)) == 0
      ours, theirs = (
        json.loads((where / run.name / 'results.json').read_text())
        for where in (folder, tmp_path / 'again')
      )
      assert ours == theirs
      log = (folder / run.name / 'run.log').read_text()
      assert 'resuming after round' in log


def _beyond_a_checkpoint(folder):
  """Returns the names of unfinished runs that have trained five rounds or more."""
  tables = folder.glob('*/metrics.csv')
  trained = {file.parent.name for file in tables if file.read_text().count('\n') > 5}
  return trained - _results(folder).keys()
