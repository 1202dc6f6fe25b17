"""Cases that the fuzz found, and those that it could not: one test each."""

import contextlib
import io
import json
import struct

import fuzz_readers
import pytest

from tff_textpriv import flags

_READERS = {reader.name: reader for reader in fuzz_readers.READERS}


def _tensors(offsets, shape=(1,)):
  """Writes a safetensors file of one tensor."""
  entry = {'dtype': 'F32', 'shape': list(shape), 'data_offsets': list(offsets)}
  header = json.dumps({'x': entry}).encode()
  return struct.pack('<Q', len(header)) + header + bytes(4)


def _sql(*statements):
  """Makes an SQLite file."""
  import pathlib
  import sqlite3
  import tempfile

  with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder) / 'x.sqlite'
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
      for statement in statements:
        connection.execute(statement)
    return file.read_bytes()


_METADATA = 'CREATE TABLE client_metadata (client_id, split_name, num_examples)'
_ENDLESS = (
  'CREATE VIEW examples AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) '
  "SELECT 'train' AS split_name, 'a' AS client_id, x'' AS serialized_example_proto FROM n"
)
_EXAMPLES = (
  'CREATE TABLE examples (split_name, client_id, serialized_example_proto)',
  "INSERT INTO examples VALUES ('train', 'a', x'ff')",
  _METADATA,
)
_DEEP = b'[' * 100_000
_DIGITS = b'9' * 5_000
_ROW = b'\n{"who": "", "said": "a", "stars": 1}\n'
_HALF = b'"\\ud800"'
# A piece that is there twice is quoted in SentencePiece's own message.
_TWICE = _READERS['sentencepiece'].good['tokenizers/0.model']
for _byte in (b'<0x41>', b'<0x42>'):
  _TWICE = _TWICE.replace(_byte, b'<0\xb0\xb0\xb0>')
_RUN = json.loads(_READERS['export language model'].good['model.json'])


