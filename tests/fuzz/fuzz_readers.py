"""Every reader of the package: how a good file is written, and how all of it is read.

A new reader is one more `Reader` in `READERS`. It reads by the function that a command
calls, so that errors are those that users see.
"""

import csv
import dataclasses
import functools
import io
import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_USERS = ('ann', 'bob', 'cy', 'dan', 'eve', 'flo')
_WORDS = [
  'the',
  'cat',
  'sat',
  'on',
  'a',
  'mat',
  'and',
  'saw',
  'two',
  'dogs',
  'run',
  'past',
  'it',
]
_TEXTS = [' '.join(_WORDS[i % 5 :]) + f' {i}.' for i in range(24)]
_ROWS = [(_USERS[i % 6], text, f'{i % 2}') for i, text in enumerate(_TEXTS)]

Content = str | bytes


@dataclasses.dataclass(frozen=True)
class Reader:
  """A reader.

  Attributes:
    name: What to call it.
    write: Makes the good files, by their paths in a folder.
    read: Reads all that is in the folder.
    share: How many cases it gets, relative to others: slow readers get fewer.
    damaged: The endings of the files that are damaged; by default all are.
    named: What an error may name instead of the file.
    is_slow: Whether it needs TFF, and is left to the slow test.
  """

  name: str
  write: Callable[[], Mapping[str, Content]]
  read: Callable[[pathlib.Path], Any]
  share: float = 1.0
  damaged: tuple[str, ...] = ('',)
  named: tuple[str, ...] = ()
  is_slow: bool = False

  @functools.cached_property
  def good(self) -> Mapping[str, Content]:
    """The good files."""
    return self.write()


def _table(delimiter: str) -> str:
  stream = io.StringIO()
  writer = csv.writer(stream, delimiter=delimiter)
  writer.writerows([('who', 'said', 'stars'), *_ROWS])
  return stream.getvalue()


def _json_lines(*names: str) -> str:
  return ''.join(json.dumps(dict(zip(names, row, strict=True))) + '\n' for row in _ROWS)


def _parquet() -> bytes:
  import pyarrow
  from pyarrow import parquet

  columns = zip(*_ROWS, strict=True)
  table = pyarrow.table(dict(zip(('who', 'said', 'stars'), columns, strict=True)))
  stream = io.BytesIO()
  parquet.write_table(table, stream)
  return stream.getvalue()


def _leaf() -> str:
  data = {
    user: {
      'x': [text for name, text, _ in _ROWS if name == user],
      'y': [label for name, _, label in _ROWS if name == user],
    }
    for user in _USERS
  }
  return json.dumps(
    {'users': list(data), 'num_samples': [4] * len(data), 'user_data': data}, indent=1
  )


