"""What a run leaves: no text, user or label outside of the places that may hold them."""

import gzip
import io
import json
import os
import pathlib
import stat
import subprocess
import sys
import zipfile

import marked_runs
import pytest

from tff_textpriv import flags
from tff_textpriv.datasets import client_sqlite, clients, conversion, own_text, reddit

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


def _allowed(name: str) -> set[str]:
  """Returns the markers that a file may hold, by where it is; see docs/reliability.md."""
  parts = pathlib.PurePath(name).parts
  if name in ('posts.csv', 'cache') or parts[0] == 'cache':
    return set(marked_runs.MARKERS)
  if 'devices' in parts:
    return set(marked_runs.MARKERS)
  allowed = set()
  # The classes are what a classifier answers with.
  if parts[-1] in ('model.json', 'saved_model.pb', 'encoding.json', 'README.md'):
    allowed.add(_LABEL)
  # Methods without a guarantee make their vocabulary of users' words, and say so.
  if parts[1:2] in (('oracle',), ('fed_avg_words',)):
    allowed |= {_WORD, _LABEL}
  return allowed


def _check(folder: pathlib.Path, said: str) -> dict[str, set[str]]:
  """Checks what runs left and said; returns the files with markers."""
  found = _search(folder)
  wrong = {
    name: markers - _allowed(name)
    for name, markers in found.items()
    if markers - _allowed(name)
  }
  assert not wrong
  assert markers_in(said.encode()) <= {_LABEL}
  assert not list((folder / 'tmp').iterdir())
  for private in (folder / 'cache', *folder.glob('runs/*/devices')):
    for path in (private, *private.rglob('*')):
      assert _mode(path) == (0o700 if path.is_dir() else 0o600), path
  for log in folder.glob('runs/*/worker_*.log'):
    assert _mode(log) == 0o600
  return found


@pytest.mark.slow
def test_runs_leave_no_text_user_or_label_where_none_is_expected(tmp_path):
  said = _run(tmp_path, *marked_runs.RUNS)
  found = _check(tmp_path, said)
  # The search would have found them: they are where they may be.
  assert any(name.startswith('cache/custom_') for name in found)
  assert any(name.startswith('runs/fede_vocab/devices/') for name in found)
  assert 'runs/fed_avg_words/vocabulary.txt' in found
  assert 'runs/oracle/tokenizers/0.model' in found
  for name in ('oracle', 'fed_avg_words', 'fede_vocab'):
    card = json.loads((tmp_path / 'runs' / name / 'privacy_card.json').read_text())
    assert card['epsilon'] is None
    assert 'no formal guarantee' in card['headline'].lower()
  page = (tmp_path / 'runs/report.html').read_text()
  assert 'exact measurements of users’ data and not private' in page


def test_a_private_run_leaves_no_text_or_user_where_none_is_expected(tmp_path):
  found = _check(tmp_path, _run(tmp_path, 'rr_ldp classes'))
  assert any(name.startswith('cache/custom_') for name in found)
  card = (tmp_path / 'runs/rr_ldp_classes/privacy_card.md').read_text()
  # Under a local promise no client's figures are collected, and the card lists none;
  # those of evaluation users are exact.
  metrics = (tmp_path / 'runs/rr_ldp_classes/metrics.csv').read_text()
  assert 'train_loss' not in metrics and 'Training metrics' not in card
  assert 'Metrics on evaluation users are exact too' in card
  assert 'names of classes' in card


def _converted(path: pathlib.Path, **columns) -> str:
  chosen = {'user': 'author', 'text': 'body', **columns}
  source = conversion.Source(str(path), **chosen)
  return conversion.convert(source, str(path.parent / 'cache'))


def _mistakes(folder: pathlib.Path):
  """Yields mistakes in files full of markers, by what makes their message."""
  header = 'author,body,topic\n'
  row = f'{_USER},{_WORD} {_WORD},{_LABEL}\n'

  def table(content: str | bytes, **columns):
    def convert():
      (folder / 'a.csv').write_bytes(
        content if isinstance(content, bytes) else content.encode()
      )
      own_text.check_broken(_converted(folder / 'a.csv', **columns), 0.0)

    return convert

  yield 'columns', table(header + row + f'{_USER},{_WORD},{_LABEL},{_WORD}\n')
  yield 'quotes', table(header + row + f'{_USER},"{_WORD}" {_WORD},{_LABEL}\n')
  yield (
    'encoding',
    table((header + row).encode() + f'{_USER},{_WORD}\xff'.encode('latin-1')),
  )
  yield 'split', table(header + row, split='topic')
  yield 'no user', table(header + row + f',{_WORD},{_LABEL}\n')
  yield 'column', table(header + row, label='stars')

  def lines():
    content = {'author': _USER, 'body': [_WORD], 'topic': _LABEL}
    (folder / 'a.jsonl').write_text(json.dumps(content) + f'\n{{"author": {_USER}\n')
    own_text.check_broken(_converted(folder / 'a.jsonl'), 0.0)

  yield 'lines', lines

  def leaf(comments):
    def load():
      data = {f'{_USER}{i}': {'x': [_WORD]} for i in range(11)}
      broken = {f'{_USER}b{i}': {'x': comments} for i in range(11)}
      content = {'users': [*data, *broken], 'user_data': {**data, **broken}}
      (folder / 'a.json').write_text(json.dumps(content))
      reddit.load(str(folder / 'a.json'), 0)

    return load

  yield 'leaf', leaf([{_WORD: _WORD}])
  yield 'leaf, no list', leaf(_WORD)

  def example():
    with client_sqlite.create(str(folder / 'a.sqlite')) as writer:
      writer.add('train', _USER, _WORD)
      writer._connection.execute(
        'INSERT INTO examples VALUES (?, ?, ?)', ('train', _USER, _WORD)
      )
    client_sqlite.SqlClientText(str(folder / 'a.sqlite'), 'train', [_USER]).read(_USER)

  yield 'example', example

  def groups():
    one = clients.InMemoryClientText({_USER: [_WORD]})
    clients.FederatedText('data', one, one, one).check_disjoint()

  yield 'groups', groups


@pytest.mark.parametrize('mistake', [name for name, _ in _mistakes(pathlib.Path())])
def test_a_message_about_a_mistake_quotes_no_text_user_or_label(
  tmp_path, mistake, capsys
):
  with pytest.raises(ValueError) as caught:
    dict(_mistakes(tmp_path))[mistake]()
  assert flags.is_mistake(caught.value)
  said = capsys.readouterr()
  for message in (str(caught.value), said.out, said.err):
    assert not markers_in(message.encode()), message


def test_a_marker_in_a_message_would_be_found():
  with pytest.raises(KeyError) as caught:
    {}[_USER]
  assert markers_in(str(caught.value).encode()) == {_USER}
