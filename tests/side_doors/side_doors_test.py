"""What a run leaves: no text, user or label outside of the places that may hold them."""

import gzip
import io
import os
import pathlib
import stat
import subprocess
import sys
import zipfile

import marked_runs
import pytest

_FOLDER = pathlib.Path(__file__).resolve().parent
_ROOT = _FOLDER.parents[1]
_USER, _WORD, _LABEL = marked_runs.MARKERS


def contents(data: bytes):
  """Yields a file's bytes, and those that are compressed in it."""
  yield data
  if data[:2] == b'\x1f\x8b':
    yield from contents(gzip.decompress(data))
  if data[:2] == b'PK':
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
      for name in archive.namelist():
        yield from contents(archive.read(name))


def markers_in(data: bytes) -> set[str]:
  """Returns the markers in a file, in any letter case, in UTF-8 or UTF-16."""
  found = set()
  for content in contents(data):
    small = content.lower()
    for marker in marked_runs.MARKERS:
      if marker.encode() in small or marker.encode('utf-16-le') in small:
        found.add(marker)
  return found


def _search(folder: pathlib.Path) -> dict[str, set[str]]:
  """Returns the markers in all files of a folder, and in their names."""
  found = {}
  for file in sorted(folder.rglob('*')):
    name = str(file.relative_to(folder))
    markers = markers_in(name.encode())
    if file.is_file() and not file.is_symlink():
      markers |= markers_in(file.read_bytes())
    if markers:
      found[name] = markers
  return found


def _run(folder: pathlib.Path, *names: str) -> str:
  """Makes marked runs; returns what they printed."""
  (folder / 'tmp').mkdir()
  result = subprocess.run(
    [sys.executable, str(_FOLDER / 'marked_runs.py'), str(folder), *names],
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    env={
      **os.environ,
      'PYTHONPATH': str(_ROOT),
      'TMPDIR': str(folder / 'tmp'),
    },
    check=False,
  )
  said = result.stdout.decode()
  assert result.returncode == 0, said[-3_000:]
  return said


def _mode(path: pathlib.Path) -> int:
  return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
  ('data', 'markers'),
  [
    (b'nothing here', set()),
    (b'a ' + _WORD.upper().encode() + b' b', {_WORD}),
    (f'x{_USER}'.encode('utf-16-le'), {_USER}),
    (gzip.compress(_LABEL.encode()), {_LABEL}),
  ],
)
def test_markers_are_found_in_every_disguise(data, markers):
  assert markers_in(data) == markers


def test_markers_are_found_in_archives_within_archives():
  inner, outer = io.BytesIO(), io.BytesIO()
  with zipfile.ZipFile(inner, 'w', zipfile.ZIP_DEFLATED) as archive:
    archive.writestr('x', f'{_WORD} {_USER}')
  with zipfile.ZipFile(outer, 'w', zipfile.ZIP_DEFLATED) as archive:
    archive.writestr('y', inner.getvalue())
  assert markers_in(outer.getvalue()) == {_WORD, _USER}
