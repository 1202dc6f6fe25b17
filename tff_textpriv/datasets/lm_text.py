"""Language-modelling corpora of plain text, dealt to clients that nobody is.

Penn Treebank and WikiText-2 come as three files each, a sentence or a paragraph a
line, in words separated by spaces. They have no users: to mimic clients, the lines of
the training file are shuffled and dealt out. The lines of the other two files stay in
their order and are cut into blocks, the pseudo-users of evaluation. A blank line, of
which WikiText-2 has many, is a line, and its end is predicted like any other: that is how
perplexities on these corpora are counted.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from tff_textpriv.datasets import clients, partition, rows, splits
from tff_textpriv.text import forms
from tff_textpriv.text.normalize import normalize

# Lines of a pseudo-user of the validation or test text.
_BLOCK_LINES = 100


@dataclasses.dataclass(frozen=True)
class Corpus:
  """What the files of a corpus are called.

  Attributes:
    name: The corpus's name in messages and reports.
    train: The name of the training file.
    validation: The name of the validation file.
    test: The name of the test file.
    form: The form of its text.
  """

  name: str
  train: str
  validation: str
  test: str
  form: forms.TextForm


PENN_TREEBANK = Corpus(
  'Penn Treebank',
  'ptb.train.txt',
  'ptb.valid.txt',
  'ptb.test.txt',
  forms.LOWER_CORPUS,
)
WIKITEXT_2 = Corpus(
  'WikiText-2',
  'wiki.train.tokens',
  'wiki.valid.tokens',
  'wiki.test.tokens',
  forms.CORPUS,
)


def load(folder: str, corpus: Corpus) -> clients.FederatedText:
  """Reads a corpus; all training text belongs to one user, to be dealt out.

  Args:
    folder: Where its three files are.
    corpus: What they are called.

  Returns:
    The corpus, without public text.

  Raises:
    DataError: If a file is missing, empty or not in UTF-8.
  """
  return clients.FederatedText(
    name=corpus.name,
    train=_of_lines({'train': _lines(folder, corpus, corpus.train)}),
    validation=_blocks('validation', _lines(folder, corpus, corpus.validation)),
    test=_blocks('test', _lines(folder, corpus, corpus.test)),
    form=corpus.form,
  )


def deal(
  data: clients.FederatedText, num_clients: int, seed: int
) -> clients.FederatedText:
  """Deals all training texts to clients at random, about as many to each.

  Args:
    data: A data set; whose training texts were does not matter.
    num_clients: The number of clients.
    seed: Decides who gets what.

  Returns:
    The data set with new training clients and the same users of evaluation.

  Raises:
    DataError: If there are fewer texts than clients.
  """
  texts = [text for user in data.train.client_ids for text in data.train.read(user)]
  shards = partition.shards(splits.numbered(texts), num_clients, seed)
  dealt = {client: [texts[i] for i in numbers] for client, numbers in shards.items()}
  return dataclasses.replace(data, train=_of_lines(dealt))


def _lines(folder: str, corpus: Corpus, name: str) -> list[str]:
  """Reads the lines of one file, blank ones too."""
  path = pathlib.Path(folder) / name
  expected = (
    f'expected a folder with {corpus.train}, {corpus.validation} and {corpus.test}, as '
    f'{corpus.name} is distributed'
  )
  if not path.is_file():
    raise clients.DataError.in_file(path, f'there is no such file; {expected}')
  lines = [normalize(line.text) for line in rows.decoded_lines(str(path), expected)]
  if not any(lines):
    raise clients.DataError.in_file(path, f'there is no text in it; {expected}')
  return lines


def _blocks(group: str, lines: list[str]) -> clients.ClientText:
  """Cuts a text into pseudo-users of so many lines."""
  return _of_lines(
    {
      f'{group}_{number}': lines[start : start + _BLOCK_LINES]
      for number, start in enumerate(range(0, len(lines), _BLOCK_LINES))
    }
  )


def _of_lines(lines_by_client: Mapping[str, Sequence[str]]) -> clients.ClientText:
  """Makes clients of lines, blank ones too."""
  return clients.InMemoryClientText(lines_by_client, keep_blank=True)