def _sqlite(labels: bool) -> bytes:
  import tempfile

  from tff_textpriv.datasets import client_sqlite

  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, 'x.sqlite')
    with client_sqlite.create(path) as writer:
      for number, (user, text, label) in enumerate(_ROWS):
        split = ('train', 'heldout', 'test')[number % 6 // 2]
        writer.add(split, user, text, label if labels else None)
    return pathlib.Path(path).read_bytes()


def _custom(file: str, *columns: str | None) -> Callable[[pathlib.Path], Any]:
  """Reads one's own text as a language model's data, and then as a classifier's."""

  def read(folder: pathlib.Path) -> None:
    from tff_textpriv.tasks import custom

    user, text, label, split = columns
    given: dict[str, Any] = {
      'data': str(folder / file),
      'data_dir': str(folder / 'cache'),
      'user_column': user,
      'text_column': text,
      'split_column': split,
      'max_broken_share': 0.5,
    }
    chosen = custom.OwnLanguageSettings(**given, tokenizer_source='oracle')
    custom.check(chosen)
    _read_all(custom.load_text(chosen, seed=0))
    if label is not None:
      custom.load_labelled(custom.OwnLabelsSettings(**given, label_column=label), 0)

  return read


def _read_all(data: Any) -> None:
  """Reads every text of a data set."""
  data.check_disjoint()
  for group in (data.train, data.validation, data.test):
    for user in group.client_ids:
      for text in group.read(user):
        text.encode()


def _reddit(file: str) -> Callable[[pathlib.Path], Any]:
  def read(folder: pathlib.Path) -> None:
    from tff_textpriv.datasets import reddit

    _read_all(reddit.load(str(folder / file), seed=0))

  return read


def _stackoverflow(folder: pathlib.Path) -> None:
  from tff_textpriv.datasets import stackoverflow

  _read_all(stackoverflow.load(str(folder / 'posts.sqlite')))


def _prepare(source: str) -> Callable[[pathlib.Path], Any]:
  def read(folder: pathlib.Path) -> None:
    from tff_textpriv.tools import prepare_data

    prepare_data.main(
      prepare_data.PrepareDataSettings(
        source=source,
        input=str(folder / 'posts.jsonl'),
        output=str(folder / 'cache/posts.sqlite'),
        min_words_per_user=1,
      )
    )

  return read


def _labelled(module: str, file: str = '') -> Callable[[pathlib.Path], Any]:
  """Reads a labelled corpus, and takes its words apart as a classifier does."""

  def read(folder: pathlib.Path) -> None:
    import importlib

    from tff_textpriv.text import rolling_hash

    loader = importlib.import_module(f'tff_textpriv.datasets.{module}')
    more = ('auto',) if module == 'movielens' else ()
    data = loader.load(str(folder / file), *more, 0)
    for group in (data.train, data.validation, data.test):
      for text in group.texts:
        rolling_hash.split_words(text)

  return read


def _imdb_folder() -> dict[str, Content]:
  return {
    f'{half}/{side}/{i}_7.txt': _TEXTS[i]
    for half in ('train', 'test')
    for side in ('pos', 'neg')
    for i in range(3)
  }


def _imdb_csv() -> dict[str, Content]:
  stream = io.StringIO()
  labels = ('negative', 'positive')
  rows = [(text, labels[int(label)]) for _, text, label in _ROWS]
  csv.writer(stream).writerows([('review', 'sentiment'), *rows])
  return {'IMDB.csv': stream.getvalue()}


def _agnews() -> dict[str, Content]:
  stream = io.StringIO()
  csv.writer(stream).writerows([i % 4 + 1, text, text] for i, text in enumerate(_TEXTS))
  return {'train.csv': stream.getvalue(), 'test.csv': stream.getvalue()}


def _sst2() -> dict[str, Content]:
  lines = ''.join(f'{text}\t{label}\n' for _, text, label in _ROWS)
  return {
    'train.tsv': f'sentence\tlabel\n{lines}',
    'dev.tsv': lines,
    'test.tsv': 'index\tsentence\n0\tgood\n',
  }


def _newsgroups() -> dict[str, Content]:
  return {
    f'20news-bydate-{half}/{group}/{i}': f'From: x\nSubject: Re: y\n\n> no\n{_TEXTS[i]}'
    for half in ('train', 'test')
    for group in ('sci.med', 'rec.autos')
    for i in range(8)
  }


def _movielens() -> dict[str, Content]:
  users = range(1, 11)
  return {
    'users.dat': ''.join(f'{i}::F::25::{i}::48067\n' for i in users),
    'movies.dat': ''.join(
      f'{i}::Toy Story (199{i})::Comedy|War\n' for i in range(1, 5)
    ),
    'ratings.dat': ''.join(
      f'{i}::{j}::{j + 1}::9\n' for i in users for j in range(1, 5)
    ),
    'movie_keywords.tsv': 'movieId\tkeywords\n1\ttoys|boy\n2\tship\n',
  }


def _plain_text(folder: pathlib.Path) -> None:
  from tff_textpriv.datasets import lm_text

  _read_all(lm_text.load(str(folder), lm_text.PENN_TREEBANK))


def _vectors(width: int = 4) -> str:
  rng = np.random.default_rng(0)
  lines = [
    ' '.join([word, *(f'{number:.3f}' for number in rng.normal(size=width))])
    for word in _WORDS
  ]
  return f'{len(lines)} {width}\n' + '\n'.join(lines) + '\n'


def _read_vectors(folder: pathlib.Path) -> None:
  from tff_textpriv.text import representations, word_vectors

  vectors, _ = word_vectors.read_some(folder / 'vectors.txt', _WORDS, first=3)
  assert all(np.isfinite(vector).all() for vector in vectors.values())
  representations.read_vectors(folder / 'vectors.txt').encode(_TEXTS[:2])


def _sentence_pieces() -> bytes:
  from tff_textpriv.text import subword

  return subword.train(_TEXTS * 4, 290).to_bytes()


def _word_list() -> bytes:
  from tff_textpriv.text import words

  return words.train(_TEXTS, 12).to_bytes()


def _tokenizer(model: Callable[[], bytes]) -> Callable[[], Mapping[str, Content]]:
  record = {'index': 0, 'source': 'public', 'facts': {'word_counts': {'the': 2}}}
  return lambda: {
    'tokenizers/0.model': model(),
    'tokenizers/0.json': json.dumps(record),
  }


def _read_tokenizer(folder: pathlib.Path) -> None:
  from tff_textpriv.text import loading

  tokenizer = loading.read(folder / 'tokenizers/0.model')
  for ids in tokenizer.encode(_TEXTS[:3]):
    tokenizer.decode(ids.tolist())


def _read_record(folder: pathlib.Path) -> None:
  from tff_textpriv.training import tokenizer_sources

  tokenizer_sources.read_record(folder, 0)


def _encoder_tensors() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
  from tff_textpriv.models import encoder_checkpoints
  from tff_textpriv.models.sequence_presets import EncoderSize

  size = EncoderSize(4, 1, 2, 8, 6, 'bert')
  rng = np.random.default_rng(0)
  shapes = [
    (9, 4), (6, 4), (4,), (4,), (4, 12), (12,), (4, 4), (4,), (4,), (4,), (4, 8), (8,),
    (8, 4), (4,), (4,), (4,), (4, 4), (4,), (4, 2), (2,),
  ]  # fmt: skip
  weights = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
  return encoder_checkpoints.size_config(size), encoder_checkpoints.to_tensors(
    size, weights
  )


def _encoder(ending: str) -> Callable[[], Mapping[str, Content]]:
  def write() -> Mapping[str, Content]:
    config, tensors = _encoder_tensors()
    if ending == 'safetensors':
      import safetensors.numpy

      weights = safetensors.numpy.save(tensors)
    else:
      import h5py

      stream = io.BytesIO()
      with h5py.File(stream, 'w') as file:
        for name, value in tensors.items():
          file[name.replace('bert.', '').replace('.', '/')] = value
      weights = stream.getvalue()
    return {
      'config.json': json.dumps(config),
      'vocab.txt': '\n'.join(['[PAD]', '[UNK]', '[CLS]', '[SEP]', *_WORDS[:5]]) + '\n',
      'tokenizer_config.json': json.dumps({'do_lower_case': True}),
      f'model.{ending}': weights,
    }

  return write


def _read_encoder(folder: pathlib.Path) -> None:
  from tff_textpriv.models import encoder_checkpoints, pretrained

  size = encoder_checkpoints.read_size(folder)
  pretrained.read_vocabulary(folder)
  pretrained.is_cased(folder)
  encoder_checkpoints.read_table(folder, size)
  encoder_checkpoints.body(pretrained.read_tensors(folder), size)


_CARD = {
  'task': 'ptb', 'algo': 'fed_avg', 'headline': 'no formal guarantee', 'epsilon': None,
  'delta': 1e-6, 'guarantee': 'none', 'entries': [],
}  # fmt: skip


def _run_folder() -> dict[str, Content]:
  usage = {
    'kind': 'language_model', 'model': 'lstm_tiny', 'tied': True,
    'tokenizer': 'tokenizers/0.model', 'max_length': 20,
  }  # fmt: skip
  config = {'task': 'ptb', 'algo': 'fed_avg', 'total_rounds': 2, 'seed': 0}
  return {
    'config.json': json.dumps(config),
    'results.json': json.dumps({'rounds': 2, 'test_accuracy': 0.5, 'test_loss': 1.5}),
    'metrics.csv': 'round,train_loss,validation_loss\n1,2.5,\n2,2.25,2.5\n',
    'privacy_card.json': json.dumps(_CARD),
    'privacy_card.md': '# Privacy card\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n',
    'tokenizer_lineage.md': '# Lineage\n\n| a |\n| --- |\n| 1 |\n',
    'samples/1.txt': '\n'.join(_TEXTS),
    'model.json': json.dumps(usage),
    'model.keras': b'only its presence counts',
    **_tokenizer(_word_list)(),
  }


def _classifier_folder() -> dict[str, Content]:
  encoding = {
    'kind': 'words', 'max_tokens': 5, 'hash_base': None, 'hash_buckets': None,
    'vocabulary': 'vocabulary.txt', 'vectors': None, 'is_cased': False,
  }  # fmt: skip
  usage = {
    'kind': 'classification', 'model': 'bilstm_tiny', 'classes': ['bad', 'good'],
    'encoding': encoding, 'dense_width': 0, 'stays_local': '', 'encoder': None,
  }  # fmt: skip
  return {
    **_run_folder(),
    'model.json': json.dumps(usage),
    'vocabulary.txt': '\n'.join(_WORDS) + '\n',
  }


def _load_results(folder: pathlib.Path) -> None:
  from tff_textpriv import results

  result = results.load(folder)
  repr(result)
  repr(result.privacy_card)
  for row in result.rounds:
    for column in row:
      result.curve(column)


def _report(folder: pathlib.Path) -> None:
  from tff_textpriv.reports import page

  page.write([folder], folder / 'cache/report.html')


def _attack() -> dict[str, Content]:
  row = {'algorithm': 'fed_avg', 'attack': 'rows', 'table': 'x', 'batch_size': 1}
  content = {
    'task': 'ptb', 'view': 'server', 'summary': 's', 'command': 'c',
    'rows': [{**row, 'batches': 2, 'recall': 0.5, 'precision': 0.5}],
    'privacy': {'fed_avg': {'clip_norm': None}},
    'cases': [
      {'texts': [['a', 'b']], 'found': [{'attack': 'rows', 'tokens': ['a'], 'recall': 1}]}
    ],
  }  # fmt: skip
  return {'attack.json': json.dumps(content), 'attack.csv': 'algorithm\nfed_avg\n'}


def _export(folder: pathlib.Path) -> None:
  from tff_textpriv.export import pages, runs
  from tff_textpriv.models import usage

  run = runs.read(str(folder))
  pages.readme(run, 'keras')
  if isinstance(run.usage, usage.LanguageModelUsage):
    run.tokenizer.encode(_TEXTS[:2])
  else:
    run.encoder()


def _keras_model() -> Mapping[str, Content]:
  import tempfile

  import tensorflow as tf

  numbers = tf.keras.layers.Input([3])
  model = tf.keras.Model(numbers, tf.keras.layers.Dense(2, activation='tanh')(numbers))
  with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder) / 'model.keras'
    model.save(file)
    return {**_run_folder(), 'model.keras': file.read_bytes()}


