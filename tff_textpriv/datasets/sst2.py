"""SST-2: sentences and phrases of reviews with their sentiment, as TSV files."""

import pathlib

from tff_textpriv.datasets import clients, labelled, rows

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
  train, dev = _read(folder / 'train.tsv', least=2), _read(folder / 'dev.tsv')
  for name in ('test_labeled.tsv', 'test.tsv'):
    if (folder / name).exists() and not _is_unlabelled(folder / name):
      test = _read(folder / name)
      return labelled.LabelledData('sst2', CLASSES, train, dev, test)
  train, validation = labelled.hold_out(train, seed)
  return labelled.LabelledData('sst2', CLASSES, train, validation, dev)


def _is_unlabelled(file: pathlib.Path) -> bool:
  """Tells whether a file is GLUE's own test file, of numbered sentences."""
  with clients.reading(file, _EXPECTED), open(file, 'rb') as stream:
    return stream.readline().startswith(b'index\t')


def _read(file: pathlib.Path, least: int = 1) -> labelled.Examples:
  texts, labels = [], []
  for line in rows.decoded_lines(str(file), _EXPECTED):
    content = line.text.rstrip('\r\n')
    if (line.number == 1 and content == _HEADER) or not content:
      continue
    text, separator, label = content.rpartition('\t')
    if not separator or label not in ('0', '1'):
      raise clients.DataError.in_file(
        file, f'no label 0 or 1; {_EXPECTED}', line=line.number
      )
    texts.append(text)
    labels.append(int(label))
  if len(texts) < least:
    raise clients.DataError.in_file(file, f'{len(texts)} examples; {_EXPECTED}')
  return labelled.Examples.of_texts(texts, labels)