@pytest.mark.parametrize(
  ('name', 'file', 'content', 'message'),
  [
    ('jsonl', 'posts.jsonl', _DEEP + _ROW, 'no JSON .maximum recursion'),
    ('jsonl', 'posts.jsonl', _DIGITS + _ROW, 'no JSON .*4300 digits'),
    ('leaf', 'all.json', _DEEP, 'all.json:1: damaged, truncated or no JSON'),
    ('leaf', 'all.json', b'{"users": ' + _DIGITS + b'}', '4300 digits'),
    (
      'reddit leaf',
      'all.json',
      b'{"users": ["a"], "user_data": {"a": {"x": [%s1%s]}}}'
      % (b'[' * 600, b']' * 600),
      'users, and at least 3',
    ),
    (
      'reddit posts',
      'posts.jsonl',
      b'{"subreddit": %s, "text": "a"}' % _HALF,
      '0 of 0',
    ),
    ('stackexchange', 'posts.jsonl', _DEEP, 'posts.jsonl: 0 of 0 users'),
    (
      'stackexchange',
      'posts.jsonl',
      b'{"site": %s, "user": 1, "text": "a"}' % _HALF,
      'posts.jsonl: 0 of 0 users',
    ),
    ('sqlite', 'posts.sqlite', _sql(*_EXAMPLES), 'the first example is not a serial'),
    ('sqlite', 'posts.sqlite', _sql(_ENDLESS, _METADATA), 'there is no table examples'),
    (
      'stackoverflow',
      'posts.sqlite',
      _sql('CREATE VIRTUAL TABLE examples USING fts3(a)', _METADATA),
      'posts.sqlite: there is no table examples',
    ),
    ('sst2', 'test.tsv', b'', 'test.tsv: 0 examples'),
    ('sst2', 'test.tsv', b'\x80\t1\n', 'test.tsv:1: not UTF-8'),
    ('agnews', 'test.csv', b'', 'test.csv: 0 examples'),
    (
      'movielens',
      'users.dat',
      b'1::F::' + b'9' * 400 + b'::1::48067\n',
      'users.dat:1: the age is not from 0 to 150',
    ),
    (
      'word vectors',
      'vectors.txt',
      b'the 1 nan\n',
      'vectors.txt:1: a number that is not',
    ),
    (
      'word vectors',
      'vectors.txt',
      b'the 1 1e39\n',
      'vectors.txt:1: a number that is not',
    ),
    ('tokenizer record', 'tokenizers/0.json', b'[]', '0.json: not the JSON that a run'),
    ('tokenizer record', 'tokenizers/0.json', b'{}', '0.json: not the record of a tok'),
    ('tokenizer record', 'tokenizers/0.json', b'\xff', '0.json: cannot be read'),
    ('sentencepiece', 'tokenizers/0.model', b'\xff', '0.model: not a SentencePiece'),
    ('sentencepiece', 'tokenizers/0.model', _TWICE, '0.model: not a SentencePiece'),
    (
      'encoder safetensors',
      'model.safetensors',
      _tensors((-4, 0)),
      'cannot be read as safetensors',
    ),
    (
      'encoder safetensors',
      'model.safetensors',
      _tensors((0, 8)),
      'cannot be read as safetensors',
    ),
    (
      'encoder safetensors',
      'model.safetensors',
      _tensors((0, 4), (2**70,)),
      'safetensors',
    ),
    (
      'encoder safetensors',
      'model.safetensors',
      b'\2' + bytes(7) + b'[]',
      'safetensors',
    ),
    ('encoder safetensors', 'config.json', _DEEP, 'config.json: cannot be read'),
    (
      'encoder safetensors',
      'config.json',
      json.dumps(
        dict.fromkeys(
          json.loads(_READERS['encoder safetensors'].good['config.json']), 1e999
        )
        | {'model_type': 'bert'}
      ).encode(),
      'config.json: cannot convert float infinity',
    ),
    ('results', 'results.json', b'{', 'results.json: not the JSON that a run writes'),
    ('results', 'results.json', _DEEP, 'results.json: not the JSON that a run writes'),
    ('results', 'privacy_card.json', b'{}', "privacy_card.json: there is no 'algo'"),
    ('results', 'privacy_card.md', b'\xff', 'privacy_card.md: cannot be read'),
    ('results', 'metrics.csv', b'round,loss\n1,x\n', 'metrics.csv: not the table'),
    ('results', 'metrics.csv', b'round,loss\n1,2,3\n', 'metrics.csv: not the table'),
    ('results', 'metrics.csv', b'loss\n1\n', 'metrics.csv: not the table'),
    ('export language model', 'config.json', b'{}', "config.json: there is no 'algo'"),
    ('export language model', 'model.json', b'\xff', 'model.json: cannot be read'),
    (
      'export language model',
      'model.json',
      json.dumps({**_RUN, 'tokenizer': 3}).encode(),
      'model.json: tokenizer is int',
    ),
    (
      'export language model',
      'model.json',
      json.dumps({**_RUN, 'tokenizer': '../../x'}).encode(),
      "model.json: '../../x' is not in the folder of the run",
    ),
    (
      'export language model',
      'model.json',
      json.dumps({**_RUN, 'tokenizer': '/etc/passwd'}).encode(),
      "model.json: '/etc/passwd' is not in the folder of the run",
    ),
    (
      'export language model',
      'model.json',
      json.dumps({**_RUN, 'tokenizer': 'a' * 10_000}).encode(),
      'model.json: .*File name too long',
    ),
    ('export classifier', 'vocabulary.txt', b'a\na\n', 'vocabulary.txt: a word of the'),
    (
      'export classifier',
      'vocabulary.txt',
      b'\xff\n',
      'vocabulary.txt: cannot be read',
    ),
    ('flag file', 'run.flags', b'\xff', '--flagfile=.*run.flags is no text in UTF-8'),
    ('flag file', 'run.flags', b'--' + b'a' * 5_000, '--a{40}... is not a flag'),
    ('ledger', 'ledger.json', _DEEP, 'not a privacy ledger'),
    (
      'ledger',
      'ledger.json',
      _READERS['ledger'].good['ledger.json'].replace('"count": 2', '"count": "2"'),
      'not a ledger entry',
    ),
    (
      'ledger',
      'ledger.json',
      _READERS['ledger']
      .good['ledger.json']
      .replace('"added_delta": 0.0', '"added_delta": 1.0'),
      'spend more than the delta',
    ),
    (
      'ledger',
      'ledger.json',
      _READERS['ledger']
      .good['ledger.json']
      .replace('"num_bits": 20', '"num_bits": -9'),
      '-9 is not a number of bits',
    ),
    (
      'ledger',
      'ledger.json',
      _READERS['ledger'].good['ledger.json'].replace('_epsilon": 0.5', '_epsilon": -1'),
      'epsilon',
    ),
    ('sweep', 'sweep.csv', b'x\n1\n', 'sweep.csv: not the table that a sweep writes'),
    ('sweep', 'sweep.csv', b'run,seconds\na,b\n', 'sweep.csv: not the table that a'),
    ('resumed folder', 'run/results.json', b'[]', 'results.json: not the JSON that a'),
  ],
  ids=lambda value: value if isinstance(value, str) and len(value) < 80 else 'content',
)
def test_a_damaged_file_is_refused_by_name(tmp_path, name, file, content, message):
  reader = _READERS[name]
  for each, good in {**reader.good, file: content}.items():
    (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / each).write_bytes(good.encode() if isinstance(good, str) else good)
  with (
    contextlib.redirect_stdout(io.StringIO()),
    pytest.raises(ValueError, match=message) as caught,
  ):
    reader.read(tmp_path)
  assert flags.is_mistake(caught.value)


def test_a_damaged_cache_is_made_again(tmp_path):
  reader = _READERS['encoded cache']
  good = reader.good['encoded.sqlite']
  (tmp_path / 'encoded.sqlite').write_bytes(good[:4096] + b'\xff' * (len(good) - 4096))
  reader.read(tmp_path)
