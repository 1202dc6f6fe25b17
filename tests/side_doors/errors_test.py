"""Errors about users' data: places, and nothing of the data, wherever one looks.

Each case is a mistake in data, or in how they are passed on, that are full of markers.
What is searched is all that a program would show or log of the error: the traceback with
every error in its chain, their attributes, what was printed and what was logged.
"""

import json
import sqlite3
import sys
import traceback

import marked_runs
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import tff_textpriv
from tff_textpriv import flags
from tff_textpriv.datasets import (
  agnews,
  client_sqlite,
  clients,
  conversion,
  imdb,
  labelled,
  leaf,
  movielens,
  newsgroups,
  own_text,
  plain_text,
  records,
  reddit,
  rows,
  splits,
  sst2,
  stackoverflow,
)
from tff_textpriv.tasks import base, custom
from tff_textpriv.text import loading, word_vectors
from tff_textpriv.tools import prepare_data

_USER, _WORD, _LABEL = marked_runs.MARKERS
# As somebody's texts are: some short, some longer than any name, some of many lines.
_TEXTS = [f'my {_WORD} of {_USER} {number} ' * 20 for number in range(30)]
_LINES = '\n'.join(_TEXTS)
_NO_UTF8 = f'{_USER} {_WORD} '.encode() + b'\xff\xfe\n'
_COLUMNS = {'user': 'author', 'text': 'body'}
_ROWS = [{'author': f'{_USER}{i % 5}', 'body': _TEXTS[i]} for i in range(30)]
_BINARY = {'label': 'topic', 'hash_buckets': 20}


def shown(error):
  """Yields the errors that a traceback shows, this one first."""
  while error is not None:
    yield error
    error = error.__cause__ or (
      None if error.__suppress_context__ else error.__context__
    )


def told(error):
  """Returns all that somebody who logs an error could write down of it."""
  parts = traceback.format_exception(error)
  for each in shown(error):
    parts += [str(each), repr(each), repr(each.args), repr(vars(each))]
    # Attributes of Python's own errors, which hold the data that were to be read.
    parts += [str(getattr(each, name, '')) for name in ('doc', 'object', 'filename')]
  return '\n'.join(parts)


def marked(text):
  return [marker for marker in marked_runs.MARKERS if marker in text.lower()]


class _Column(list):
  """A column of a data frame, whose printed form is what is in it."""

  __hash__ = object.__hash__


class _Frame:
  """A data frame, which quotes what it is asked for, as that of pandas does."""

  def __init__(self, **columns):
    self._columns = columns

  def __getitem__(self, name):
    if not isinstance(name, str):
      raise KeyError(f'None of {list(name)} are in the columns')
    return self._columns[name]


_FRAME = _Frame(author=_Column([_USER] * 2), body=_Column(_TEXTS[:2]))


def _run(*args, **given):
  return lambda folder: tff_textpriv.run(*args, **given)


def _records(values, **given):
  def call(folder):
    task = tff_textpriv.from_records(
      values, **{**_COLUMNS, **given}, data_dir=str(folder)
    )
    return task.train

  return call


def _client_data(folder):
  import tensorflow as tf
  import tensorflow_federated as tff

  def examples():
    yield {'tokens': _TEXTS[0]}
    yield {_WORD: _TEXTS[1]}

  data = tff.simulation.datasets.ClientData.from_clients_and_tf_fn(
    [_USER],
    lambda _: tf.data.Dataset.from_generator(
      examples, output_signature={'tokens': tf.TensorSpec([], tf.string)}
    ),
  )
  tff_textpriv.from_client_data(data, data_dir=str(folder))


def _client_of_a_task(folder):
  rows_ = [{**row, 'topic': f'{i % 2}'} for i, row in enumerate(_ROWS)]
  task = tff_textpriv.from_records(rows_, **_COLUMNS, **_BINARY, data_dir=str(folder))
  task.train.create_tf_dataset_for_client(_USER)


