import os
import pathlib
import sqlite3
import urllib.error

import pytest

from tff_textpriv.datasets import client_sqlite, stackoverflow
from tff_textpriv.datasets.clients import DataError, UnknownClientError

_TEXTS = {
  'train': {'ann': ['one two', 'three'], 'bob': ['four .'], "o'neil": ['five']},
  'heldout': {'cid': ['six'], 'dan': ['seven', 'eight', 'nine']},
  'test': {'eve': ['ten', 'eleven']},
}


@pytest.fixture
def path(tmp_path):
  file = str(tmp_path / 'own text.sqlite')
  stackoverflow.write(file, _TEXTS)
  return file


def _execute(path, *statements):
  connection = sqlite3.connect(path)
  with connection:
    for statement, *parameters in statements:
      connection.execute(statement, *parameters)
  connection.close()


def test_what_was_written_is_read_back(path):
  data = stackoverflow.load(path)
  for group, split in zip(
    (data.train, data.validation, data.test), ('train', 'heldout', 'test'), strict=True
  ):
    assert {i: group.read(i) for i in group.client_ids} == _TEXTS[split]
  data.check_disjoint()
  assert data.public_text is None


def test_tff_reads_what_was_written(path):
  import tensorflow_federated as tff
  from tensorflow_federated.python.simulation.datasets import (
    stackoverflow as tff_format,
  )

  for split, texts in _TEXTS.items():
    data = tff.simulation.datasets.SqlClientData(path, split)
    assert data.client_ids == sorted(texts)
    parsed = data.preprocess(tff_format._add_proto_parsing)
    for client_id in set(texts) - {"o'neil"}:  # TFF pastes ids into its query
      examples = list(parsed.create_tf_dataset_for_client(client_id))
      assert [e['tokens'].numpy().decode() for e in examples] == texts[client_id]
      assert set(examples[0]) == {
        'creation_date', 'score', 'tags', 'title', 'tokens', 'type'
      }  # fmt: skip


def test_what_tff_writes_is_read(tmp_path):
  import tensorflow as tf
  from tensorflow_federated.python.simulation.datasets import sql_client_data_utils

  path = str(tmp_path / 'tff.sqlite')
  sql_client_data_utils.save_to_sql_client_data(
    ['a', 'b', 'c'],
    lambda i: tf.data.Dataset.from_tensor_slices({'tokens': [f'by {i}', f'{i} again']}),
    path,
    split_names_by_client_id={'a': 'train', 'b': 'heldout', 'c': 'test'},
  )
  assert stackoverflow.load(path).test.read('c') == ['by c', 'c again']


def test_texts_are_normalised_and_empty_ones_left_out(tmp_path):
  path = str(tmp_path / 'a.sqlite')
  texts = {split: {split: [' a\u00a0 b\n', ' ']} for split in stackoverflow.SPLITS}
  stackoverflow.write(path, texts)
  assert stackoverflow.load(path).train.read('train') == ['a b']


def test_users_seen_in_training_are_not_evaluated_on(tmp_path):
  path = str(tmp_path / 'a.sqlite')
  texts = {
    'train': {'ann': ['early']},
    'heldout': {'bob': ['held out']},
    'test': {'ann': ['late'], 'bob': ['late'], 'new': ['late']},
  }
  stackoverflow.write(path, texts)
  data = stackoverflow.load(path)
  data.check_disjoint()
  assert data.test.client_ids == ['new']
  assert data.train.read('ann') == ['early']
  with pytest.raises(UnknownClientError, match='no such user among the 1 users'):
    data.test.read('ann')


def test_no_unseen_user_to_evaluate_on_is_an_error(tmp_path):
  path = str(tmp_path / 'a.sqlite')
  texts = {'train': {'a': ['x']}, 'heldout': {'b': ['x']}, 'test': {'a': ['x']}}
  stackoverflow.write(path, texts)
  with pytest.raises(DataError, match="all 1 users of the split 'test' are in another"):
    stackoverflow.load(path)


def test_an_unknown_user_is_refused(path):
  with pytest.raises(UnknownClientError, match='no such user among the 3 users'):
    stackoverflow.load(path).train.read('nobody')


def test_the_fingerprint_tells_splits_and_versions_of_a_file_apart(path):
  data = stackoverflow.load(path)
  before = data.train.fingerprint
  assert stackoverflow.load(path).train.fingerprint == before
  assert data.test.fingerprint != before
  os.utime(path, ns=(0, 1))
  assert stackoverflow.load(path).train.fingerprint != before