def _load_keras_model(folder: pathlib.Path) -> None:
  from tff_textpriv.export import runs

  runs.read(str(folder)).keras_model([np.zeros((1, 3), np.float32)])


@functools.cache
def _key_file() -> Mapping[str, Content]:
  from tff_textpriv.runtime import certificates

  with tempfile.TemporaryDirectory() as folder:
    _, worker_file = certificates.make(pathlib.Path(folder, 'keys'), days=1)
    return {'worker.pem': worker_file.read_bytes()}


def _read_key_file(folder: pathlib.Path) -> Any:
  from tff_textpriv.runtime import tls_connection

  file = folder / 'worker.pem'
  file.chmod(0o600)
  return tls_connection.server_context(file)


def _flag_file(folder: pathlib.Path) -> None:
  from tff_textpriv.tasks import base, ptb

  base.parse(ptb.TASK, [f'--flagfile={folder}/run.flags'])


def _ledger() -> Mapping[str, Content]:
  from tff_textpriv.privacy import correlated_cost, costs, ledger, ledger_entries

  made = ledger.Ledger(1e-6, rounds_by_user={'ann': 3})
  made.charge_local('words', 'a sentence', 1.0)
  made.charge_post_processing('tokenizer', 'made of public text')
  made.entries += (
    ledger_entries.Entry(
      'central',
      'rounds',
      'noise',
      2,
      costs.SampledGaussian('poisson', 100, 10, 1.0),
    ),
    ledger_entries.Entry(
      'central',
      'turns',
      'correlated noise',
      4,
      correlated_cost.CorrelatedRounds(2.0, 3, (1.0, 2.0)),
    ),
    ledger_entries.Entry(
      'local', 'reports', 'bits', 3, costs.Bits(0.5, 20), by_user=True
    ),
  )
  return {'ledger.json': made.to_json()}


