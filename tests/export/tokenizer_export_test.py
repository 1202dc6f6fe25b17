"""Tokenizers without their models: tokenizer.json encodes as SentencePiece does."""

import importlib.util
import json
import random

import pytest

from tff_textpriv.datasets import embedded
from tff_textpriv.export import folders, runs, tokenizer_files, tokenizer_json
from tff_textpriv.tasks import imdb, stackoverflow
from tff_textpriv.text import appended, subword
from tff_textpriv.text.normalize import normalize

_LANGUAGE_MODEL = (
  '--algo=fed_avg', '--num_users=20', '--max_eval_users=3', '--vocab_size=350',
)  # fmt: skip
_SEED = 7


@pytest.fixture(scope='module')
def tokenizers():
  """A tokenizer, and one that has grown."""
  data = embedded.build(0, num_train_users=60, num_public_lines=2000)
  old = subword.train(data.public_text, 900)
  texts = (text for user in data.train.client_ids for text in data.train.read(user))
  return old, appended.append(old, subword.train(texts, 900), 150).tokenizer


def _write(run, output):
  return folders.write(run, 'tokenizer', output, number=3, quantize=False)


def test_an_export_has_both_forms_and_says_that_they_agree(make_run, tmp_path):
  made = make_run(stackoverflow.TASK, *_LANGUAGE_MODEL)
  lines = _write(made.run, tmp_path / 'out')
  assert {file.name for file in (tmp_path / 'out').iterdir()} == {
    'tokenizer.json', 'tokenizer.model', 'README.md', 'privacy_card.md',
    'privacy_card.json',
  }  # fmt: skip
  assert lines[1] == 'tokenizer.json and tokenizer.model encode 1,010 texts alike'
  readme = (tmp_path / 'out' / 'README.md').read_text()
  assert 'Needs tokenizers or sentencepiece' in readme
  assert 'This folder holds its tokenizer' in readme and 'weights' not in readme
  import tokenizers as package

  read = package.Tokenizer.from_file(str(tmp_path / 'out' / 'tokenizer.json'))
  ids = made.bench.tokenizer.encode(['how do i'])[0].tolist()
  assert read.encode('how do i').ids == ids
  assert read.decode(ids) == 'how do i'


def test_a_difference_is_refused_and_nothing_is_left(make_run, tmp_path, monkeypatch):
  made = make_run(stackoverflow.TASK, *_LANGUAGE_MODEL)
  make = tokenizer_json.make

  def with_a_merge_less(tokenizer):
    content = json.loads(make(tokenizer))
    del content['model']['merges'][0]
    return json.dumps(content).encode()

  monkeypatch.setattr(tokenizer_json, 'make', with_a_merge_less)
  with pytest.raises(tokenizer_json.DifferenceError, match='encode text .* ids'):
    _write(made.run, tmp_path / 'out')
  assert not list(tmp_path.iterdir())


def test_without_the_package_the_file_is_written_unchecked(
  make_run, tmp_path, monkeypatch
):
  made = make_run(stackoverflow.TASK, *_LANGUAGE_MODEL)
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  lines = _write(made.run, tmp_path / 'out')
  assert 'was NOT checked' in lines[1]
  assert (tmp_path / 'out' / 'tokenizer.json').exists()


def test_runs_without_sub_words_are_refused(make_run, tmp_path):
  words = make_run(stackoverflow.TASK, *_LANGUAGE_MODEL, '--tokenizer=word')
  reviews = make_run(
    imdb.TASK, '--algo=central', '--max_train_examples=200', '--hash_buckets=300'
  )
  for made in (words, reviews):
    with pytest.raises(runs.ExportError, match='has no sub-word tokenizer'):
      _write(made.run, tmp_path / 'out')


def test_control_ids_that_are_typed_are_text(tokenizers):
  import tokenizers as package

  for tokenizer in tokenizers:
    read = package.Tokenizer.from_str(tokenizer_json.make(tokenizer).decode())
    ids = read.encode('a <s>struck</s> <pad>').ids
    assert (ids[0], ids[-1]) == (2, 3) and min(ids[1:-1]) > 3
    assert read.decode(ids) == 'a <s>struck</s> <pad>'


def test_both_forms_agree_on_random_text(tokenizers, tmp_path):
  rng = random.Random(_SEED)

  def draw():
    alphabet = rng.choice(
      ['ab ', 'the ing', ''.join(map(chr, range(1, 0x250))), '\U0001f600\u200d\ufe0f a',
       '\t\n \u00a0\u3000x', '.:/?=&-_%09az']
    )  # fmt: skip
    return ''.join(rng.choice(alphabet) for _ in range(rng.randrange(80)))

  drawn = [draw() for _ in range(3000)]
  for tokenizer in tokenizers:
    content = tokenizer_json.make(tokenizer)
    assert tokenizer_json.check(content, tokenizer, drawn) == 3000
    assert tokenizer_json.check(content, tokenizer, map(normalize, drawn)) == 3000
    texts = tokenizer_files.texts(tokenizer, tmp_path)
    assert tokenizer_json.check(content, tokenizer, texts) > 1000


@pytest.mark.slow
def test_both_forms_agree_on_real_text(real_data):
  lines = (real_data / 'wikitext-2' / 'wiki.valid.tokens').read_text().splitlines()
  posts = []
  for file in sorted((real_data / 'stackexchange').rglob('*')):
    if file.suffix in ('.csv', '.jsonl', '.tsv', '.txt') and len(posts) < 20_000:
      with open(file, encoding='utf-8') as stream:
        posts += [line for line, _ in zip(stream, range(5000), strict=False)]
  assert posts
  texts = [normalize(text) for text in (*lines, *posts)]
  for size in (1000, 8000):
    tokenizer = subword.train(texts[::3], size)
    content = tokenizer_json.make(tokenizer)
    assert tokenizer_json.check(content, tokenizer, texts) == len(texts)
