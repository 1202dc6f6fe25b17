"""What a run's `model.keras` reads and answers: the content of its `model.json`.

A Keras model knows numbers only. This says how a text becomes the numbers that it
reads, and what the numbers that it returns mean.
"""

import dataclasses
import json
from typing import Any

from tff_textpriv.models.sequence_presets import EncoderSize

FILE = 'model.json'
VOCABULARY_FILE = 'vocabulary.txt'
VECTORS_FILE = 'vectors.txt'
WHITENING_FILE = 'whitening.json'

_EXPECTED = 'expected the model.json that a run writes beside its model.keras'


class ModelJsonError(ValueError):
  """A model.json that cannot be used; the message says why."""


@dataclasses.dataclass(frozen=True)
class LanguageModelUsage:
  """A language model: ids of a tokenizer to logits of the next ids.

  Attributes:
    model: The name of its preset.
    tied: Whether the embedding is the output layer too.
    tokenizer: The tokenizer's file, in the run's folder.
    max_length: The most tokens that it was trained to read at once.
  """

  model: str
  tied: bool
  tokenizer: str
  max_length: int


@dataclasses.dataclass(frozen=True)
class Encoding:
  """How a classifier's text becomes ids or numbers.

  Attributes:
    kind: `hash` (a set of hashed words), `hash_words` (hashed words in order),
      `term_frequency` (words of a vocabulary, in any order), `vectors` (the mean of
      words' vectors), `words` (words of a vocabulary in order), `marked_words` (the same
      between [CLS] and [SEP]) or `wordpieces` (BERT's pieces between them).
    max_tokens: Where the sequence is cut off, marks included.
    hash_base: P of the rolling hash.
    hash_buckets: M of the rolling hash.
    vocabulary: The file of the vocabulary, a token a line in the order of the ids, in
      the run's folder.
    vectors: The file of word vectors, in the run's folder or anywhere else.
    whitening: The file, in the run's folder, that says how these are weighed, centred
      and whitened, if they are; the mean is brought to the length sqrt(width) then.
    is_cased: Whether pieces keep the case of letters.
  """

  kind: str
  max_tokens: int | None = None
  hash_base: int | None = None
  hash_buckets: int | None = None
  vocabulary: str | None = None
  vectors: str | None = None
  whitening: str | None = None
  is_cased: bool = False

  @property
  def length_in_words(self) -> str:
    """What is done to the mean of vectors, for sentences about it."""
    return ', brought to the length √width' if self.whitening else ''


@dataclasses.dataclass(frozen=True)
class ClassifierUsage:
  """A classifier: ids, and numbers beside them, to logits.

  Attributes:
    model: Its name.
    classes: The names of the classes. Of two, the only logit is that of the second.
    encoding: What it reads of a text; of a model whose users have their own
      vocabularies, what they do, without a vocabulary.
    dense_width: The width of the side features that come with a text.
    stays_local: What of the model stays with users, and is not in model.keras: nothing
      if empty, `table` (the embedding), `tokens` (the vectors of tokens with digits).
    encoder: The shape of an encoder.
  """

  model: str
  classes: tuple[str, ...]
  encoding: Encoding
  dense_width: int = 0
  stays_local: str = ''
  encoder: EncoderSize | None = None


Usage = LanguageModelUsage | ClassifierUsage

_KINDS: dict[str, type] = {
  'language_model': LanguageModelUsage,
  'classification': ClassifierUsage,
}


def to_json(usage: Usage) -> str:
  """Writes what `from_json` reads."""
  kind = next(kind for kind, cls in _KINDS.items() if isinstance(usage, cls))
  content = {'kind': kind, **dataclasses.asdict(usage)}
  return json.dumps(content, indent=2, ensure_ascii=False) + '\n'


def from_json(text: str) -> Usage:
  """Reads what `to_json` wrote.

  Raises:
    ModelJsonError: If it is something else.
  """
  try:
    content: dict[str, Any] = dict(json.loads(text))
    cls = _KINDS[content.pop('kind')]
    if cls is ClassifierUsage:
      content['classes'] = tuple(content['classes'])
      content['encoding'] = Encoding(**content['encoding'])
      if content['encoder'] is not None:
        content['encoder'] = EncoderSize(**content['encoder'])
    made = cls(**content)
    _check_types(made)
    return made
  except (ValueError, KeyError, TypeError, RecursionError) as error:
    raise ModelJsonError(f'{error}; {_EXPECTED}') from error


def _check_types(made: Any) -> None:
  """Raises `TypeError` unless the fields have the types that they are declared with."""
  for field in dataclasses.fields(made):
    value = getattr(made, field.name)
    if field.name == 'classes':
      is_right = all(isinstance(name, str) for name in value)
    else:
      is_right = isinstance(value, field.type)
    if not is_right:
      raise TypeError(f'{field.name} is {type(value).__name__}')
    if dataclasses.is_dataclass(value):
      _check_types(value)