def _read_ledger(folder: pathlib.Path) -> None:
  from tff_textpriv.privacy import errors, ledger

  text = (folder / 'ledger.json').read_bytes().decode('utf-8', 'replace')
  try:
    ledger.Ledger.from_json(text).epsilon()
  except errors.PrivacyError as error:
    # It is a part of a checkpoint's file, which names the folder.
    raise errors.PrivacyError(f'{folder}: {error}') from error


def _sweep() -> Mapping[str, Content]:
  return {
    'sweep.csv': 'run,status,error,seconds\nfed_avg_seed_0,failed,why,1.5\n',
    'fed_avg_seed_0/config.json': json.dumps({'task': 'ptb'}),
    'fed_avg_seed_0/results.json': json.dumps({'rounds': 2, 'test_loss': 1.5}),
  }


def _read_sweep(folder: pathlib.Path) -> None:
  from tff_textpriv.experiments import sweep_grid, sweep_table

  name = 'fed_avg_seed_0'
  run = sweep_grid.Run(name, folder / name, 'ptb', (), {'task': 'ptb'}, {'algo': 'x'})
  for point in sweep_table.points(sweep_table.read(folder, [run])):
    point.spread('test_loss')


_STUDY = """title = 'Steps'
question = 'Which step?'
tasks = ['imdb']
rows = 'step'
columns = ['test_auc', 'validation_auc@5']
plot = { metric = 'auc', kind = 'lines', x_label = 'step' }
flags = { total_rounds = 20, rounds_per_eval = '{total_rounds}' }
parts.plain = { algo = 'fed_avg', client_learning_rate = 0.1 }

[[arms]]
label = 'step {step:g}'
use = ['plain']
flags.client_epochs_per_round = '{total_rounds * 0.1 - 1}'
x = '{step}'
grid.step = [0.5, 0.25]
paper.imdb.test_auc = [0.9, nan]
branch_from = 'last'
at_round = 3

[[arms]]
label = 'last'
use = ['plain']
"""


