"""Checks whether this machine can train, and says what to do where it cannot.

python -m tff_textpriv.tools.doctor --data_dir=/data
"""

import dataclasses
import importlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from tff_textpriv import flags
from tff_textpriv.runtime import isolation
from tff_textpriv.settings import Settings, setting

DATA_VARIABLE = 'TFF_TEXTPRIV_DATA'

_LOCK_FILE = Path(__file__).parents[2] / 'requirements.lock'
_MODULES = (
  'tensorflow',
  'tensorflow_federated',
  'tensorflow_text',
  'sentencepiece',
)
_PROBE = 'from tff_textpriv.tools import doctor; doctor.probe()'
_PROBE_SECONDS = 300
_DATA_SETS = (
  '20newsgroups',
  'ag_news',
  'glove',
  'imdb',
  'minilm',
  'ml-1m',
  'ptb',
  'reddit_subreddits',
  'shakespeare',
  'sst2',
  'stackexchange',
  'wikitext-2',
)
_REINSTALL = 'install requirements.lock again, with `pip install --no-deps -r`'


@dataclasses.dataclass(frozen=True)
class DoctorSettings(Settings):
  """What to check, and how to say it."""

  data_dir: str | None = setting(None, 'A folder with data sets to look at as well.')
  format: str = setting('text', 'How to print the result.', choices=['text', 'json'])


@dataclasses.dataclass(frozen=True)
class Check:
  """The result of one check.

  Attributes:
    name: What was looked at.
    status: `ok`, `warning` (works, but mind this) or `problem` (will not work).
    message: What was found and, unless all is well, what to do.
  """

  name: str
  status: str
  message: str


def main(settings: DoctorSettings) -> int:
  """Runs all checks and prints them as they come; returns 1 if there is a problem."""
  checks = []
  for check in run_checks(settings):
    checks.append(check)
    if settings.format == 'text':
      print(f'{check.status:8} {check.name:28} {check.message}', flush=True)
  healthy = all(check.status != 'problem' for check in checks)
  if settings.format == 'json':
    found = [dataclasses.asdict(check) for check in checks]
    print(json.dumps({'healthy': healthy, 'checks': found}, indent=2))
  return 0 if healthy else 1


def run_checks(settings: DoctorSettings) -> Iterator[Check]:
  """Yields the result of every check, the quick ones first."""
  yield check_python(sys.version_info[:3])
  yield check_packages(_LOCK_FILE)
  yield check_memory(psutil.virtual_memory().available)
  yield check_disk(shutil.disk_usage('.').free)
  yield from check_data(settings.data_dir, os.environ.get(DATA_VARIABLE))
  yield check_leftovers()
  yield check_isolation(isolation.obstacle())
  yield from check_engine()


def check_python(version: tuple[int, ...]) -> Check:
  """Checks the version of Python."""
  text = '.'.join(map(str, version))
  if version[:2] == (3, 11):
    return Check('Python', 'ok', text)
  return Check(
    'Python', 'problem', f'{text}, but TFF 0.87 needs 3.11: make the .venv with it'
  )


def check_packages(lock_file: Path) -> Check:
  """Compares the installed packages with the lock or, without one, with setup.py."""
  if lock_file.is_file():
    wanted = dict(
      line.split()[0].split('==')
      for line in lock_file.read_text().splitlines()
      if '==' in line and not line.startswith((' ', '#'))
    )
    wrong = [
      f'{name} {_installed(name) or "missing"} (wanted {version})'
      for name, version in wanted.items()
      if _installed(name) != version
    ]
    found = f'{len(wanted)} packages as in requirements.lock'
  else:
    wrong = _unmet_requirements()
    found = 'the requirements of tff_textpriv are met'
  if wrong:
    return Check('packages', 'problem', f'{", ".join(wrong)}: {_REINSTALL}')
  return Check('packages', 'ok', found)


def check_memory(available: int) -> Check:
  """Checks the memory that is free, in bytes."""
  text = f'{available / 2**30:.1f} GiB available'
  if available < 2 * 2**30:
    return Check('memory', 'problem', f'{text}, 2 needed: end other programs')
  if available < 4 * 2**30:
    return Check('memory', 'warning', f'{text}: use small models and --num_workers=1')
  return Check('memory', 'ok', text)


def check_disk(free: int) -> Check:
  """Checks the free disk space where outputs go by default, in bytes."""
  text = f'{free / 2**30:.1f} GiB free here'
  if free < 2**30:
    return Check(
      'disk', 'problem', f'{text}: make room or point --root_output_dir elsewhere'
    )
  return Check('disk', 'ok', text)


def check_data(data_dir: str | None, variable: str | None) -> Iterator[Check]:
  """Checks the folders named by `--data_dir` and by the environment."""
  sources = {'--data_dir': data_dir, DATA_VARIABLE: variable}
  if not any(sources.values()):
    yield Check('data', 'ok', 'no folder named; the embedded corpus needs none')
  for source, folder in sources.items():
    if folder:
      yield _check_folder(f'data ({source})', Path(folder))


