"""Vocabularies and embedding tables of a run: the common one, and users' own."""

from collections.abc import Iterable, Sequence

import numpy as np

from tff_textpriv import randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.models import (
  encoder_checkpoints,
  encoders,
  pretrained,
  sequence_classifiers,
  sequence_presets,
  usage,
)
from tff_textpriv.text import ragged, tokens, word_vectors, wordpieces
from tff_textpriv.training import token_settings


def splitter(task: token_settings.TokenSettings) -> tokens.Split:
  """Returns what splits texts into the tokens that the model reads, cut off."""
  if task.model in sequence_presets.BILSTMS:
    return lambda text: tokens.split_words(text)[: task.max_words]
  split = tokens.split_words
  if task.checkpoint is not None:
    split = wordpieces.WordPieces(
      pretrained.read_vocabulary(task.checkpoint),
      is_cased=pretrained.is_cased(task.checkpoint),
    ).split
  return lambda text: [
    tokens.START,
    *split(text)[: task.max_words - 2],
    tokens.END,
  ]


def encoding(task: token_settings.TokenSettings) -> usage.Encoding:
  """Describes what `splitter` does, for those who use the model later."""
  if task.model in sequence_presets.BILSTMS:
    return usage.Encoding('words', task.max_words)
  if task.checkpoint is None:
    return usage.Encoding('marked_words', task.max_words)
  return usage.Encoding(
    'wordpieces', task.max_words, is_cased=pretrained.is_cased(task.checkpoint)
  )


def make_model(
  task: token_settings.TokenSettings, num_rows: int, num_classes: int, width: int | None
) -> sequence_classifiers.SequenceClassifier:
  """Makes the classifier of the settings.

  Args:
    task: The settings.
    num_rows: The number of rows of its table.
    num_classes: The number of classes.
    width: The width of the table if it is to be filled with vectors.
  """
  common = (num_rows, 0, num_classes)
  if task.model in sequence_presets.BILSTMS:
    bilstm = sequence_presets.BILSTMS[task.model]
    return sequence_classifiers.BiLstmClassifier(
      *common, width or bilstm.embedding_size, task.dropout, bilstm.units
    )
  if task.checkpoint is not None:
    size = encoder_checkpoints.read_size(task.checkpoint)
  else:
    size = sequence_presets.ENCODERS[task.model]
  if task.max_words > size.max_positions:
    raise settings_lib.SettingsError(
      'max_words', task.max_words, f'the encoder has {size.max_positions} positions'
    )
  return encoders.Encoder(*common, size.width, task.dropout, size, task.checkpoint)


class StartVectors:
  """Where embeddings start: vectors of files or a checkpoint, or drawn by the seed.

  Attributes:
    public: The tokens that have vectors, those of the first file, in its order.
  """

  def __init__(
    self,
    task: token_settings.TokenSettings,
    index: tokens.TokenIndex,
    num_public: int,
    seed: int,
  ):
    """Reads what the settings name.

    Args:
      task: The settings.
      index: Knows the tokens of all texts; learns those that are public.
      num_public: How many words at the beginning of the files are needed even if no
        text has them.
      seed: Decides what is drawn.
    """
    self._seed = seed
    self._index = index
    self._sets: list[dict[str, np.ndarray]] = []
    self.public: Sequence[str] = ()
    if task.checkpoint is not None:
      size = encoder_checkpoints.read_size(task.checkpoint)
      pieces = pretrained.read_vocabulary(task.checkpoint)
      table = encoder_checkpoints.read_table(task.checkpoint, size)
      self._sets.append(dict(zip(pieces, table, strict=True)))
    elif task.vectors_file is not None and task.model in sequence_presets.BILSTMS:
      needed = set(index.tokens)
      for file in (task.vectors_file, *task.more_vectors_files):
        self._sets.append(word_vectors.read_some(file, needed, num_public))
    for vectors in self._sets[:1]:
      self.public = [token for token in vectors if token != tokens.UNKNOWN]
      for token in self.public:
        index.number(token)
    self._check_widths(task)

  @property
  def width(self) -> int | None:
    """The width of the vectors; `None` if there are none."""
    return len(next(iter(self._sets[0].values()))) if self._sets else None

  def table(
    self,
    model: sequence_classifiers.SequenceClassifier,
    vocabulary: tokens.Vocabulary,
    different_for: str | None = None,
  ) -> np.ndarray:
    """Makes the first table of a vocabulary.

    The same token starts with the same vector for everybody, unless a user is named
    whose table is to be different: it chooses another file, or draws for itself.

    Args:
      model: Draws rows.
      vocabulary: What the rows are for.
      different_for: The user.
    """
    seed, number = self._seed, 0
    if different_for is not None:
      rng = randomness.generator(self._seed, 'start vectors', different_for)
      number = int(rng.integers(len(self._sets) or 1))
      seed = int(rng.integers(2**31))
    drawn = model.initial_table(seed, len(self._index) + 1)
    places = [self._index.number(token) for token in vocabulary.tokens]
    table = drawn[[*places, len(self._index)]]
    if not self._sets:
      return table
    return word_vectors.fill(table, vocabulary.tokens, self._sets[number])

  def _check_widths(self, task: token_settings.TokenSettings) -> None:
    widths = {len(next(iter(vectors.values()))) for vectors in self._sets}
    if len(widths) > 1:
      raise settings_lib.SettingsError(
        'more_vectors_files',
        task.more_vectors_files,
        f'vectors of all files must have one width, not {sorted(widths)}',
      )


def common_vocabulary(
  task: token_settings.TokenSettings,
  public: Sequence[str],
  texts: Iterable[int],
  encoded: ragged.RaggedIds,
  index: tokens.TokenIndex,
) -> tokens.Vocabulary:
  """Makes the vocabulary of methods that have one for all, tokens with digits first.

  Args:
    task: The settings.
    public: The tokens of the vectors or of the checkpoint; if there are none, the
      training texts' own are taken.
    texts: The numbers of the training texts.
    encoded: All texts, encoded.
    index: What encoded them.
  """
  if task.checkpoint is not None:
    chosen = list(public)
  elif public:
    chosen = list(public)[: task.vocab_size]
  else:
    vocabulary = tokens.most_frequent(
      encoded, np.fromiter(texts, np.int64), index, task.vocab_size
    )
    chosen = vocabulary.tokens
  return tokens.Vocabulary(
    sorted(chosen, key=lambda token: not tokens.has_digit(token))
  )
