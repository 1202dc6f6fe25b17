"""All formats become the same file of users' texts, and mistakes become sentences."""

import csv
import json
import os
import subprocess
import sys

import pytest

from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import client_sqlite, conversion
from tff_textpriv.datasets.clients import DataError

_ROWS = [
  ('ann', 'one  two', 'good'),
  ('bob', 'three', 'bad'),
  ('ann', 'four\u00a0é', 'bad'),
  ('o;neil, "x"', 'five; six, "seven"', 'good'),
]
_EXPECTED = [
  ('ann', 'one two', 'good'),
  ('bob', 'three', 'bad'),
  ('ann', 'four é', 'bad'),
  ('o;neil, "x"', 'five; six, "seven"', 'good'),
]


def _write_csv(path, rows=_ROWS, columns=('author', 'body', 'stars')):
  with open(path, 'w', newline='') as file:
    csv.writer(file).writerows([columns, *rows])


def _write_tsv(path):
  lines = [('author', 'body', 'stars'), *_ROWS]
  path.write_text(''.join('\t'.join(line) + '\n' for line in lines))


def _write_jsonl(path):
  with open(path, 'w') as file:
    for author, body, stars in _ROWS:
      print(json.dumps({'author': author, 'body': body, 'stars': stars}), file=file)


def _write_parquet(path):
  import pyarrow
  from pyarrow import parquet

  columns = zip(*_ROWS, strict=True)
  names = ('author', 'body', 'stars')
  parquet.write_table(pyarrow.table(dict(zip(names, columns, strict=True))), path)


def _write_leaf(path):
  users = {}
  for user, text, label in _ROWS:
    data = users.setdefault(user, {'x': [], 'y': []})
    data['x'].append(text)
    data['y'].append(label)
  path.write_text(json.dumps({'users': list(users), 'user_data': users}))


def _write_sqlite(path):
  with client_sqlite.create(str(path)) as writer:
    for user, text, label in _ROWS:
      writer.add('train', user, text, label)


def _write_shards(path):
  path.mkdir()
  _write_csv(path / '1.csv', _ROWS[:1])
  _write_csv(path / '2.csv', _ROWS[1:])


_COLUMNS = {'user': 'author', 'text': 'body', 'label': 'stars'}
_FORMATS = {
  'a.csv': (_write_csv, _COLUMNS),
  'a.TSV': (_write_tsv, _COLUMNS),
  'a.jsonl': (_write_jsonl, _COLUMNS),
  'a.parquet': (_write_parquet, _COLUMNS),
  'a.json': (_write_leaf, {'label': 'y'}),
  'a.sqlite': (_write_sqlite, {'label': 'label'}),
  'shards': (_write_shards, _COLUMNS),
}


def _convert(path, cache_dir, **columns):
  return conversion.convert(conversion.Source(str(path), **columns), str(cache_dir))


def _content(path):
  return [
    (example.client_id, values['tokens'], values.get('label'))
    for example in client_sqlite.scan(path)
    for values in [client_sqlite.features(example.proto)]
  ]


@pytest.mark.parametrize('name', _FORMATS)
def test_every_format_becomes_the_same_texts_users_and_labels(tmp_path, name):
  write, columns = _FORMATS[name]
  write(tmp_path / name)
  path = _convert(tmp_path / name, tmp_path / 'cache', **columns)
  assert sorted(_content(path)) == sorted(_EXPECTED)
  facts = client_sqlite.facts(path)
  assert facts == {'rows': 4, 'broken': 0, 'empty': 0, 'words': 8, 'first_broken': []}
  counts = client_sqlite.example_counts(path)
  assert counts == {'all': {'ann': 2, 'bob': 1, 'o;neil, "x"': 1}}


def test_a_folder_of_text_files_becomes_texts_by_user(tmp_path):
  (tmp_path / 'texts' / 'ann').mkdir(parents=True)
  (tmp_path / 'texts' / 'ann' / 'a.txt').write_text('one\ntwo\n')
  (tmp_path / 'texts' / 'bob.txt').write_text('three\n\nfour\n')
  path = _convert(tmp_path / 'texts', tmp_path / 'cache')
  assert _content(path) == [
    ('ann', 'one two', None),
    ('bob', 'three', None),
    ('bob', 'four', None),
  ]
  assert client_sqlite.facts(path)['empty'] == 1


def test_labels_are_not_kept_unless_asked_for(tmp_path):
  _write_csv(tmp_path / 'a.csv')
  path = _convert(tmp_path / 'a.csv', tmp_path, user='author', text='body')
  assert {label for _, _, label in _content(path)} == {None}


