"""SST-2: sentences and phrases of reviews with their sentiment, as TSV files."""

import pathlib

from tff_textpriv.datasets import clients, labelled

CLASSES = ('negative', 'positive')

_HEADER = 'sentence\tlabel'
_EXPECTED = (
  'expected a folder with train.tsv, dev.tsv and a labelled test.tsv (or '
  'test_labeled.tsv), in each line a sentence, a tab, and 0 or 1'
)


def load(path: str, seed: int) -> labelled.LabelledData:
  """Reads the sentences: GLUE's files, or those of whole sentences without a header.

  The test labels of GLUE are not public. Without a labelled test file, the test is on
  dev.tsv, and a tenth of the training sentences is held out for validation.

  Args:
    path: The folder of the files.
    seed: Decides what is held out.

  Raises:
    DataError: If the data are not as expected; names the file and the line.
  """
  folder = pathlib.Path(path)
  train, dev = _read(folder / 'train.tsv'), _read(folder / 'dev.tsv')
  for name in ('test_labeled.tsv', 'test.tsv'):
    if (folder / name).exists() and not _is_unlabelled(folder / name):
      test = _read(folder / name)
      return labelled.LabelledData('sst2', CLASSES, train, dev, test)
  train, validation = labelled.hold_out(train, seed)
  return labelled.LabelledData('sst2', CLASSES, train, validation, dev)


def _is_unlabelled(file: pathlib.Path) -> bool:
  """Tells whether a file is GLUE's own test file, of numbered sentences."""
  with open(file, encoding='utf-8') as stream:
    return stream.readline().startswith('index\t')


def _read(file: pathlib.Path) -> labelled.Examples:
  texts, labels = [], []
  number = 0
  try:
    with open(file, encoding='utf-8') as stream:
      for number, line in enumerate(stream, start=1):
        line = line.rstrip('\r\n')
        if (number == 1 and line == _HEADER) or not line:
          continue
        text, separator, label = line.rpartition('\t')
        if not separator or label not in ('0', '1'):
          raise ValueError(f'the label {label!r}')
        texts.append(text)
        labels.append(int(label))
  except OSError as error:
    raise clients.DataError.in_file(
      file, f'cannot be read ({error.strerror}); {_EXPECTED}'
    ) from error
  except ValueError as error:
    raise clients.DataError.in_file(
      file, f'{error}; {_EXPECTED}', line=number
    ) from error
  return labelled.Examples.of_texts(texts, labels)