# Wrong arguments of the Python API.
_CALLS = {
  'texts as data': _run('custom', 'fed_avg', data=_TEXTS),
  'users as data': _run('custom', 'fed_avg', data={_USER: _TEXTS}),
  'rows as data': _run('custom', 'fed_avg', data=_ROWS),
  'a frame as data': _run('custom', 'fed_avg', data=_FRAME),
  'arrays as data': _run('custom', 'fed_avg', data=np.array(_TEXTS)),
  'a file as data': _run('custom', 'fed_avg', data=_LINES),
  'a text as data': _run('custom', 'fed_avg', data=_TEXTS[0]),
  'a text as data of another task': _run('imdb', 'fed_avg', data=_TEXTS[0]),
  'a text as public data': _run('custom', 'fed_avg', public_data=_LINES),
  'texts as public data': _run('custom', 'fed_avg', public_data=_TEXTS),
  'a text as a number': _run('imdb', 'fed_avg', total_rounds=_TEXTS[0]),
  'texts as a number': _run('imdb', 'fed_avg', total_rounds=_TEXTS),
  'texts as a list of flags': _run('imdb', 'fed_avg', workers=_TEXTS),
  'texts as a list of numbers': _run(
    'stackoverflow', 'subword_resample', resample_rounds=_TEXTS
  ),
  'a text as a choice': _run('imdb', 'fed_avg', federation=_TEXTS[0]),
  'a text as a folder': _run('imdb', 'fed_avg', root_output_dir=_TEXTS[0]),
  'texts as a task': _run(_TEXTS, 'fed_avg'),
  'a text as a task': _run(_TEXTS[0], 'fed_avg'),
  'texts as an algorithm': _run('imdb', _TEXTS),
  'a text as an algorithm': _run('imdb', _TEXTS[0]),
  'texts as a model': _run('imdb', 'fed_avg', model=_TEXTS),
  'a text as a model': _run('imdb', 'fed_avg', model=_TEXTS[0]),
  'texts as an aggregator': _run('imdb', 'fed_avg', aggregator=_TEXTS),
  'a text as a flag': _run('imdb', 'fed_avg', **{_TEXTS[0]: 1}),
  'a text as a flag without value': _run('imdb', 'fed_avg', **{_TEXTS[0]: None}),
  'texts as records': _records(_TEXTS),
  'a text as records': _records(_LINES),
  'users as records': _records({_USER: _TEXTS}),
  'a column as its name': lambda _: tff_textpriv.from_frame(
    _FRAME, user=_FRAME['author'], text=_FRAME['body']
  ),
  'a column as the name of records': _records(_ROWS, user=_TEXTS),
  'a text as a column': _records(_ROWS, user=_TEXTS[0]),
  'a frame without a column': lambda _: tff_textpriv.from_frame(
    _FRAME, user='who', text='body'
  ),
  'a text as a column of a frame': lambda _: tff_textpriv.from_frame(
    _FRAME, user=_TEXTS[0], text='body'
  ),
  'texts as a frame': lambda _: tff_textpriv.from_frame(_TEXTS, **_COLUMNS),
  'records of lists': _records([{'author': _USER, 'body': _TEXTS}] * 20),
  'records of users that are lists': _records([{'author': _TEXTS, 'body': _WORD}] * 20),
  'records without a label': _records(_ROWS, **_BINARY),
  'an unknown client of a task': _client_of_a_task,
  'an unknown user': lambda _: clients.InMemoryClientText({_USER: _TEXTS}).read(_WORD),
  'an unknown user of a subset': lambda _: clients.Subset(
    clients.InMemoryClientText({_USER: _TEXTS}), [_WORD]
  ),
  'labels of no class': lambda _: labelled.LabelledData(
    'data', (_LABEL,), *[labelled.Examples.of_texts(_TEXTS, [3] * 30)] * 3
  ),
}


def _file(name, content, read):
  """Writes a file (and its folders), and reads it in some way."""

  def call(folder):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read(path)

  return call


def _own(user='author', text='body', **more):
  def read(path):
    source = conversion.Source(str(path), user, text, **more)
    own_text.check_broken(conversion.convert(source, str(path.parent / 'cache')), 0.0)

  return read


def _in_folder(load, up=1):
  """Loads the data set whose file is so many folders below its place."""
  return lambda path: load(str([path, *path.parents][up]), 0)


def _parquet(folder):
  column = pa.array([_NO_UTF8] * 3, pa.binary()).cast(pa.string(), safe=False)
  parquet.write_table(
    pa.table({'author': column, 'body': column}), folder / 'a.parquet'
  )
  _own()(folder / 'a.parquet')