def test_numbers_are_names_too(tmp_path):
  path = tmp_path / 'a.jsonl'
  path.write_text(
    '{"u": 7, "t": "a", "y": 5.0}\n{"u": "7", "t": "b", "y": 0.5}\n'
    '{"u": 7.0, "t": "c", "y": true}\n'
  )
  path = _convert(path, tmp_path, user='u', text='t', label='y')
  assert _content(path) == [('7', 'a', '5'), ('7', 'b', '0.5'), ('7', 'c', 'True')]


def test_a_file_is_converted_once_and_anew_when_it_or_a_column_changes(tmp_path):
  file = tmp_path / 'a.csv'
  _write_csv(file)
  columns = {'user': 'author', 'text': 'body'}
  path = _convert(file, tmp_path / 'cache', **columns)
  before = os.stat(path).st_mtime_ns
  assert _convert(file, tmp_path / 'cache', **columns) == path
  assert os.stat(path).st_mtime_ns == before
  assert _convert(file, tmp_path / 'cache', **{**columns, 'label': 'stars'}) != path
  os.utime(file, ns=(0, 1))
  assert _convert(file, tmp_path / 'cache', **columns) != path


def test_what_is_kept_of_users_text_is_its_owner_s_alone(tmp_path):
  _write_csv(tmp_path / 'a.csv')
  path = _convert(tmp_path / 'a.csv', tmp_path / 'cache', user='author', text='body')
  assert os.stat(path).st_mode & 0o777 == 0o600
  assert os.listdir(tmp_path / 'cache') == [os.path.basename(path)]


def test_splits_are_known_by_their_usual_names(tmp_path):
  names = ['Train', 'valid', 'dev', 'TEST', 'later']
  rows = [(f'user{n}', 'a', name) for n, name in enumerate(names)]
  _write_csv(tmp_path / 'a.csv', rows)
  path = _convert(
    tmp_path / 'a.csv', tmp_path, user='author', text='body', split='stars'
  )
  assert client_sqlite.example_counts(path) == {
    'test': {'user3': 1},
    'train': {'user0': 1},
    'validation': {'user1': 1, 'user2': 1},
  }
  (broken,) = client_sqlite.facts(path)['first_broken']
  assert "a.csv:6: 'stars' is none of train, training, valid" in broken


def test_broken_and_empty_rows_are_counted_and_the_first_broken_ones_shown(tmp_path):
  file = tmp_path / 'a.jsonl'
  file.write_text(
    '{"u": "ann", "t": "fine", "y": 1}\n'
    '{"u": " ", "t": "a", "y": 1}\n'
    '{"t": "a", "y": 1}\n'
    '{"u": ["bob"], "t": "a", "y": 1}\n'
    '{"u": "bob", "t": 5, "y": 1}\n'
    '{"u": "bob", "y": 1}\n'
    '{"u": "bob", "t": "a", "y": null}\n'
    '{"u": "bob", "t": "a", "y": NaN}\n'
    '{"u": "bob", "t": " \\n ", "y": 1}\n'
    '{"u": "bob", "t": null, "y": 1}\n'
  )
  path = _convert(file, tmp_path, user='u', text='t', label='y')
  facts = client_sqlite.facts(path)
  assert (facts['rows'], facts['broken'], facts['empty']) == (10, 7, 2)
  assert [row.replace(str(file), '') for row in facts['first_broken']] == [
    ":2: 'u' is missing or empty",
    ":3: 'u' is missing or empty",
    ":4: 'u' is neither a string nor a number",
    ":5: 't' is int, and no string",
    ":6: 't' is missing",
  ]
  assert _content(path) == [('ann', 'fine', '1')]


def test_lone_surrogates_of_json_do_no_harm(tmp_path):
  file = tmp_path / 'a.jsonl'
  file.write_text('{"u": "ann\\ud800", "t": "b\\udfffc"}\n')
  assert _content(_convert(file, tmp_path, user='u', text='t')) == [
    ('ann', 'b c', None)
  ]


def test_a_file_in_which_nothing_can_be_used_is_given_up_early(tmp_path):
  file = tmp_path / 'a.csv'
  _write_csv(file, [('', 'text', '1')] * 1000)
  with pytest.raises(DataError, match='none of the first 100 rows can be used; the '):
    _convert(file, tmp_path, user='author', text='body')
  _write_csv(file, [('ann', ' ', '1'), ('', 'a', '1')])
  with pytest.raises(DataError, match='no text in it: 1 empty and 1 broken rows; the '):
    _convert(file, tmp_path, user='author', text='body')
  assert not [name for name in os.listdir(tmp_path) if name != 'a.csv']