def _read_study(folder: pathlib.Path) -> None:
  from tff_textpriv.experiments import study_files, study_plan
  from tff_textpriv.tasks import base

  study = study_files.load(str(folder / 'steps.toml'))
  study_plan.make_plan(study, base.find(study.tasks[0]), {}, (), folder)


def _resume(folder: pathlib.Path) -> None:
  from tff_textpriv import run_folder
  from tff_textpriv.training import output

  config = json.loads(_run_folder()['config.json'])
  with output.OutputFolder(folder / 'run') as claimed:
    claimed.check_config(config)
  run_folder.finished_results(folder / 'run', config)


def _resumable() -> Mapping[str, Content]:
  whole = _run_folder()
  return {f'run/{name}': whole[name] for name in ('config.json', 'results.json')}


def _cached() -> Mapping[str, Content]:
  import sqlite3
  import tempfile

  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / 'cache.sqlite'
    _encoded(path)
    with sqlite3.connect(path) as connection:
      connection.execute('VACUUM')
    return {'encoded.sqlite': path.read_bytes()}


def _encoded(path: pathlib.Path) -> None:
  """Encodes texts with a cache in a file of the given name."""
  import unittest.mock

  from tff_textpriv.datasets import clients, encoded
  from tff_textpriv.text import words

  texts = clients.InMemoryClientText(dict.fromkeys(_USERS, _TEXTS[:2]))
  with unittest.mock.patch.object(clients, 'short_hash', lambda _: path.stem):
    found = encoded.EncodedClients(
      texts, words.train(_TEXTS, 12), cache_dir=path.parent
    )
  made = path.parent / f'encoded_{path.stem}.sqlite'
  if path.exists():
    made.unlink()
    path.rename(made)
    with unittest.mock.patch.object(clients, 'short_hash', lambda _: path.stem):
      found = encoded.EncodedClients(
        texts, words.train(_TEXTS, 12), cache_dir=path.parent
      )
  for user in _USERS:
    for post in found.posts(user):
      assert post.dtype == np.int32 and post.ndim == 1
  made.rename(path)