def _check_folder(name: str, folder: Path) -> Check:
  if not folder.is_dir():
    return Check(name, 'problem', f'{folder} is not a folder: correct the path')
  if not os.access(folder, os.R_OK | os.X_OK):
    return Check(name, 'problem', f'{folder} cannot be read: change its permissions')
  present = [each for each in _DATA_SETS if (folder / each).exists()]
  present += sorted(path.name for path in folder.glob('*.sqlite'))
  if not present:
    return Check(
      name,
      'warning',
      f'{folder} has no data set known by name ({", ".join(_DATA_SETS)}, *.sqlite)',
    )
  return Check(name, 'ok', f'{folder}: {", ".join(present)}')


def check_leftovers() -> Check:
  """Looks for TFF workers that outlived the program that started them."""
  pids = [
    process.pid
    for process in psutil.process_iter(['name'])
    if process.info['name'] == 'worker_binary' and _is_orphan(process)
  ]
  if not pids:
    return Check('leftover workers', 'ok', 'none')
  listed = ' '.join(map(str, pids))
  return Check(
    'leftover workers',
    'warning',
    f'process {listed}: TFF workers whose program has ended; `kill {listed}` ends them',
  )


def _is_orphan(worker: psutil.Process) -> bool:
  """Tells whether a worker of this user lost the program that started it.

  A process whose parent ended is handed to another one. Those that start workers
  have TensorFlow loaded; our own workers lead a session and cannot be orphaned.
  """
  try:
    ours = os.getsid(worker.pid) == worker.pid
    if ours or worker.uids().real != os.getuid():
      return False
    parent = worker.parent()
    return parent is None or not _has_tensorflow(parent)
  except (psutil.NoSuchProcess, ProcessLookupError):  # It ended meanwhile.
    return False


def _has_tensorflow(process: psutil.Process) -> bool:
  try:
    libraries = process.memory_maps()
  except psutil.AccessDenied:  # Someone else's program, such as init.
    return False
  return any(Path(each.path).name.startswith('libtensorflow') for each in libraries)


def check_isolation(obstacle: str | None) -> Check:
  """Says whether strangers can be kept from workers, given what prevents it."""
  if obstacle is None:
    return Check('worker isolation', 'ok', 'only a run itself reaches its workers')
  return Check(
    'worker isolation',
    'warning',
    f'while a run lasts, whoever reaches this machine can read and write files as you:'
    f' {obstacle}',
  )


def check_engine() -> Iterator[Check]:
  """Imports the engine and runs a computation on a worker, in a child process.

  A child, because a broken binary package can take the whole process with it.
  """
  names = [f'import {name}' for name in _MODULES] + ['TFF worker']
  try:
    child = subprocess.run(
      [sys.executable, '-c', _PROBE],
      capture_output=True,
      text=True,
      timeout=_PROBE_SECONDS,
      env={**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, sys.path))},
    )
  except subprocess.TimeoutExpired:
    message = f'no answer within {_PROBE_SECONDS} s: is the machine overloaded?'
    yield Check('imports and TFF worker', 'problem', message)
    return
  answers = [json.loads(line) for line in child.stdout.splitlines() if line[:1] == '{']
  for name, answer in zip(names, answers, strict=False):
    if 'error' in answer:
      yield Check(name, 'problem', f'{answer["error"]}: {_REINSTALL}')
    else:
      yield Check(name, 'ok', f'{answer["seconds"]:.1f} s')
  for name in names[len(answers) :]:
    last_line = (child.stderr.strip().splitlines() or [''])[-1]
    yield Check(
      name,
      'problem',
      f'Python ended with code {child.returncode} ({last_line}): {_REINSTALL}',
    )


def probe() -> None:
  """Imports each module, runs a computation; prints a line of JSON for each."""
  answer: dict[str, float | str]
  for step in [*_MODULES, None]:
    start = time.monotonic()
    try:
      _compute_on_worker() if step is None else importlib.import_module(step)
      answer = {'seconds': time.monotonic() - start}
    except Exception as error:  # Whatever it is, it is the answer.
      answer = {'error': f'{type(error).__name__}: {error}'}
    print(json.dumps(answer), flush=True)


def _compute_on_worker() -> None:
  """Adds two clients' numbers on a worker."""
  import numpy as np
  import tensorflow_federated as tff

  from tff_textpriv.runtime.execution import execution

  @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
  def add(values):
    return tff.federated_sum(values)

  with tempfile.TemporaryDirectory() as folder, execution(log_dir=Path(folder)):
    total = add([1, 2])
  if total != 3:
    raise ArithmeticError(f'the worker says that 1 + 2 = {total}')


def _installed(name: str) -> str | None:
  """Returns the installed version of a package, None if there is none."""
  try:
    return importlib.metadata.version(name)
  except importlib.metadata.PackageNotFoundError:
    return None


def _unmet_requirements() -> list[str]:
  """Lists what this package requires and is not installed as required."""
  from packaging.requirements import Requirement

  unmet = []
  for text in importlib.metadata.requires('tff_textpriv') or ():
    requirement = Requirement(text)
    if requirement.marker is not None and not requirement.marker.evaluate(
      {'extra': ''}
    ):
      continue
    version = _installed(requirement.name)
    if version is None or version not in requirement.specifier:
      unmet.append(f'{requirement.name} {version or "missing"} (wanted {requirement})')
  return unmet


if __name__ == '__main__':
  flags.run(main, DoctorSettings, __doc__.splitlines()[0])
