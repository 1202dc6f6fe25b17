"""Formats that tell users apart by themselves."""

import json

import pytest

from tff_textpriv.datasets import client_sqlite, leaf, user_records
from tff_textpriv.datasets.clients import DataError


def _read(kind, path, *wanted):
  """Reads a file; returns the wanted values of its rows, and its broken rows."""
  broken = []
  found = list(kind.records(str(path), wanted, lambda error: broken.append(str(error))))
  return [tuple(record.values[name] for name in wanted) for record in found], broken


def _write_leaf(path, **user_data):
  content = {'users': list(user_data), 'num_samples': [], 'user_data': user_data}
  path.write_text(json.dumps(content, indent=1))


@pytest.mark.parametrize('chunk', [1, 7, 100, 1_000_000])
def test_leaf_is_read_a_piece_at_a_time(tmp_path, monkeypatch, chunk):
  monkeypatch.setattr(leaf, '_CHUNK', chunk)
  path = tmp_path / 'a.json'
  _write_leaf(
    path,
    ann={'x': ['one "two" é', [['three', '<PAD>'], ['four']]], 'y': [1, 0]},
    bob={'x': ['five'], 'y': [12345]},
  )
  found = _read(user_records.FILES['.json'], path, 'x', 'user', 'y')
  assert found == (
    [('one "two" é', 'ann', 1), ('three four', 'ann', 0), ('five', 'bob', 12345)],
    [],
  )


def test_no_more_of_a_leaf_file_is_in_memory_than_a_user_needs(tmp_path, monkeypatch):
  monkeypatch.setattr(leaf, '_CHUNK', 100)
  path = tmp_path / 'a.json'
  _write_leaf(path, **{f'user{n}': {'x': ['a word ' * 10]} for n in range(500)})
  longest = 0
  with open(path, 'rb') as file:
    shard = leaf._Shard(str(path), file)
    for number, user in enumerate(shard.users()):
      assert user.name == f'user{number}'
      # What was read with the list of users, which is before them, is let go first.
      longest = max(longest, len(shard._text)) if number > 250 else 0
  assert longest < 1000 < path.stat().st_size


def test_users_of_leaf_who_are_broken_are_told_with_their_line(tmp_path):
  path = tmp_path / 'a.json'
  _write_leaf(path, ann={'x': ['one']}, bob={'y': []}, cid={'x': ['two'], 'y': [1, 2]})
  kind = user_records.FILES['.json']
  found, broken = _read(kind, path, 'user', 'x')
  assert found == [('ann', 'one'), ('cid', 'two')]
  line = path.read_text().splitlines().index('  "bob": {') + 1
  # The line tells who it is; the message does not repeat the name.
  assert len(broken) == 1 and f'a.json:{line}: a user: there is no list' in broken[0]
  assert 'bob' not in broken[0]
  found, broken = _read(kind, path, 'user', 'y')
  assert not found
  assert all('no list "y" with a label for each comment' in b for b in broken[::2])


@pytest.mark.parametrize('chunk', [1, 1_000_000])
@pytest.mark.parametrize(
  ('content', 'problem'),
  [
    (b'[1, 2]', ":1: damaged, truncated or no JSON \\(no '{' here"),
    (b'{"users": ["a"],\n "user_data": {"a": {"x": ["cut', ':2: damaged, truncated'),
    (b'{"users": [],\n\n "user_data": {} } more', ':3: damaged.*more after the end'),
    (b'{"users": ["a"], "user_data": {}}', 'do not list the same users'),
    (b'{"users":\n ["caf\xe9"]}', ':2: not UTF-8 .*iconv'),
  ],
)
def test_a_damaged_leaf_file_is_named(tmp_path, monkeypatch, chunk, content, problem):
  monkeypatch.setattr(leaf, '_CHUNK', chunk)
  path = tmp_path / 'a.json'
  path.write_bytes(content)
  with pytest.raises(
    DataError, match=f'a.json{problem}' if problem[0] == ':' else problem
  ):
    _read(user_records.FILES['.json'], path, 'user', 'x')


def test_columns_of_a_sqlite_file_are_its_features(tmp_path):
  path = tmp_path / 'a.sqlite'
  with client_sqlite.create(str(path)) as writer:
    writer.add('train', 'ann', 'one', 'yes')
    writer.add('test', 'bob', 'two', 'no')
  kind = user_records.FILES['.sqlite']
  names = kind.columns(str(path))
  assert names[:2] == ['client_id', 'split_name']
  assert {'tokens', 'label', 'score'} <= set(names)
  found = _read(kind, path, 'client_id', 'split_name', 'tokens', 'label', 'score')
  assert found == (
    [('ann', 'train', 'one', 'yes', 0), ('bob', 'test', 'two', 'no', 0)],
    [],
  )


def test_examples_of_a_sqlite_file_that_cannot_be_parsed_are_broken_rows(tmp_path):
  path = tmp_path / 'a.sqlite'
  with client_sqlite.create(str(path)) as writer:
    writer.add('train', 'ann', 'one')
    writer._connection.execute("INSERT INTO examples VALUES ('train', 'ann', x'ff')")
  found, broken = _read(user_records.FILES['.sqlite'], path, 'tokens')
  assert found == [('one',)]
  assert 'a.sqlite:2: not a serialized tf.train.Example' in broken[0]


def test_a_folder_of_texts_has_files_or_lines(tmp_path):
  (tmp_path / 'ann').mkdir()
  (tmp_path / 'ann' / '1.txt').write_text('one\ntwo')
  (tmp_path / 'ann' / '2.txt').write_text('three')
  (tmp_path / 'ann' / 'notes.md').write_text('not read')
  (tmp_path / 'bob.txt').write_text('four\nfive\n')
  found = _read(user_records.FOLDER, tmp_path, 'user', 'text')
  assert found == (
    [('ann', 'one\ntwo'), ('ann', 'three'), ('bob', 'four\n'), ('bob', 'five\n')],
    [],
  )


@pytest.mark.parametrize('name', ['ann/1.txt', 'ann.txt'])
def test_another_encoding_of_a_text_is_named_with_its_file_and_line(tmp_path, name):
  (tmp_path / 'ann').mkdir()
  (tmp_path / name).write_bytes(b'fine\nna\xefve\n')
  with pytest.raises(DataError, match=f'{name}:2: not UTF-8 .* byte 3 .*iconv'):
    _read(user_records.FOLDER, tmp_path, 'user', 'text')