_STATE = [np.arange(3, dtype=np.float32), np.int32(4)]


def _checkpoint() -> Mapping[str, Content]:
  import tempfile

  with tempfile.TemporaryDirectory() as folder:
    _save_or_load(pathlib.Path(folder), save=True)
    return {
      str(file.relative_to(folder)): file.read_bytes()
      for file in pathlib.Path(folder).rglob('*')
      if file.is_file()
    }


def _save_or_load(folder: pathlib.Path, save: bool) -> None:
  from tff_textpriv.training import checkpoints, coroutines

  with coroutines.CoroutineRunner() as runner:
    opened = checkpoints.Checkpoints(folder, runner)
    if save:
      opened.save(checkpoints.Checkpoint(1, _STATE, {'ledger': '{}'}))
    opened.load_latest(_STATE)


_COLUMNS = ('who', 'said', 'stars', None)


def _first_model() -> Mapping[str, Content]:
  import safetensors.numpy

  weights = {f'{i:03}': np.full([2, 3], i, np.float32) for i in range(3)}
  facts = {'num_epochs': 1, 'num_texts': 9}
  figures = {'perplexity_before': 9.5, 'perplexity_after': 4.5}
  return {
    'tokenizers/0_warm_start.safetensors': safetensors.numpy.save(weights),
    'tokenizers/0_warm_start.json': json.dumps(facts | figures),
  }


def _read_first_model(folder: pathlib.Path) -> Any:
  from tff_textpriv.training import server_training, warm_start

  made = warm_start.read(0, folder, [(2, 3)] * 3)
  server_training.section(0, folder)
  return server_training.say(server_training.WARM_START, made.facts)


