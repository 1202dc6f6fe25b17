"""IMDB's formats: the folder, the CSV, and what is wrong with broken ones."""

import re

import pytest

from tff_textpriv.datasets import clients, imdb


@pytest.fixture
def folder(tmp_path):
  root = tmp_path / 'aclImdb'
  for half in ('train', 'test'):
    for name in ('pos', 'neg'):
      (root / half / name).mkdir(parents=True)
      for number in range(10):
        text = f'{half} {name}<br /><br />review {number}'
        (root / half / name / f'{number}_7.txt').write_text(text)
  return root


def test_the_folder_s_reviews_have_the_labels_of_their_places(folder):
  data = imdb.load(str(folder), seed=0)
  assert (len(data.train) + len(data.validation), len(data.test)) == (20, 20)
  assert 1 <= len(data.validation) <= 6
  for examples, half in ((data.train, 'train'), (data.test, 'test')):
    for text_number, label in zip(examples.text_of, examples.labels, strict=True):
      expected = 'pos' if label else 'neg'
      assert examples.texts[text_number].startswith(f'{half} {expected}\n\nreview')


def test_a_folder_that_contains_it_will_do(folder):
  assert len(imdb.load(str(folder.parent), seed=0).test) == 20


def test_a_missing_part_of_the_folder_is_named(folder):
  for file in (folder / 'test' / 'neg').iterdir():
    file.unlink()
  with pytest.raises(clients.DataError, match='test/neg: no text files here'):
    imdb.load(str(folder), seed=0)
  with pytest.raises(clients.DataError, match='expected the folder aclImdb'):
    imdb.load(str(folder / 'nowhere'), seed=0)


def test_a_review_that_is_not_utf_8_is_named(folder):
  (folder / 'train' / 'pos' / '3_7.txt').write_bytes(b'caf\xe9')
  with pytest.raises(clients.DataError, match=r'3_7\.txt: cannot be read'):
    imdb.load(str(folder), seed=0)


def _csv(tmp_path, *lines, header='review,sentiment'):
  file = tmp_path / 'reviews.csv'
  file.write_text('\n'.join([header, *lines]) + '\n')
  return str(file)


def test_the_csv_s_reviews_are_dealt_into_two_halves(tmp_path):
  lines = [f'"good, ""very"" {i}",positive\n"bad\n{i}",negative' for i in range(20)]
  data = imdb.load(_csv(tmp_path, *lines), seed=0)
  # Each by itself: half of 40, to 3 standard deviations.
  assert abs(len(data.test) - 20) < 3 * 3.2 and 1 <= len(data.validation) <= 6
  numbers = [
    (*examples.text_of,) for examples in (data.train, data.validation, data.test)
  ]
  assert sorted(sum(numbers, ())) == list(range(40))
  for text_number, label in zip(data.test.text_of, data.test.labels, strict=True):
    assert data.test.texts[text_number].startswith('good' if label else 'bad')


@pytest.mark.parametrize(
  ('lines', 'header', 'problem'),
  [
    (['a,positive'], 'text,label', ':1: the first line does not name'),
    (['a,positive', 'b'], 'review,sentiment', ':3: 1 columns'),
    (['a,positive', 'b,great'], 'review,sentiment', ':3: the sentiment is neither'),
    (['a,positive'], 'review,sentiment', ': only 1 reviews'),
  ],
)
def test_a_broken_csv_is_refused_with_its_line(tmp_path, lines, header, problem):
  file = _csv(tmp_path, *lines, header=header)
  with pytest.raises(clients.DataError, match=re.escape(file + problem)):
    imdb.load(file, seed=0)


@pytest.mark.slow
def test_the_real_reviews_are_read(real_data):
  data = imdb.load(str(real_data / 'imdb'), seed=0)
  assert len(data.train) + len(data.validation) == 18_792
  assert len(data.test) == 19_134
