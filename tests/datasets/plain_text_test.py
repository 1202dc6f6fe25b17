import os
import pathlib

import pytest

from tff_textpriv.datasets import plain_text
from tff_textpriv.datasets.clients import DataError


def test_documents_are_lines_without_blanks_and_headings(tmp_path):
  path = tmp_path / 'a.txt'
  path.write_text(
    '\ufeff = Title = \n\n first  line \n = = A Section = = \n1 + 1 = 2\n= x\nlast',
    encoding='utf-8',
  )
  assert list(plain_text.read_lines(str(path))) == [
    'first line',
    '1 + 1 = 2',
    '= x',
    'last',
  ]


def test_several_files_are_read_one_after_the_other(tmp_path):
  for name in 'ab':
    (tmp_path / name).write_text(f'text of {name}\n')
  lines = plain_text.read_lines(str(tmp_path / 'b'), str(tmp_path / 'a'))
  assert list(lines) == ['text of b', 'text of a']


def test_bad_encoding_is_named_with_file_and_line(tmp_path):
  path = tmp_path / 'latin.txt'
  path.write_bytes(b'fine\ncaf\xe9 noir\n')
  with pytest.raises(DataError, match=r'latin\.txt:2: not UTF-8 .* byte 4 .*expected'):
    list(plain_text.read_lines(str(path)))


def test_a_missing_file_is_named(tmp_path):
  with pytest.raises(
    DataError, match='absent.txt: cannot be read .*one document a line'
  ):
    list(plain_text.read_lines(str(tmp_path / 'absent.txt')))


def test_wikitext_is_read_without_its_headings():
  folder = os.environ.get('TFF_TEXTPRIV_DATA')
  if folder is None:
    pytest.skip('TFF_TEXTPRIV_DATA does not name a folder with real data')
  path = pathlib.Path(folder) / 'wikitext-2' / 'wiki.valid.tokens'
  lines = list(plain_text.read_lines(str(path)))
  assert not [line for line in lines if line.startswith('= ') and line.endswith(' =')]
  # The file has 217,646 tokens, of which headings and line ends are a few.
  assert 200_000 < sum(len(line.split()) for line in lines) < 217_646
