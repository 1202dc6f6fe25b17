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
from tff_textpriv.training import reading, token_settings


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
  zero_unknown = task.out_of_vocabulary == token_settings.ZERO
  if task.model in sequence_presets.BILSTMS:
    bilstm = sequence_presets.BILSTMS[task.model]
    return sequence_classifiers.BiLstmClassifier(
      *common,
      width or bilstm.embedding_size,
      task.dropout,
      bilstm.units,
      zero_unknown=zero_unknown,
      reads_vectors=task.out_of_vocabulary == token_settings.FALLBACK,
    )
  if task.checkpoint is not None:
    size = encoder_checkpoints.read_size(task.checkpoint)
  else:
    size = sequence_presets.ENCODERS[task.model]
  if task.max_words > size.max_positions:
    raise settings_lib.SettingsError(
      'max_words', task.max_words, f'the encoder has {size.max_positions} positions'
    )
  return encoders.Encoder(
    *common,
    size.width,
    task.dropout,
    size,
    task.checkpoint,
    zero_unknown=zero_unknown,
  )


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
    self._policy = task.out_of_vocabulary
    self._has_pieces = task.checkpoint is not None
    self._sets: list[word_vectors.SomeVectors] = []
    self.public: Sequence[str] = ()
    if task.checkpoint is not None:
      size = encoder_checkpoints.read_size(task.checkpoint)
      pieces = pretrained.read_vocabulary(task.checkpoint)
      table = encoder_checkpoints.read_table(task.checkpoint, size)
      of_piece = dict(zip(pieces, table, strict=True))
      # A checkpoint has learnt what stands for an unknown word.
      unknown = of_piece.get(tokens.UNKNOWN, np.mean(table, axis=0))
      self._sets.append(word_vectors.SomeVectors(of_piece, unknown))
    elif task.vectors_file is not None and task.model in sequence_presets.BILSTMS:
      needed = set(index.tokens)
      for file in (task.vectors_file, *task.more_vectors_files):
        vectors = word_vectors.read_some(file, needed, num_public)
        if not vectors.of_word:
          raise word_vectors.VectorsError(f'{file}: it has no word of the texts')
        self._sets.append(vectors)
    for of_word, _ in self._sets[:1]:
      self.public = [token for token in of_word if token != tokens.UNKNOWN]
      for token in self.public:
        index.number(token)
    self._check_widths(task)

  @property
  def width(self) -> int | None:
    """The width of the vectors; `None` if there are none."""
    return len(self._sets[0].mean) if self._sets else None

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
    number, seed = self._choice(different_for)
    drawn = model.initial_table(seed, len(self._index) + 1)
    places = [self._index.number(token) for token in vocabulary.tokens]
    table = drawn[[*places, len(self._index)]]
    if not self._sets:
      return table
    vectors = self._sets[number]
    table = word_vectors.fill(table, vocabulary.tokens, vectors.of_word)
    if self._policy == token_settings.PRETRAINED:
      table[-1] = vectors.mean
    return table

  def reader(
    self,
    vocabulary: tokens.Vocabulary,
    max_tokens: int,
    different_for: str | None = None,
  ) -> reading.Reading:
    """Makes what reads texts with a vocabulary, and tokens that are not in it.

    Args:
      vocabulary: The vocabulary.
      max_tokens: Where a text is cut off.
      different_for: The user whose start vectors are to be different; see `table`.
    """
    if self._policy != token_settings.FALLBACK:
      return reading.ByRow(vocabulary, self._index)
    if self._has_pieces:
      return reading.ByPiece(vocabulary, self._index, max_tokens)
    vectors = self._sets[self._choice(different_for)[0]]
    return reading.ByVector(vocabulary, self._index, vectors.of_word, len(vectors.mean))

  def _choice(self, different_for: str | None) -> tuple[int, int]:
    """Returns which file a user chooses, the first if nobody does, and a seed."""
    if different_for is None:
      return 0, self._seed
    rng = randomness.generator(self._seed, 'start vectors', different_for)
    return int(rng.integers(len(self._sets) or 1)), int(rng.integers(2**31))

  def _check_widths(self, task: token_settings.TokenSettings) -> None:
    widths = {len(vectors.mean) for vectors in self._sets}
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