def _sqlite(values):
  """Changes users' rows of a file in TFF's layout, and reads it as each task does."""

  def call(read):
    def change(folder):
      file = folder / 'a.sqlite'
      with client_sqlite.create(str(file)) as writer:
        for split in stackoverflow.SPLITS:
          writer.add(split, f'{_USER} {split}', _TEXTS[0])
      with sqlite3.connect(file) as connection:
        for statement in values:
          connection.execute(*statement)
      read(file)

    return change

  return call


_BROKEN_ID = _sqlite(
  [
    (f'UPDATE {table} SET client_id = CAST(? AS TEXT)', (_NO_UTF8,))
    for table in ('examples', 'client_metadata')
  ]
)
_BROKEN_EXAMPLE = _sqlite(
  [('UPDATE examples SET serialized_example_proto = ?', (_WORD.encode(),))]
)


def _example_that_is_not_utf8(read):
  from tensorflow.core.example import example_pb2

  example = example_pb2.Example()
  example.features.feature['tokens'].bytes_list.value.append(_NO_UTF8)
  return _sqlite(
    [
      (
        'UPDATE examples SET serialized_example_proto = ?',
        (example.SerializeToString(),),
      )
    ]
  )(read)


def _read_all(path):
  data = stackoverflow.load(str(path))
  for user in data.train.client_ids:
    data.train.read(user)


def _own_sqlite(path):
  _own(user=None, text=None)(path)


def _json_text():
  users = [f'{_USER}{i}' for i in range(5)]
  return json.dumps({'users': users, 'user_data': {u: {'x': _TEXTS} for u in users}})


def _movies(name, line):
  """MovieLens files, one of which has a broken line."""
  good = {'users.dat': '1::F::1::1::1', 'movies.dat': '1::A (1999)::Drama'}

  def call(folder):
    for file, content in {**good, 'ratings.dat': '1::1::1::1', name: line}.items():
      (folder / file).write_text(content)
    movielens.load(str(folder), 'auto', 0)

  return call


def _prepare(path):
  prepare_data.main(
    prepare_data.PrepareDataSettings(
      input=str(path), output=str(path.with_suffix('.out')), max_broken_rows=0
    )
  )


_ROW = f'{_USER},{_TEXTS[0]},{_LABEL}\n'
_HEADER = 'author,body,topic\n'
_LEAF = _json_text()

