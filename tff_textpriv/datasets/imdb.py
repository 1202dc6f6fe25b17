"""IMDB reviews with their sentiment: the aclImdb folder, or the CSV of all 50,000."""

import csv
import pathlib

import numpy as np

from tff_textpriv import randomness
from tff_textpriv.datasets import clients, labelled

CLASSES = ('negative', 'positive')

_FOLDERS = {'neg': 0, 'pos': 1}
_COLUMNS = ['review', 'sentiment']
_EXPECTED = (
  'expected the folder aclImdb with train and test in it, each with pos and neg, or a '
  'CSV file with the columns review and sentiment'
)


def load(path: str, seed: int) -> labelled.LabelledData:
  """Reads the reviews.

  The folder has a training and a test half; a tenth of the training reviews is
  held out for validation. The CSV does not tell the halves: its reviews are dealt
  into two at random.

  Args:
    path: The folder aclImdb, one that contains it, or the CSV file.
    seed: Decides what is held out, and the halves of a CSV.

  Raises:
    DataError: If the data are not as expected; names the file and the line.
  """
  place = pathlib.Path(path)
  if place.is_file():
    train, test = _read_csv(place, seed)
  else:
    root = place / 'aclImdb' if (place / 'aclImdb').is_dir() else place
    train, test = (_read_folder(root / half) for half in ('train', 'test'))
  train, validation = labelled.hold_out(train, seed)
  return labelled.LabelledData('imdb', CLASSES, train, validation, test)


def _read_folder(folder: pathlib.Path) -> labelled.Examples:
  """Reads one half: the text files of pos and neg."""
  texts, labels = [], []
  for name, label in _FOLDERS.items():
    reviews = clients.files_in(folder / name, '*.txt')
    if not reviews:
      raise clients.DataError.in_file(folder / name, f'no text files here; {_EXPECTED}')
    for file in reviews:
      try:
        texts.append(_clean(file.read_text(encoding='utf-8')))
      except (OSError, UnicodeDecodeError) as error:
        raise clients.DataError.in_file(
          file, f'cannot be read ({error}); expected a review in UTF-8'
        ) from None
      labels.append(label)
  return labelled.Examples.of_texts(texts, labels)


def _read_csv(
  file: pathlib.Path, seed: int
) -> tuple[labelled.Examples, labelled.Examples]:
  """Reads the CSV and deals its reviews into a training and a test half."""
  texts, labels = [], []
  with open(file, encoding='utf-8-sig', newline='') as stream:
    reader = csv.reader(stream)
    try:
      if next(reader, None) != _COLUMNS:
        raise ValueError('the first line does not name the columns')
      for row in reader:
        if len(row) != len(_COLUMNS):
          raise ValueError(f'{len(row)} columns')
        if row[1] not in CLASSES:
          raise ValueError('the sentiment is neither positive nor negative')
        texts.append(_clean(row[0]))
        labels.append(CLASSES.index(row[1]))
    except (ValueError, csv.Error) as error:
      raise clients.DataError.in_file(
        file, f'{error}; {_EXPECTED}', line=reader.line_num
      ) from None
  if len(texts) < 4:
    raise clients.DataError.in_file(file, f'only {len(texts)} reviews; {_EXPECTED}')
  examples = labelled.Examples.of_texts(texts, labels)
  places = randomness.Stream.of_seed(seed).shares('halves of reviews', texts)
  # So few reviews that all are on one side are cut in the middle.
  middle = 0.5 if places.min() < 0.5 <= places.max() else np.median(places)
  first = places < middle
  return examples.take(np.flatnonzero(first)), examples.take(np.flatnonzero(~first))


def _clean(review: str) -> str:
  """Turns HTML's line breaks, the only mark-up in the reviews, into new lines."""
  return review.replace('<br />', '\n')
