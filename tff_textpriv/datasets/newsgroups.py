"""20 Newsgroups, split by date: a folder a group, a file a message."""

import pathlib
import re

from tff_textpriv.datasets import clients, labelled

_EXPECTED = (
  'expected a folder with 20news-bydate-train and 20news-bydate-test, in each a folder '
  'a group, with a file a message'
)
# Lines that quote another message, and those that say whom they quote.
_QUOTE = re.compile(r'^\s*[>|]|^In article|writes:\s*$|wrote:\s*$')
_SUBJECT = re.compile(r'^Subject:\s*(?:Re:\s*)*(.*)$', re.IGNORECASE | re.MULTILINE)


def load(path: str, seed: int) -> labelled.LabelledData:
  """Reads the messages: the subject and the text, without headers and quotations.

  Headers and quotations name senders and groups, by which a model would know the class
  without reading. A tenth of the training messages is held out for validation.

  Args:
    path: The folder of the two folders.
    seed: Decides what is held out.

  Raises:
    DataError: If the data are not as expected; names the file.
  """
  folder = pathlib.Path(path)
  halves = [folder / f'20news-bydate-{half}' for half in ('train', 'test')]
  classes = tuple(sorted(each.name for each in halves[0].glob('*') if each.is_dir()))
  if len(classes) < 2:
    raise clients.DataError.in_file(halves[0], f'no groups here; {_EXPECTED}')
  train, test = (_read(half, classes) for half in halves)
  train, validation = labelled.hold_out(train, seed)
  return labelled.LabelledData('20newsgroups', classes, train, validation, test)


def clean(message: str) -> str:
  """Returns the subject and the text of a message, without quotations."""
  header, _, body = message.partition('\n\n')
  subject = _SUBJECT.search(header)
  lines = [line for line in body.split('\n') if not _QUOTE.search(line)]
  return '\n'.join([subject[1] if subject else '', *lines]).strip()


def _read(folder: pathlib.Path, classes: tuple[str, ...]) -> labelled.Examples:
  texts, labels = [], []
  for label, group in enumerate(classes):
    files = clients.files_in(folder / group, '*')
    if not files:
      raise clients.DataError.in_file(folder / group, f'no messages here; {_EXPECTED}')
    for file in files:
      # The messages are older than UTF-8; Latin-1 reads any bytes.
      texts.append(clean(file.read_text(encoding='latin-1')))
      labels.append(label)
  return labelled.Examples.of_texts(texts, labels)
