"""Runs cases in a process of its own, which a case may end, and reports faults.

python tests/fuzz/fuzz_child.py FOLDER MODULE:TABLE READER:NUMBER...

Before each case its name is written to standard output, and after it a fault if there
was one, as JSON lines. Whoever reads them knows in which case the process died.
"""

import contextlib
import importlib
import io
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import fuzz_mutations

# A case is over in milliseconds; a reader's first one, of a good file, imports libraries.
_SECONDS, _FIRST_SECONDS = 10, 200
_MORE_MEMORY = 2_000_000_000
_EXECUTES = ('subprocess.Popen', 'os.system', 'os.exec', 'os.posix_spawn', 'pickle.')
_WRITES = ('os.remove', 'os.rename', 'os.mkdir', 'os.rmdir', 'shutil.', 'os.symlink')


class TooLong(BaseException):
  """A case takes longer than any should; no `except Exception` swallows it."""


class Watch:
  """Notes what a reader does that it should not: files elsewhere, other programs."""

  def __init__(self, folder: pathlib.Path):
    """Starts to listen to Python's audit events; this cannot be undone."""
    own = pathlib.Path(__file__).resolve().parents[2]
    places = [folder, own, sys.prefix, sys.base_prefix, '/proc', '/sys', '/dev']
    places += [sysconfig.get_path('stdlib')]
    self._readable = tuple(os.path.realpath(place) for place in places)
    self._writable = (os.path.realpath(folder), '/dev/null')
    self.is_on = False
    self.seen: list[str] = []
    sys.addaudithook(self._notice)

  def _notice(self, event: str, arguments: tuple[Any, ...]) -> None:
    if not self.is_on:
      return
    if event.startswith(_EXECUTES):
      self.seen.append(f'{event} {arguments[0]!r}')
    if event == 'open' and isinstance(arguments[0], str | bytes | os.PathLike):
      flags = arguments[2]
      writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
      self._check(event, arguments[0], self._writable if writes else self._readable)
    # What is named within an open folder (`rmtree`) was checked when that was opened.
    is_within = event in ('os.remove', 'os.rmdir') and arguments[1] != -1
    is_path = isinstance(arguments[0] if arguments else None, str | os.PathLike)
    if event.startswith(_WRITES) and is_path and not is_within:
      self._check(event, arguments[0], self._writable)

  def _check(self, event: str, path: Any, places: Sequence[str]) -> None:
    real = os.path.realpath(os.fsdecode(path))
    if not any(real == place or real.startswith(place + os.sep) for place in places):
      self.seen.append(f'{event} {real!r}')


@contextlib.contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
  def stop(*_: Any) -> None:
    raise TooLong(f'more than {seconds} seconds')

  signal.signal(signal.SIGALRM, stop)
  signal.setitimer(signal.ITIMER_REAL, seconds)
  try:
    yield
  finally:
    signal.setitimer(signal.ITIMER_REAL, 0)


def write_case(reader: Any, number: int, folder: pathlib.Path) -> list[str]:
  """Writes the files of a case, one of them damaged, which is returned; 0 is whole."""
  rng = random.Random(f'{reader.name}:{number}')
  files = {
    name: content.encode() if isinstance(content, str) else content
    for name, content in reader.good.items()
  }
  named = [name for name in files if name.endswith(tuple(reader.damaged))]
  damaged = [rng.choice(named)] if number else []
  for name in damaged:
    files[name] = fuzz_mutations.mutate(files[name], rng)
  for name, content in files.items():
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
  return damaged


def fault(reader: Any, number: int, folder: pathlib.Path, watch: Watch) -> str | None:
  """Reads a case; returns what is wrong with how the reader took it."""
  from tff_textpriv import flags

  damaged = write_case(reader, number, folder)
  problem = None
  watch.seen.clear()
  watch.is_on = True
  try:
    seconds = _SECONDS if number else _FIRST_SECONDS
    with _time_limit(seconds), contextlib.redirect_stdout(io.StringIO()):
      reader.read(folder)
  except (Exception, TooLong) as error:
    watch.is_on = False
    names = [str(folder), *(pathlib.Path(name).name for name in damaged), *reader.named]
    if not flags.is_mistake(error):
      problem = ''.join(traceback.format_exception(error)[-6:])
    elif not number:
      problem = f'a good file is refused: {error}'
    elif not any(name in str(error) for name in names):
      problem = f'no file is named in: {type(error).__name__}: {error}'
  finally:
    watch.is_on = False
  if number and watch.seen:  # Imports, before the first case, may do what they like.
    problem = f'{problem or "read, but"}: {watch.seen[:3]}'
  return problem and problem[-3_000:]


def main(root: str, table: str, cases: Sequence[str]) -> None:
  """Runs cases and reports."""
  report = os.fdopen(os.dup(sys.stdout.fileno()), 'w', buffering=1)
  quiet = os.open(os.devnull, os.O_WRONLY)
  os.dup2(quiet, sys.stdout.fileno())
  module, name = table.split(':')
  readers = {
    reader.name: reader for reader in getattr(importlib.import_module(module), name)
  }
  watch = Watch(pathlib.Path(root))
  warm: set[str] = set()
  for case in cases:
    name, number = case.rsplit(':', 1)
    reader = readers[name]
    folder = pathlib.Path(root) / 'case'
    for each in ('0', number) if name not in warm else (number,):
      report.write(json.dumps({'case': f'{name}:{each}'}) + '\n')
      shutil.rmtree(folder, ignore_errors=True)
      folder.mkdir(parents=True)
      problem = fault(reader, int(each), folder, watch)
      if problem:
        report.write(json.dumps({'fault': problem}) + '\n')
      if name not in warm:
        warm.add(name)
        _limit_memory()
  report.write(json.dumps({'case': None}) + '\n')


def _limit_memory() -> None:
  """Lets a case have so much more memory than is in use after the imports."""
  pages = int(pathlib.Path('/proc/self/statm').read_text().split()[0])
  most = pages * os.sysconf('SC_PAGE_SIZE') + _MORE_MEMORY
  resource.setrlimit(
    resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1])
  )


if __name__ == '__main__':
  main(sys.argv[1], sys.argv[2], sys.stdin.read().splitlines())
