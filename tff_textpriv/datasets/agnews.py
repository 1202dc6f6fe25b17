"""AG News: news in four classes, as CSV files without a header."""

import csv
import html
import pathlib
import re

from tff_textpriv.datasets import clients, labelled

CLASSES = ('World', 'Sports', 'Business', 'Sci/Tech')

# A character of HTML, as the files have them: with a space for the ampersand, or not.
_REFERENCE = re.compile(r'[ &](#\d+|quot|amp|lt|gt|nbsp);')

_EXPECTED = (
  'expected a folder with train.csv (or train_subset.csv) and test.csv, in each line a '
  'class from 1 to 4, a title and a description'
)


def load(path: str, seed: int) -> labelled.LabelledData:
  """Reads the news; a tenth of the training news is held out for validation.

  Args:
    path: The folder of the two files.
    seed: Decides what is held out.

  Raises:
    DataError: If the data are not as expected; names the file and the line.
  """
  folder = pathlib.Path(path)
  files = [folder / name for name in ('train.csv', 'train_subset.csv')]
  train_file = next((file for file in files if file.exists()), files[0])
  train, validation = labelled.hold_out(_read(train_file, least=2), seed)
  test = _read(folder / 'test.csv')
  return labelled.LabelledData('ag_news', CLASSES, train, validation, test)


def _read(file: pathlib.Path, least: int = 1) -> labelled.Examples:
  texts, labels = [], []
  with (
    clients.reading(file, _EXPECTED),
    open(file, encoding='utf-8', newline='') as stream,
  ):
    reader = csv.reader(stream)
    try:
      for row in reader:
        if len(row) != 3:
          raise ValueError(f'{len(row)} columns')
        if row[0] not in ('1', '2', '3', '4'):
          raise ValueError('the class is not from 1 to 4')
        texts.append(_clean(f'{row[1]} {row[2]}'))
        labels.append(int(row[0]) - 1)
    except (ValueError, csv.Error) as error:
      raise clients.DataError.in_file(
        file, f'{error}; {_EXPECTED}', line=reader.line_num
      ) from None
  if len(texts) < least:
    raise clients.DataError.in_file(file, f'{len(texts)} examples; {_EXPECTED}')
  return labelled.Examples.of_texts(texts, labels)


def _clean(text: str) -> str:
  """Returns a text with line breaks as spaces, and characters in place of their codes."""
  # A backslash stands for a line break.
  text = text.replace('\\', ' ')
  return _REFERENCE.sub(lambda found: html.unescape(f'&{found[1]};'), text)
