"""What a classifier reads of a text: the representation that the settings name."""

import pathlib
from collections.abc import Sequence

import numpy as np

from tff_textpriv import files
from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import labelled, plain_text
from tff_textpriv.models import usage as usage_lib
from tff_textpriv.text import representations, rolling_hash, whitening
from tff_textpriv.training import classification_settings


def make(
  task: classification_settings.ClassificationSettings,
  train: labelled.Examples,
  seed: int,
  others: Sequence[labelled.Examples] = (),
) -> representations.Representation:
  """Makes the representation that the settings name.

  Args:
    task: The settings.
    train: The training examples, for representations that are fitted.
    seed: Decides trained vectors.
    others: All other examples, for a reference that is fitted on these, too.

  Raises:
    SettingsError: If a file of vectors is needed and none is given.
  """
  hasher = rolling_hash.RollingHasher(task.hash_base, task.hash_buckets)
  if task.representation == 'hash':
    return representations.HashedBag(hasher)
  if task.representation == 'hash_words':
    return representations.HashedWords(hasher, task.max_words)
  if task.representation in classification_settings.OF_A_FILE:
    if task.vectors_file is None:
      raise settings_lib.SettingsError(
        'vectors_file', None, f'is needed with --representation={task.representation}'
      )
    read = representations.read_vectors(task.vectors_file)
    if task.representation == 'vectors':
      if task.vocab_size is None:
        return read
      return representations.most_frequent(read, _texts(train), task.vocab_size)
    if task.whitening_text is None:
      return whitening.WhitenedVectors(read, whitening.by_frequency(read))
    documents = plain_text.read_lines(task.whitening_text)
    return whitening.WhitenedVectors(read, whitening.by_documents(read, documents))
  texts = _texts(train)
  if task.representation == 'term_frequency':
    return representations.fit_term_frequency(texts, task.vocab_size)
  if task.word2vec_text == 'all':
    texts = list(
      dict.fromkeys([*texts, *(text for each in others for text in _texts(each))])
    )
  return representations.fit_word2vec(
    texts, task.embedding_size, seed, task.vocab_size, task.word2vec_epochs
  )


def _texts(examples: labelled.Examples) -> list[str]:
  """Returns the texts of examples, each once."""
  return [examples.texts[number] for number in np.unique(examples.text_of)]


def describe(
  task: classification_settings.ClassificationSettings,
  made: representations.Representation,
  folder: pathlib.Path,
) -> usage_lib.Encoding:
  """Describes what a model reads; keeps in a folder what was fitted for it."""
  if isinstance(made, representations.TermFrequency):
    files.write_atomically(folder / usage_lib.VOCABULARY_FILE, made.to_bytes())
    return usage_lib.Encoding(task.representation, vocabulary=usage_lib.VOCABULARY_FILE)
  if isinstance(made, representations.MeanVectors):
    return _vector_encoding(task, made, folder)
  return usage_lib.Encoding(
    task.representation,
    max_tokens=task.max_words if made.is_sequence else None,
    hash_base=task.hash_base,
    hash_buckets=task.hash_buckets,
  )


def _vector_encoding(
  task: classification_settings.ClassificationSettings,
  made: representations.MeanVectors,
  folder: pathlib.Path,
) -> usage_lib.Encoding:
  """Says where vectors are; keeps them in a folder if they are of the clients' text."""
  if task.reads_clients_text or task.vectors_file is None:
    files.write_atomically(folder / usage_lib.VECTORS_FILE, made.to_bytes())
    return usage_lib.Encoding('vectors', vectors=usage_lib.VECTORS_FILE)
  vectors = str(pathlib.Path(task.vectors_file).absolute())
  if not isinstance(made, whitening.WhitenedVectors):
    return usage_lib.Encoding('vectors', vectors=vectors)
  files.write_atomically(folder / usage_lib.WHITENING_FILE, made.whitening.to_bytes())
  return usage_lib.Encoding(
    'vectors', vectors=vectors, whitening=usage_lib.WHITENING_FILE
  )
