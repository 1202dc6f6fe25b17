"""Damaged files: every reader says in a sentence what is wrong, and does nothing else."""

import dataclasses
import json
import math
import os
import pathlib
import select
import signal
import subprocess
import sys
import time

import fuzz_readers
import fuzz_twins
import pytest

_FOLDER = pathlib.Path(__file__).resolve().parent
# So long without a word, and the process hangs where no signal of its own wakes it.
_PATIENCE = 240


@dataclasses.dataclass(frozen=True)
class Fault:
  """A case that a reader did not take as it should, and why."""

  case: str
  problem: str


def run_cases(cases, folder, table='fuzz_readers:READERS', patience=_PATIENCE):
  """Runs cases in child processes, a new one after each that dies."""
  faults, done = [], 0
  while done < len(cases):
    number_run, new = _run_child(cases[done:], folder, table, patience)
    done += number_run
    faults += new
  return faults


def _run_child(cases, folder, table, patience):
  """Runs cases until all are done or the child dies; returns how many were, and faults."""
  given = folder / 'cases'
  given.write_text('\n'.join(cases))
  environment = {
    **os.environ,
    'PYTHONPATH': os.pathsep.join([str(_FOLDER.parents[1]), str(_FOLDER)]),
    'TF_CPP_MIN_LOG_LEVEL': '3',
    'CUDA_VISIBLE_DEVICES': '',
  }
  with (
    open(given, 'rb') as stdin,
    open(folder / 'errors', 'wb') as stderr,
    subprocess.Popen(
      [
        sys.executable,
        '-X',
        'faulthandler',
        str(_FOLDER / 'fuzz_child.py'),
        str(folder),
        table,
      ],
      stdin=stdin,
      stdout=subprocess.PIPE,
      stderr=stderr,
      env=environment,
      start_new_session=True,
    ) as child,
  ):
    current, begun, faults = None, 0, []
    for line in _lines(child, patience):
      content = json.loads(line)
      if 'fault' in content:
        faults.append(Fault(current, content['fault']))
        continue
      current = content['case']
      if current is None:
        return len(cases), faults
      begun += not current.endswith(':0')
    try:
      code = child.wait(timeout=5)
    except subprocess.TimeoutExpired:
      child.kill()
      code = child.wait()
  how = signal.Signals(-code).name if code < 0 else f'exit code {code}'
  said = (folder / 'errors').read_text(errors='replace')[-2_000:]
  if current is None or current.endswith(':0'):
    raise AssertionError(f'the child died of a good file: {current}, {how}\n{said}')
  return begun, [*faults, Fault(current, f'the process died or hung: {how}\n{said}')]


def _lines(child, patience):
  """Yields the lines of a child, until it ends or says nothing for too long."""
  pending = b''
  while True:
    ready, _, _ = select.select([child.stdout], [], [], patience)
    data = os.read(child.stdout.fileno(), 65536) if ready else b''
    if not data:
      return
    *lines, pending = (pending + data).split(b'\n')
    yield from lines


def _cases(number, readers=fuzz_readers.READERS):
  """Deals so many cases, or a few more, to the readers."""
  shares = sum(reader.share for reader in readers)
  return [
    f'{reader.name}:{case}'
    for reader in readers
    for case in range(1, 1 + math.ceil(number * reader.share / shares))
  ]


def _shown(faults):
  return '\n\n'.join(f'{fault.case}\n{fault.problem}' for fault in faults)


def test_damaged_files_are_refused_with_a_sentence(tmp_path):
  quick = [reader for reader in fuzz_readers.READERS if not reader.is_slow]
  faults = run_cases(_cases(300, quick), tmp_path)
  assert not faults, _shown(faults)


@pytest.mark.slow
def test_ten_thousand_damaged_files_are_refused_with_a_sentence(tmp_path):
  cases = _cases(10_000)
  assert len(cases) >= 10_000
  start = time.monotonic()
  faults = run_cases(cases, tmp_path)
  print(f'{len(cases)} cases in {time.monotonic() - start:.0f} s')
  assert not faults, _shown(faults)


def test_readers_that_are_wrong_on_purpose_are_caught(tmp_path):
  names = [reader.name for reader in fuzz_twins.TWINS]
  cases = [f'{name}:1' for name in names]
  faults = run_cases(cases, tmp_path, 'fuzz_twins:TWINS', patience=8)
  problems = {fault.case: fault.problem for fault in faults}
  expected = {
    'traceback': "KeyError: 'x'",
    'nameless': 'no file is named',
    'foreign error': 'ValueError',
    'outside': '/etc/passwd',
    'writes': 'os.mkdir',
    'program': 'subprocess.Popen',
    'memory': 'MemoryError',
    'crash': 'SIGSEGV',
    'deaf': 'SIGKILL',
  }
  assert set(problems) == {f'{name}:1' for name in expected}
  for name, sign in expected.items():
    assert sign in problems[f'{name}:1'], name