READERS = (
  Reader('csv', lambda: {'posts.csv': _table(',')}, _custom('posts.csv', *_COLUMNS)),
  Reader('tsv', lambda: {'posts.tsv': _table('\t')}, _custom('posts.tsv', *_COLUMNS)),
  Reader(
    'jsonl',
    lambda: {'posts.jsonl': _json_lines('who', 'said', 'stars')},
    _custom('posts.jsonl', *_COLUMNS),
  ),
  Reader(
    'parquet',
    lambda: {'posts.parquet': _parquet()},
    _custom('posts.parquet', *_COLUMNS),
  ),
  Reader(
    'leaf', lambda: {'all.json': _leaf()}, _custom('all.json', None, None, 'y', None)
  ),
  Reader(
    'sqlite',
    lambda: {'posts.sqlite': _sqlite(labels=True)},
    _custom('posts.sqlite', None, None, 'label', 'split_name'),
  ),
  Reader(
    'text folder',
    lambda: (
      {f'texts/{user}.txt': '\n'.join(_TEXTS[:4]) for user in _USERS}
      | {f'texts/{user}2/1.txt': _TEXTS[0] for user in _USERS}
    ),
    _custom('texts', None, None, None, None),
  ),
  Reader('reddit leaf', lambda: {'all.json': _leaf()}, _reddit('all.json')),
  Reader(
    'reddit lines',
    lambda: {'all.tsv': ''.join(f'{user}\t{text}\n' for user, text, _ in _ROWS)},
    _reddit('all.tsv'),
  ),
  Reader(
    'stackoverflow', lambda: {'posts.sqlite': _sqlite(labels=False)}, _stackoverflow
  ),
  Reader(
    'stackexchange',
    lambda: {
      'posts.jsonl': ''.join(
        json.dumps({'site': 'cooking', 'user': i % 6, 'text': text}) + '\n'
        for i, text in enumerate(_TEXTS)
      )
    },
    _prepare('stackexchange'),
  ),
  Reader(
    'reddit posts',
    lambda: {'posts.jsonl': _json_lines('subreddit', 'text', 'title')},
    _prepare('reddit_posts'),
  ),
  Reader('imdb folder', _imdb_folder, _labelled('imdb')),
  Reader('imdb csv', _imdb_csv, _labelled('imdb', 'IMDB.csv')),
  Reader('agnews', _agnews, _labelled('agnews')),
  Reader('sst2', _sst2, _labelled('sst2')),
  Reader('newsgroups', _newsgroups, _labelled('newsgroups')),
  Reader('movielens', _movielens, _labelled('movielens')),
  Reader(
    'plain text',
    lambda: {
      f'ptb.{part}.txt': '\n'.join(_TEXTS) for part in ('train', 'valid', 'test')
    },
    _plain_text,
  ),
  Reader('word vectors', lambda: {'vectors.txt': _vectors()}, _read_vectors),
  Reader(
    'word tokenizer', _tokenizer(_word_list), _read_tokenizer, damaged=('.model',)
  ),
  Reader(
    'sentencepiece', _tokenizer(_sentence_pieces), _read_tokenizer, damaged=('.model',)
  ),
  Reader('tokenizer record', _tokenizer(_word_list), _read_record, is_slow=True),
  Reader('first model', _first_model, _read_first_model, is_slow=True),
  Reader('encoder safetensors', _encoder('safetensors'), _read_encoder),
  Reader('encoder h5', _encoder('h5'), _read_encoder, damaged=('.h5',)),
  Reader('results', _run_folder, _load_results, damaged=('.json', '.csv', '.md')),
  Reader('report', _run_folder, _report),
  Reader('attack', _attack, _report),
  Reader('export language model', _run_folder, _export),
  Reader('export classifier', _classifier_folder, _export),
  Reader('keras model', _keras_model, _load_keras_model, 0.2, damaged=('.keras',)),
  Reader(
    'flag file',
    lambda: {'run.flags': '--algo=fed_avg\n--seed=3\n'},
    _flag_file,
    named=('--',),  # A flag is named as it would be on the command line.
  ),
  Reader('ledger', _ledger, _read_ledger),
  Reader('sweep', _sweep, _read_sweep),
  Reader(
    'study file',
    lambda: {'steps.toml': _STUDY},
    _read_study,
    named=('--',),  # The value of a flag is refused as on the command line.
  ),
  Reader('resumed folder', _resumable, _resume),
  Reader(
    'checkpoint',
    _checkpoint,
    lambda folder: _save_or_load(folder, save=False),
    share=0.5,
    is_slow=True,
  ),
  Reader('key file', _key_file, _read_key_file),
  Reader('encoded cache', _cached, lambda folder: _encoded(folder / 'encoded.sqlite')),
)