# Mistakes in files, by reader.
_FILES = {
  'CSV without a header': _file('a.csv', _ROW * 3, _own()),
  'CSV without a header or columns': _file('a.csv', _ROW * 3, _own(None, None)),
  'CSV with a quote in the header': _file('a.csv', f'{_USER},"{_WORD}" x\n', _own()),
  'CSV not UTF-8': _file('a.csv', _HEADER.encode() + _NO_UTF8, _own()),
  'CSV UTF-16': _file('a.csv', (_HEADER + _ROW).encode('utf-16'), _own()),
  'CSV with a column too many': _file('a.csv', _HEADER + _ROW[:-1] + ',x\n', _own()),
  'CSV of labels for splits': _file('a.csv', _HEADER + _ROW, _own(split='topic')),
  'TSV without a header': _file('a.tsv', f'{_USER}\t{_WORD}\n', _own()),
  'JSON lines cut off': _file('a.jsonl', json.dumps(_ROWS[0])[:-3], _own()),
  'JSON lines of lists': _file('a.jsonl', json.dumps(_TEXTS), _own()),
  'JSON lines of users': _file('a.jsonl', json.dumps({_USER: _WORD}), _own()),
  'JSON lines not UTF-8': _file('a.jsonl', _NO_UTF8, _own()),
  'Parquet not UTF-8': _parquet,
  'Parquet of text': _file('a.parquet', _LINES, _own()),
  'SQLite with users not UTF-8': _BROKEN_ID(_own_sqlite),
  'SQLite with users not UTF-8, of StackOverflow': _BROKEN_ID(_read_all),
  'SQLite with broken examples': _BROKEN_EXAMPLE(_own_sqlite),
  'SQLite with broken examples, of StackOverflow': _BROKEN_EXAMPLE(_read_all),
  'SQLite with texts not UTF-8': _example_that_is_not_utf8(_own_sqlite),
  'SQLite with texts not UTF-8, of StackOverflow': _example_that_is_not_utf8(_read_all),
  'SQLite of text': _file('a.sqlite', _LINES, _own()),
  'LEAF cut off': _file('a.json', _LEAF[:-5], _own(None, None)),
  'LEAF of Reddit cut off': _file('a.json', _LEAF[:-5], _in_folder(reddit.load, 0)),
  'LEAF not UTF-8': _file('a.json', _LEAF.encode()[:-9] + _NO_UTF8, _own(None, None)),
  'LEAF with other users': _file(
    'a.json', _LEAF.replace(f'["{_USER}0"', f'["{_WORD}"'), _own(None, None)
  ),
  'Reddit lines without tabs': _file('a.tsv', _LINES, _in_folder(reddit.load, 0)),
  'Reddit lines not UTF-8': _file('a.tsv', _NO_UTF8 * 12, _in_folder(reddit.load, 0)),
  'text files not UTF-8': _file(
    'texts/user/a.txt', _NO_UTF8, lambda path: _own(None, None)(path.parents[1])
  ),
  'public text not UTF-8': _file(
    'a.txt', _NO_UTF8, lambda path: list(plain_text.read_lines(str(path)))
  ),
  'IMDB folder not UTF-8': _file('train/pos/a.txt', _NO_UTF8, _in_folder(imdb.load, 3)),
  'IMDB table not UTF-8': _file(
    'a.csv', b'review,sentiment\n' + _NO_UTF8, _in_folder(imdb.load, 0)
  ),
  'IMDB table without header': _file('a.csv', _ROW, _in_folder(imdb.load, 0)),
  'IMDB table with another class': _file(
    'a.csv', f'review,sentiment\n{_WORD},{_LABEL}\n', _in_folder(imdb.load, 0)
  ),
  'AG News not UTF-8': _file('train.csv', b'"1","' + _NO_UTF8, _in_folder(agnews.load)),
  'AG News with another class': _file('train.csv', _ROW, _in_folder(agnews.load)),
  'SST-2 without labels': _file('train.tsv', _LINES, _in_folder(sst2.load)),
  'SST-2 not UTF-8': _file('train.tsv', _NO_UTF8, _in_folder(sst2.load)),
  'newsgroups without groups': _file('a.txt', _LINES, _in_folder(newsgroups.load)),
  'MovieLens users of text': _movies('users.dat', f'{_USER}::F::1::1::1'),
  'MovieLens ages of text': _movies('users.dat', f'1::F::{_WORD}::1::1'),
  'MovieLens movies of text': _movies('movies.dat', f'1::{_WORD}::Drama'),
  'MovieLens genres of text': _movies('movies.dat', f'1::A (1999)::{_WORD}'),
  'MovieLens ratings of text': _movies('ratings.dat', f'1::1::{_WORD}::1'),
  'MovieLens keywords of text': _movies('movie_keywords.tsv', f'{_WORD}\t{_USER}'),
  'MovieLens keywords of no movie': _movies(
    'movie_keywords.tsv', f'movieId\tkeywords\n{_WORD}\t{_USER}'
  ),
  'Stack Exchange lines cut off': _file('a.jsonl', json.dumps(_ROWS)[:-3], _prepare),
  'Stack Exchange not UTF-8': _file('a.jsonl', _NO_UTF8, _prepare),
  'Stack Exchange of other rows': _file('a.jsonl', json.dumps(_ROWS[0]), _prepare),
  'word vectors of text': _file(
    'a.txt', f'{_WORD} 1 {_USER}', lambda path: list(word_vectors.read(path))
  ),
  'word vectors not UTF-8': _file(
    'a.txt', _NO_UTF8, lambda path: list(word_vectors.read(path))
  ),
  'a tokenizer of text': _file('a.model', _LINES, loading.read),
}  # fmt: skip


@pytest.mark.parametrize('mistake', [*_CALLS, *_FILES])
def test_an_error_shows_places_and_nothing_of_the_data(
  mistake, tmp_path, monkeypatch, capfd, caplog
):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(Exception) as caught:
    {**_CALLS, **_FILES}[mistake](tmp_path)
  said = capfd.readouterr()
  everything = '\n'.join([told(caught.value), said.out, said.err, caplog.text])
  assert not marked(everything), everything[:2_000]
  assert len(str(caught.value)) < 1_000