@pytest.mark.parametrize(
  ('columns', 'sentence'),
  [
    ({}, '--user_column: is missing: say which column holds the user; .* 3 columns$'),
    ({'user': 'author'}, '--text_column: is missing: say which column holds the text'),
    (
      {'user': 'Author', 'text': 'body'},
      '--user_column=Author: there is no such column in .*, which has author, body, st',
    ),
    (
      {'user': 'author', 'text': 'body', 'label': 'score'},
      '--label_column=score: there is no such column',
    ),
    (
      {'user': 'author', 'text': 'author'},
      '--user_column=author: is also --text_column',
    ),
  ],
)
def test_a_wrong_column_is_named_with_those_that_there_are(tmp_path, columns, sentence):
  # Unless there is none of those that were named: then the first line may be a text.
  _write_csv(tmp_path / 'a.csv')
  with pytest.raises(settings_lib.SettingsError, match=sentence):
    _convert(tmp_path / 'a.csv', tmp_path, **columns)


def test_a_column_that_is_there_twice_is_refused(tmp_path):
  _write_csv(tmp_path / 'a.csv', columns=('author', 'body', 'author'))
  with pytest.raises(settings_lib.SettingsError, match='=author: 2 columns of .* have'):
    _convert(tmp_path / 'a.csv', tmp_path, user='author', text='body')


def test_a_folder_of_texts_has_no_labels(tmp_path):
  (tmp_path / 'ann.txt').write_text('one')
  with pytest.raises(
    settings_lib.SettingsError, match='=stars: .* which has user, text'
  ):
    _convert(tmp_path, tmp_path / 'cache', label='stars')


@pytest.mark.parametrize(
  ('names', 'problem'),
  [
    ([], 'nowhere: there is no such file or folder; expected a table'),
    (['nowhere'], "nowhere: the ending '' names no known format; expected a table"),
    (
      ['nowhere/readme.md'],
      'nowhere: the folder has none of the known files; expected',
    ),
    (['nowhere/a.csv', 'nowhere/b.jsonl'], 'the folder has .csv and .jsonl files; exp'),
    (['nowhere/a.csv', 'nowhere/ann/b.txt'], 'the folder has .csv and .txt files; exp'),
  ],
)
def test_a_path_that_is_nothing_known_is_refused(tmp_path, names, problem):
  for name in names:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
  with pytest.raises(DataError, match=problem):
    _convert(tmp_path / 'nowhere', tmp_path / 'cache')


def test_a_large_file_has_a_progress_bar(tmp_path, monkeypatch, capsys):
  monkeypatch.setattr(conversion, '_LARGE', 0)
  monkeypatch.setattr(sys.stderr, 'isatty', lambda: True, raising=False)
  _write_csv(tmp_path / 'a.csv')
  _convert(tmp_path / 'a.csv', tmp_path, user='author', text='body')
  bar = capsys.readouterr().err
  assert 'Converting a.csv: 100%' in bar


_SCRIPT = """
import resource, sys
from tensorflow.core.example import example_pb2
from tff_textpriv.datasets import conversion
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
conversion.convert(conversion.Source(sys.argv[1], *sys.argv[3:]), sys.argv[2])
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize('name', ['a.csv', 'a.jsonl', 'a.json'])
def test_memory_does_not_grow_with_the_file(tmp_path, name):
  file = tmp_path / name
  text = 'a sentence of seven words and more ' * 20
  columns = () if name == 'a.json' else ('author', 'body')
  with open(file, 'w') as stream:
    if name == 'a.json':
      users = [f'user{n}' for n in range(3_000)]
      stream.write(json.dumps({'users': users})[:-1] + ', "user_data": {')
      for number, user in enumerate(users):
        data = json.dumps({'x': [f'{text}{n}' for n in range(100)]})
        stream.write(f'{"," if number else ""}"{user}": {data}')
      stream.write('}}')
    else:
      if name == 'a.csv':
        stream.write('author,body\n')
      for n in range(300_000):
        row = {'author': f'user{n % 3_000}', 'body': f'{text}{n}'}
        line = json.dumps(row) if name == 'a.jsonl' else ','.join(row.values())
        stream.write(line + '\n')
  size = file.stat().st_size // 2**20
  assert size > 180
  done = subprocess.run(
    [sys.executable, '-c', _SCRIPT, file, tmp_path / 'cache', *columns],
    capture_output=True,
    text=True,
    check=True,
  )
  assert int(done.stdout.split()[-1]) < 40 < size
