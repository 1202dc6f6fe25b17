"""Tests of the check of the machine."""

import importlib.metadata
import json
import mmap
import re
import shutil
import subprocess
import sys

import psutil
import pytest

from tff_textpriv.tools import doctor

_GIB = 2**30


@pytest.mark.parametrize(
  ('version', 'status'),
  [((3, 11, 7), 'ok'), ((3, 10, 1), 'problem'), ((3, 12, 0), 'problem')],
)
def test_only_python_3_11_will_do(version, status):
  assert doctor.check_python(version).status == status


def test_packages_are_compared_with_the_lock(tmp_path):
  lock_file = tmp_path / 'requirements.lock'
  version = importlib.metadata.version('numpy')
  lock_file.write_text(f'# a comment\nnumpy=={version} \\\n    --hash=sha256:0==\n')
  assert doctor.check_packages(lock_file) == doctor.Check(
    'packages', 'ok', '1 packages as in requirements.lock'
  )
  lock_file.write_text('numpy==0.0.1\nno-such-package==1.0\n')
  check = doctor.check_packages(lock_file)
  assert check.status == 'problem'
  assert f'numpy {version} (wanted 0.0.1)' in check.message
  assert 'no-such-package missing (wanted 1.0)' in check.message


def test_packages_are_compared_with_the_requirements_without_a_lock(
  tmp_path, monkeypatch
):
  required = ['numpy>=1', 'no-such-package==1', 'other; extra == "dev"']
  monkeypatch.setattr(importlib.metadata, 'requires', lambda _: required)
  check = doctor.check_packages(tmp_path / 'requirements.lock')
  assert check.status == 'problem'
  assert 'no-such-package missing' in check.message
  assert 'numpy' not in check.message and 'other' not in check.message


@pytest.mark.parametrize(
  ('available', 'status'), [(1, 'problem'), (3, 'warning'), (8, 'ok')]
)
def test_little_memory_is_noticed(available, status):
  assert doctor.check_memory(available * _GIB).status == status


def test_a_full_disk_is_noticed():
  assert doctor.check_disk(_GIB // 2).status == 'problem'
  assert doctor.check_disk(5 * _GIB).status == 'ok'


def test_data_folders_are_looked_into(tmp_path):
  (tmp_path / 'known' / 'ptb').mkdir(parents=True)
  (tmp_path / 'known' / 'mine.sqlite').touch()
  (tmp_path / 'empty').mkdir()

  def check(data_dir: str | None, variable: str | None) -> list[tuple[str, str]]:
    folders = [folder and str(tmp_path / folder) for folder in (data_dir, variable)]
    found = list(doctor.check_data(*folders))
    return [(each.status, each.message) for each in found]

  assert [status for status, _ in check(None, None)] == ['ok']
  ((status, message),) = check('known', None)
  assert status == 'ok' and message.endswith('known: ptb, mine.sqlite')
  assert [status for status, _ in check('missing', 'empty')] == ['problem', 'warning']


def test_a_worker_whose_parent_is_gone_is_named_but_not_killed(tmp_path):
  # A copy of `sleep` under the worker's name, started by a shell that ends at once.
  program = tmp_path / 'worker_binary'
  shutil.copy('/bin/sleep', program)
  shell = subprocess.run(
    ['sh', '-c', f'{program} 30 >/dev/null 2>&1 & echo $!'],
    capture_output=True,
    text=True,
    check=True,
  )
  orphan = psutil.Process(int(shell.stdout))
  in_session = subprocess.Popen([program, '30'], start_new_session=True)
  child = subprocess.Popen([program, '30'])
  library = tmp_path / 'libtensorflow_cc.so.2'
  library.write_bytes(b'loaded by the parent of `child`')
  try:
    with library.open('rb') as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
      check = doctor.check_leftovers()
    assert check.status == 'warning'
    pids = set(re.findall(r'\d+', check.message))
    assert str(orphan.pid) in pids
    assert not {str(in_session.pid), str(child.pid)} & pids
    assert orphan.is_running()
  finally:
    orphan.kill()
    for process in (in_session, child):
      process.kill()
      process.wait()


def test_a_machine_whose_workers_cannot_be_isolated_is_warned_of():
  assert doctor.check_isolation(None).status == 'ok'
  check = doctor.check_isolation('the kernel says no; as root, run `sysctl`')
  assert check.status == 'warning'
  assert check.message.endswith(
    'files as you: the kernel says no; as root, run `sysctl`'
  )


def test_the_engine_is_tried_out():
  checks = list(doctor.check_engine())
  assert [check.name for check in checks][-1] == 'TFF worker'
  assert [check.status for check in checks] == ['ok'] * 5, checks


def test_a_crash_of_the_engine_is_a_problem(monkeypatch):
  crash = 'print(\'{"seconds": 1}\', flush=True); import os; os.abort()'
  monkeypatch.setattr(doctor, '_PROBE', crash)
  statuses = [check.status for check in doctor.check_engine()]
  assert statuses == ['ok'] + ['problem'] * 4


def test_a_module_that_cannot_be_imported_is_a_problem(monkeypatch, capsys):
  monkeypatch.setattr(doctor, '_MODULES', ('no_such_module',))
  monkeypatch.setattr(doctor, '_compute_on_worker', lambda: None)
  doctor.probe()
  first, second = map(json.loads, capsys.readouterr().out.splitlines())
  assert first['error'].startswith('ModuleNotFoundError')
  assert second['seconds'] >= 0


@pytest.mark.parametrize(('status', 'code'), [('warning', 0), ('problem', 1)])
def test_a_problem_and_only_a_problem_fails(monkeypatch, capsys, status, code):
  checks = [doctor.Check('a', 'ok', 'fine'), doctor.Check('b', status, 'do this')]
  monkeypatch.setattr(doctor, 'run_checks', lambda _: iter(checks))
  assert doctor.main(doctor.DoctorSettings()) == code
  assert 'do this' in capsys.readouterr().out
  assert doctor.main(doctor.DoctorSettings(format='json')) == code
  found = json.loads(capsys.readouterr().out)
  assert found['healthy'] == (code == 0)
  assert found['checks'][1] == {'name': 'b', 'status': status, 'message': 'do this'}


def test_the_doctor_itself_does_not_import_tensorflow():
  code = 'import sys, tff_textpriv.tools.doctor; assert "tensorflow" not in sys.modules'
  subprocess.run([sys.executable, '-c', code], check=True)