def test_an_error_of_tensorflow_is_not_passed_on(tmp_path):
  # TensorFlow logs it, too: what of, is the matter of whoever imported it before.
  with pytest.raises(clients.DataError, match='client number 1') as caught:
    _client_data(tmp_path)
  assert not marked(told(caught.value))


def _raise_from(cause):
  try:
    cause()
  except ValueError as error:
    raise clients.DataError('a row cannot be read') from error


def _raise_with_an_attribute():
  error = clients.DataError('a row cannot be read')
  error.row = _TEXTS
  raise error


def _raise_within():
  try:
    {}[_WORD]
  except KeyError:
    raise clients.DataError('a word is unknown')  # noqa: B904, the point of it.


# What the package's errors once were, or might become.
_BROKEN_TWINS = {
  'the message': lambda: int(_TEXTS[0]),
  'the document of a cause': lambda: _raise_from(lambda: json.loads(_LINES)),
  'the bytes of a cause': lambda: _raise_from(_NO_UTF8.decode),
  'the message of a cause': lambda: _raise_from(lambda: float(_WORD)),
  'the key of an error before': _raise_within,
  'an attribute': _raise_with_an_attribute,
}


@pytest.mark.parametrize('twin', _BROKEN_TWINS)
def test_data_in_any_part_of_an_error_would_be_found(twin):
  with pytest.raises((ValueError, KeyError)) as caught:
    _BROKEN_TWINS[twin]()
  assert marked(told(caught.value))


_COMMANDS = {
  'a data file as flags': ['--flagfile=posts.csv'],
  'a data file that is not UTF-8 as flags': ['--flagfile=binary.csv'],
  'a file without a header': ['--data=posts.csv', '--user_column=a', '--text_column=b'],
  'a file without columns': ['--data=posts.csv'],
  'a text as data': [f'--data={_TEXTS[0]}'],
  'a text as a number': [f'--total_rounds={_TEXTS[0]}'],
}


@pytest.mark.parametrize('mistake', _COMMANDS)
def test_a_command_that_is_wrong_prints_nothing_of_the_data(
  mistake, tmp_path, monkeypatch, capfd
):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'posts.csv').write_text(_ROW * 3)
  (tmp_path / 'binary.csv').write_bytes(_NO_UTF8)
  arguments = ['custom', '--algo=fed_avg', '--label_column=c', *_COMMANDS[mistake]]
  monkeypatch.setattr(sys, 'argv', arguments)
  with pytest.raises(SystemExit) as caught:
    base.main(custom.TASK)
  said = capfd.readouterr()
  assert caught.value.code == 2
  assert said.err.startswith('error: ')
  assert not marked(said.out + said.err), said.err


def _things():
  """Things that hold texts or users, as a debugger or a log would meet them."""
  examples = labelled.Examples.of_texts(_TEXTS, [0] * 30)
  text = clients.InMemoryClientText({_USER: _TEXTS})
  yield examples
  yield labelled.LabelledData('data', ('a',), examples, examples, examples)
  yield text
  yield clients.Subset(text, [_USER])
  yield clients.FederatedText('data', text, text, text)
  yield records.Record('a.csv', 1, 1, _ROWS[0])
  yield rows.Line(1, 1, _TEXTS[0])
  yield rows.Row(1, 1, _TEXTS[0])
  yield leaf.User('a.json', _USER, 1, 1, 1, _TEXTS)
  yield client_sqlite.Example(1, 'train', _USER, _WORD.encode())
  yield splits.deal_users([f'{_USER}{number}' for number in range(9)], 0)


def test_no_printed_form_shows_texts_or_users(tmp_path):
  for thing in _things():
    assert not marked(repr(thing) + str(thing)), type(thing)
  task = tff_textpriv.from_records(_ROWS, **_COLUMNS, tokenizer_source='oracle',
                                   data_dir=str(tmp_path))  # fmt: skip
  assert not marked(repr(task))


def test_a_short_value_of_a_flag_is_still_shown():
  with pytest.raises(ValueError, match='--total_rounds=many: must be an integer'):
    tff_textpriv.run('imdb', 'fed_avg', total_rounds='many')
  with pytest.raises(flags.UsageError, match='--total_round is not a flag'):
    tff_textpriv.run('imdb', 'fed_avg', total_round=3)
