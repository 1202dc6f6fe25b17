"""AG News, SST-2 and 20 Newsgroups as they are distributed, and their twins."""

import collections

import numpy as np
import pytest

from tff_textpriv.datasets import (
  agnews,
  clients,
  embedded_labelled,
  newsgroups,
  sst2,
)

_NEWS = '"3","A title","One\\two"\n"1","Another, with comma","He said ""no"""\n'


def _write_news(folder, train=_NEWS * 10, name='train.csv'):
  (folder / name).write_text(train)
  (folder / 'test.csv').write_text(_NEWS)


@pytest.mark.parametrize('name', ['train.csv', 'train_subset.csv'])
def test_news_are_title_and_description(tmp_path, name):
  _write_news(tmp_path, name=name)
  data = agnews.load(str(tmp_path), 0)
  assert data.test.texts == ['A title One two', 'Another, with comma He said "no"']
  assert data.test.labels.tolist() == [2, 0]
  assert len(data.train) + len(data.validation) == 20
  assert 1 <= len(data.validation) <= 6


@pytest.mark.parametrize(
  ('row', 'message'),
  [('"5","a","b"', r'train.csv:21: the class is not'), ('"1","a"', ':21: 2 columns')],
)
def test_a_wrong_row_of_news_is_named(tmp_path, row, message):
  _write_news(tmp_path, _NEWS * 10 + row + '\n')
  with pytest.raises(clients.DataError, match=message):
    agnews.load(str(tmp_path), 0)


@pytest.mark.parametrize(
  ('written', 'read'),
  [
    ('Microsoft #39;s', "Microsoft's"),
    ('a  #36;10 note', 'a $10 note'),
    (' quot;So, quot; he said', '"So," he said'),
    ('J amp;J', 'J&J'),
    ('&lt;b&gt;new', '<b>new'),
    ('store #146;s', 'store’s'),
    # No codes of characters.
    ('number #39 and fraud; amp', 'number #39 and fraud; amp'),
  ],
)
def test_characters_that_news_have_as_codes_are_read(tmp_path, written, read):
  _write_news(tmp_path)
  (tmp_path / 'test.csv').write_text(f'"1","Title","{written}"\n')
  assert agnews.load(str(tmp_path), 0).test.texts == [f'Title {read}']


def test_missing_news_are_named(tmp_path):
  with pytest.raises(clients.DataError, match=r'train.csv.*expected a folder'):
    agnews.load(str(tmp_path), 0)


def test_sentences_with_and_without_a_header(tmp_path):
  (tmp_path / 'train.tsv').write_text('sentence\tlabel\n' + 'good film \t1\n' * 9)
  (tmp_path / 'dev.tsv').write_text('bad\t0\n')
  (tmp_path / 'test_labeled.tsv').write_text('sentence\tlabel\nfine\t1\nbad\t0\n')
  data = sst2.load(str(tmp_path), 0)
  assert [len(g) for g in (data.train, data.validation, data.test)] == [9, 1, 2]
  assert data.test.labels.tolist() == [1, 0]


def test_without_labels_of_the_test_dev_is_the_test(tmp_path):
  (tmp_path / 'train.tsv').write_text('good\t1\n' * 20)
  (tmp_path / 'dev.tsv').write_text('bad\t0\nfine\t1\n')
  (tmp_path / 'test.tsv').write_text('index\tsentence\n0\tsecret\n')
  data = sst2.load(str(tmp_path), 0)
  assert [len(data.train) + len(data.validation), len(data.test)] == [20, 2]


def test_a_wrong_label_of_a_sentence_is_named(tmp_path):
  for name in ('train.tsv', 'dev.tsv'):
    (tmp_path / name).write_text('good\t1\nbad\t2\n')
  with pytest.raises(clients.DataError, match=r'train.tsv:2: no label 0 or 1'):
    sst2.load(str(tmp_path), 0)


_MESSAGE = """From: someone@somewhere.edu
Subject: Re: Re: jiggers
Organization: UIUC

In article <788@cup.portal.com> mmm@cup.portal.com writes:

>This wouldn't happen to be
Close. My mother comes from Texas.
"""


def test_messages_are_subject_and_text_without_headers_and_quotations():
  assert newsgroups.clean(_MESSAGE) == 'jiggers\n\nClose. My mother comes from Texas.'


def test_groups_are_the_classes(tmp_path):
  for half in ('train', 'test'):
    for group in ('sci.med', 'rec.autos'):
      folder = tmp_path / f'20news-bydate-{half}' / group
      folder.mkdir(parents=True)
      for number in range(5):
        (folder / str(number)).write_bytes(_MESSAGE.encode() + b'\xe9')
  data = newsgroups.load(str(tmp_path), 0)
  assert data.classes == ('rec.autos', 'sci.med')
  assert collections.Counter(data.test.labels.tolist()) == {0: 5, 1: 5}
  assert data.test.texts[0].endswith('é')


def test_missing_groups_are_named(tmp_path):
  with pytest.raises(clients.DataError, match='20news-bydate-train.*expected'):
    newsgroups.load(str(tmp_path), 0)


def test_the_twins_are_functions_of_the_seed_with_numbers_and_all_classes():
  classes = [f'class {number}' for number in range(20)]
  first, again, other = (
    embedded_labelled.topics(seed, classes, (2, 3), 200, 100) for seed in (1, 1, 2)
  )
  assert first.train.texts == again.train.texts != other.train.texts
  assert set(first.test.labels) == set(range(20))
  with_number = np.mean([any(c.isdigit() for c in t) for t in first.train.texts])
  assert 0.3 < with_number < 0.9


def test_the_real_data_are_read(real_data):
  news = agnews.load(str(real_data / 'ag_news'), 0)
  assert (len(news.train) + len(news.validation), len(news.test)) == (34_737, 5_659)
  assert not [text for text in news.test.texts if '#39;' in text]
  sentences = sst2.load(str(real_data / 'sst2' / 'glue'), 0)
  assert [len(g) for g in (sentences.train, sentences.validation, sentences.test)] == [
    67_349,
    872,
    1_821,
  ]
  messages = newsgroups.load(str(real_data / '20newsgroups'), 0)
  assert len(messages.classes) == 20
  assert (len(messages.train) + len(messages.validation), len(messages.test)) == (
    8_439,
    5_722,
  )
