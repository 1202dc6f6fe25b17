"""Odd and broken rows of tables, and where they are said to be."""

import csv

import pytest

from tff_textpriv.datasets import records
from tff_textpriv.datasets.clients import DataError


def _read(path, *wanted):
  """Reads a file; returns its rows as (line, values), and its broken rows."""
  broken = []
  kind = records.TABLES[path.suffix]
  found = list(kind.records(str(path), wanted, lambda error: broken.append(str(error))))
  if found:
    assert found[-1].position <= path.stat().st_size
  return [(record.line, *record.values.values()) for record in found], broken


def _columns(path):
  return records.TABLES[path.suffix].columns(str(path))


def test_quotes_line_breaks_and_blank_lines_of_csv_are_understood(tmp_path):
  path = tmp_path / 'a.csv'
  path.write_bytes(
    '\ufeffauthor, body ,n\r\nann,"one, ""two""\r\nthree",1\r\n\r\nbob, "four",2'.encode()
  )
  assert _columns(path) == ['author', 'body', 'n']
  good = [(2, 'ann', 'one, "two"\r\nthree'), (5, 'bob', 'four')]
  assert _read(path, 'author', 'body') == (good, [])


@pytest.mark.parametrize('delimiter', [',', ';', '\t'])
def test_the_delimiter_of_csv_is_found_from_the_first_line(tmp_path, delimiter):
  path = tmp_path / 'a.csv'
  with open(path, 'w', newline='') as file:
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerows([['author', 'body'], ['ann', 'a,b;c\td']])
  assert _read(path, 'body', 'author') == ([(2, 'a,b;c\td', 'ann')], [])


def test_broken_rows_of_csv_are_told_with_the_line_where_they_start(tmp_path):
  path = tmp_path / 'a.csv'
  path.write_text(
    'author,body\n'
    'ann,one\n'
    'bob\n'
    'cid,two,three\n'
    'dan,"quote "inside"\n'
    'eve,"several\nlines"\n'
    'fay,"never closed\n'
    'gil,four\n'
  )
  good, broken = _read(path, 'author')
  assert good == [(2, 'ann'), (6, 'eve')]
  assert [error.split(': ')[0][-len('a.csv:3') :] for error in broken] == [
    'a.csv:3',
    'a.csv:4',
    'a.csv:5',
    'a.csv:8',
  ]
  assert '1 columns, where the first line has 2' in broken[0]


@pytest.fixture
def small_fields(monkeypatch):
  """Lowers the limit of a field, which holds for the whole process, for one test."""
  before = csv.field_size_limit()
  monkeypatch.setattr(records, '_MAX_FIELD', 1000)
  yield
  csv.field_size_limit(before)


@pytest.mark.usefixtures('small_fields')
def test_a_quote_that_is_never_closed_does_not_take_the_file_into_memory(tmp_path):
  path = tmp_path / 'a.csv'
  path.write_text('author,body\nann,"' + 'a line\n' * 200 + 'bob,fine\n')
  good, broken = _read(path, 'author')
  assert good == [(202, 'bob')]
  assert 'a.csv:2: field larger than field limit (1000)' in broken[0]


def test_tsv_has_no_quotes(tmp_path):
  path = tmp_path / 'a.tsv'
  path.write_text('author\tbody\nann\t"so" it begins\nbob\t"open\ncid\tone, two\n')
  good = [(2, 'ann', '"so" it begins'), (3, 'bob', '"open'), (4, 'cid', 'one, two')]
  assert _read(path, 'author', 'body') == (good, [])


@pytest.mark.parametrize('content', ['', '\n', '  \nann,one\n'])
def test_a_table_without_a_first_line_is_refused(tmp_path, content):
  path = tmp_path / 'a.csv'
  path.write_text(content)
  with pytest.raises(DataError, match=r'a\.csv:1: the first line is empty; expected'):
    _columns(path)


def test_columns_of_json_lines_are_those_of_all_first_rows(tmp_path):
  path = tmp_path / 'a.jsonl'
  path.write_text('nonsense\n{"body": "x"}\n\n{"author": 7, "body": null}\n')
  assert _columns(path) == ['body', 'author']


def test_broken_json_lines_are_told_with_their_numbers(tmp_path):
  path = tmp_path / 'a.jsonl'
  path.write_text(
    '{"author": "ann", "body": "one"}\n{"author": "bob", \n["cid"]\n{"body": "two"}\n'
  )
  good, broken = _read(path, 'author', 'body')
  assert good == [(1, 'ann', 'one'), (4, 'two')]
  assert 'a.jsonl:2: no JSON (Expecting property name' in broken[0]
  assert 'a.jsonl:3: no JSON object; expected one JSON object a line' in broken[1]


@pytest.mark.parametrize('ending', ['csv', 'tsv', 'jsonl'])
def test_another_encoding_is_named_with_line_and_remedy(tmp_path, ending):
  path = tmp_path / f'my posts.{ending}'
  path.write_bytes(b'{"a": "b"}\n{"a": "caf\xe9"}\n')
  with pytest.raises(DataError) as caught:
    _read(path, *_columns(path))
  message = str(caught.value)
  assert message.startswith(f'{path}:2: not UTF-8 (')
  assert message.endswith(
    f"iconv -f WINDOWS-1252 -t UTF-8 '{path}' > '{tmp_path}/my posts_utf8.{ending}'"
  )


def test_utf_16_is_recognised(tmp_path):
  path = tmp_path / 'a.csv'
  path.write_bytes('author,body\nann,one\n'.encode('utf-16'))
  with pytest.raises(
    DataError, match=r'a\.csv:1: not UTF-8 .*iconv -f UTF-16 -t UTF-8'
  ):
    _columns(path)


def test_parquet_is_read_a_batch_at_a_time(tmp_path, monkeypatch):
  import pyarrow
  from pyarrow import parquet

  monkeypatch.setattr(records, '_BATCH', 2)
  path = tmp_path / 'a.parquet'
  table = pyarrow.table(
    {'author': ['ann', 'bob', 'cid'], 'n': [1, None, 3], 'body': ['x', None, 'y']}
  )
  parquet.write_table(table, path)
  assert _columns(path) == ['author', 'n', 'body']
  good = [(1, 'x', 'ann'), (2, None, 'bob'), (3, 'y', 'cid')]
  assert _read(path, 'body', 'author') == (good, [])


def test_a_damaged_parquet_file_is_named(tmp_path):
  path = tmp_path / 'a.parquet'
  path.write_bytes(b'PAR1 and nothing more')
  with pytest.raises(
    DataError, match=r'a\.parquet: cannot be read .*expected a Parquet'
  ):
    _columns(path)
