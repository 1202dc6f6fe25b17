"""Where a run's tokenizers come from, and the record that is kept of each."""

import collections
import dataclasses
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tff_textpriv import files
from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import clients
from tff_textpriv.iterative_processes import algorithm, heavy_hitters
from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.privacy import word_estimates
from tff_textpriv.text import loading, statistics, subword, tokenizers, words
from tff_textpriv.training import experiment, phases

# The sources that read users' own text. `train` is the usual choice for corpora that
# are published as a whole; `oracle` is a comparison.
_USERS_TEXT = ('oracle', 'train')
_SOURCES = ('public', 'heavy_hitters', 'sample', *_USERS_TEXT)
# A line of text made of one repeated word has at most so many copies of it.
_COPIES_PER_LINE = 1000


@dataclasses.dataclass(frozen=True)
class TokenizerRecord:
  """A tokenizer of a run and its origin.

  Attributes:
    index: The phase that it was made for.
    source: `public`, `heavy_hitters`, `oracle`, `train` or `sample`.
    tokenizer: The tokenizer.
    facts: What else is known of its making, as JSON values.
  """

  index: int
  source: str
  tokenizer: tokenizers.Tokenizer
  facts: Mapping[str, Any]

  def write(self, folder: pathlib.Path) -> None:
    """Keeps the tokenizer and its record in the run's folder."""
    files.write_atomically(folder / file_name(self.index), self.tokenizer.to_bytes())
    record = {'index': self.index, 'source': self.source, 'facts': self.facts}
    files.write_atomically(
      _record_file(folder, self.index), json.dumps(record, indent=2) + '\n'
    )


def file_name(index: int) -> str:
  """Returns where the tokenizer of a phase is kept in the run's folder."""
  return f'tokenizers/{index}.model'


def read_record(folder: pathlib.Path, index: int) -> TokenizerRecord | None:
  """Reads the tokenizer of a phase from the run's folder, if it was made."""
  # The record is written last: where it is, the tokenizer is whole.
  file = _record_file(folder, index)
  if not file.exists():
    return None
  record = files.read_json(file)
  source, facts = record.get('source'), record.get('facts')
  if source not in _SOURCES or not isinstance(facts, dict):
    raise files.FileError(f'{file}: not the record of a tokenizer')
  return TokenizerRecord(index, source, loading.read(folder / file_name(index)), facts)


def make_first_tokenizer(
  chosen: experiment.Experiment, data: clients.FederatedText
) -> TokenizerRecord:
  """Trains the tokenizer that a run starts with, from `--tokenizer_source`."""
  task = chosen.task_settings
  facts: dict[str, Any] = {}
  texts: Iterable[str]
  if task.tokenizer_source in _USERS_TEXT:
    texts = training_text(data)
  elif task.tokenizer_source == 'heavy_hitters':
    counts = _find_heavy_hitters(chosen, data)
    facts['word_counts'] = counts
    texts = _text_of_counts(counts)
  else:
    texts = _public_text(chosen, data)
  train = {'bpe': subword.train, 'word': words.train}[task.tokenizer]
  return TokenizerRecord(0, task.tokenizer_source, train(texts, task.vocab_size), facts)


def charge_first_tokenizer(
  ledger: ledger_lib.Ledger, chosen: experiment.Experiment
) -> None:
  """Enters what the first tokenizer cost."""
  task = chosen.task_settings
  if task.tokenizer_source in _USERS_TEXT:
    ledger.note_no_guarantee('tokenizer', 'trained on the users’ own text')
  elif task.tokenizer_source == 'heavy_hitters':
    ledger.charge_local(
      'heavy hitters',
      f'{task.heavy_hitters_words_per_user} words a user by count-mean sketch, for the '
      'tokenizer',
      task.heavy_hitters_epsilon,
      group=_reporting_group(chosen),
    )
  else:
    ledger.charge_post_processing('tokenizer', 'trained on public text')


def check_first_tokenizer(chosen: experiment.Experiment) -> None:
  """Refuses combinations that cannot work or would claim what is not so."""
  task = chosen.task_settings
  if task.tokenizer == 'word' and chosen.algorithm_settings.learns_tokenizer:
    raise settings_lib.SettingsError(
      'tokenizer', 'word', f'--algo={chosen.algorithm.name} learns sub-words; use bpe'
    )
  if task.tokenizer_source in _USERS_TEXT and chosen.privacy_settings.claims:
    raise settings_lib.IncompatibleSettingsError(
      f'--tokenizer_source={task.tokenizer_source} trains the tokenizer on users’ text, '
      'which no noise protects: there is no privacy figure to claim. For a comparison, '
      'add --privacy_claim=false.'
    )


def corpus_counts(
  record: TokenizerRecord, chosen: experiment.Experiment, data: clients.FederatedText
) -> collections.Counter[str]:
  """Returns the word counts of the text that a tokenizer was trained on."""
  if record.source in _USERS_TEXT:
    return statistics.word_counts(training_text(data))
  if record.source == 'public':
    return statistics.word_counts(_public_text(chosen, data))
  return collections.Counter(record.facts['word_counts'])


def training_text(data: clients.FederatedText) -> Iterator[str]:
  """Reads the text of all training users: nothing that a server could do."""
  for user in data.train.client_ids:
    yield from data.train.read(user)


def _public_text(
  chosen: experiment.Experiment, data: clients.FederatedText
) -> Iterable[str]:
  if data.public_text is None:
    raise clients.DataError(
      f'--data={chosen.task_settings.data} brings no public text for the tokenizer: '
      'name a text file with --public_data=FILE'
    )
  return data.public_text


def _find_heavy_hitters(
  chosen: experiment.Experiment, data: clients.FederatedText
) -> dict[str, int]:
  """Estimates how often users write the words of the public text; see `combine`."""
  ids = phases.members(data.train.client_ids, _reporting_group(chosen), chosen.stream)
  public_counts = statistics.word_counts(_public_text(chosen, data))
  found = heavy_hitters.estimate_words(
    ids,
    lambda user: [word for text in data.train.read(user) for word in text.split()],
    statistics.top_words(public_counts, len(public_counts)),
    chosen.task_settings,
    chosen.stream,
  )
  print(f'{len(found.accepted):,} words stand out of the noise of the heavy hitters')
  return word_estimates.combine(found, public_counts)


def _reporting_group(chosen: experiment.Experiment) -> str:
  """Returns the group of users who report words: those who do not train, if any."""
  if chosen.task_settings.training_group == algorithm.SECOND_HALF:
    return algorithm.FIRST_HALF
  return algorithm.ALL_USERS


def _text_of_counts(counts: Mapping[str, int]) -> Iterator[str]:
  """Writes a text in which each word occurs as often as its count says."""
  for word, count in counts.items():
    for start in range(0, count, _COPIES_PER_LINE):
      yield ' '.join([word] * min(_COPIES_PER_LINE, count - start))


def _record_file(folder: pathlib.Path, index: int) -> pathlib.Path:
  return folder / 'tokenizers' / f'{index}.json'