def test_reading_leaves_the_file_as_it_is(path):
  os.chmod(path, 0o444)
  before = pathlib.Path(path).read_bytes()
  data = stackoverflow.load(path)
  data.train.read('ann')
  with (
    client_sqlite.open_file(path) as connection,
    pytest.raises(sqlite3.OperationalError),
  ):
    connection.execute('DELETE FROM examples')
  assert pathlib.Path(path).read_bytes() == before
  assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_reading_a_user_uses_the_index(path):
  with client_sqlite.open_file(path) as connection:
    plan = connection.execute(
      'EXPLAIN QUERY PLAN SELECT * FROM examples WHERE split_name = ? AND client_id = ?',
      ('train', 'ann'),
    ).fetchall()
  assert 'examples_by_client' in plan[0][-1]


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_behind(path):
  def broken_texts():
    yield 'fine'
    raise RuntimeError('no more')

  with pytest.raises(RuntimeError, match='no more'):
    stackoverflow.write(path, {'train': {'ann': broken_texts()}})
  assert stackoverflow.load(path).train.read('bob') == ['four .']
  assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def _zero_bytes(path):
  pathlib.Path(path).write_bytes(b'')


def _text_file(path):
  pathlib.Path(path).write_text('tokens,client\n' * 100)


def _truncate(path):
  os.truncate(path, os.path.getsize(path) - 1)


def _truncate_header(path):
  os.truncate(path, 50)


def _corrupt_first_page(path):
  with open(path, 'r+b') as file:
    file.seek(100)
    file.write(b'\xff' * 1000)


def _drop_table(path):
  _execute(path, ['DROP TABLE client_metadata'])


def _drop_column(path):
  _execute(path, ['ALTER TABLE examples RENAME COLUMN client_id TO user'])


def _drop_split(path):
  _execute(path, ["DELETE FROM client_metadata WHERE split_name = 'heldout'"])


@pytest.mark.parametrize(
  ('damage', 'problem'),
  [
    (os.remove, 'there is no such file'),
    (_zero_bytes, 'the file is empty'),
    (_text_file, 'this is no SQLite file'),
    (_truncate, 'the file is truncated'),
    (_truncate_header, 'the file is truncated'),
    (_corrupt_first_page, 'SQLite cannot read the file'),
    (_drop_table, 'there is no table client_metadata'),
    (_drop_column, 'the table examples has no column client_id'),
    (_drop_split, "the split 'heldout' has no users"),
  ],
)
def test_a_damaged_file_is_named_with_what_is_expected(path, damage, problem):
  damage(path)
  with pytest.raises(DataError) as caught:
    stackoverflow.load(path)
  assert str(caught.value).startswith(f'{path}: {problem}')
  assert "TFF's StackOverflow layout: an SQLite file" in str(caught.value)


def test_a_damaged_page_is_an_error_when_it_is_read(tmp_path):
  path = str(tmp_path / 'large.sqlite')
  texts = {split: {split: ['word ' * 50] * 200} for split in stackoverflow.SPLITS}
  stackoverflow.write(path, texts)
  data = stackoverflow.load(path)
  with open(path, 'r+b') as file:  # all pages after those of the schema and the ids
    file.seek(3 * 4096)
    file.write(b'\xff' * (os.path.getsize(path) - 3 * 4096))
  with pytest.raises(DataError, match='SQLite cannot read the file'):
    data.train.read('train')


@pytest.mark.parametrize(
  'proto',
  [b'\xff\xff no proto', b'', 'a string', b'\n\x0e\n\x0c\n\x06tokens\x12\x02\n\x00'],
)
def test_an_example_that_cannot_be_read_is_named(path, proto):
  _execute(path, ['INSERT INTO examples VALUES (?, ?, ?)', ('train', 'ann', proto)])
  data = stackoverflow.load(path)
  assert data.train.read('bob') == ['four .']
  with pytest.raises(DataError, match=r'row \d+ of the table examples cannot be read'):
    data.train.read('ann')


def test_a_download_enters_the_cache_when_it_has_succeeded(tmp_path, monkeypatch):
  import tensorflow_federated as tff

  def fake_load_data(cache_dir):
    stackoverflow.write(os.path.join(cache_dir, 'stackoverflow.sqlite'), _TEXTS)

  tff_data = tff.simulation.datasets.stackoverflow
  monkeypatch.setattr(tff_data, 'load_data', fake_load_data)
  path = stackoverflow.download(str(tmp_path / 'cache'))
  assert stackoverflow.load(path).train.read('bob') == ['four .']
  monkeypatch.setattr(tff_data, 'load_data', pytest.fail)
  assert stackoverflow.download(str(tmp_path / 'cache')) == path
  assert os.listdir(tmp_path / 'cache') == ['stackoverflow.sqlite']


@pytest.mark.parametrize('half_downloaded', [False, True])
def test_a_failed_download_is_explained_and_leaves_nothing(
  tmp_path, monkeypatch, half_downloaded
):
  import tensorflow_federated as tff

  def fake_load_data(cache_dir):
    if not half_downloaded:
      raise urllib.error.URLError('no route to host')
    path = os.path.join(cache_dir, 'stackoverflow.sqlite')
    stackoverflow.write(path, _TEXTS)
    os.truncate(path, 5000)

  monkeypatch.setattr(
    tff.simulation.datasets.stackoverflow, 'load_data', fake_load_data
  )
  with pytest.raises(DataError, match='the download of StackOverflow failed'):
    stackoverflow.download(str(tmp_path))
  assert os.listdir(tmp_path) == []
