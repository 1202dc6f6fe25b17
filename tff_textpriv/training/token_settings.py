"""Settings of the tasks whose models read words in their order."""

import dataclasses

from tff_textpriv import settings as settings_lib
from tff_textpriv.models import sequence_presets
from tff_textpriv.settings import setting
from tff_textpriv.training import classification_settings

# What --out_of_vocabulary may be.
RANDOM = 'random'
ZERO = 'zero'
TRAINED = 'trained'
PRETRAINED = 'pretrained'
FALLBACK = 'fallback'
_WORD_DROPOUT = 0.1
# What --last_training may be.
ALL = 'all'
OUTPUT_LAYER = 'output_layer'


@dataclasses.dataclass(frozen=True)
class TokenSettings(classification_settings.ClassificationSettings):
  """Classification of texts by a BiLSTM or an encoder, or by a bag of hashed words."""

  federation: str = setting(
    'dirichlet',
    'How training examples are dealt to clients: about as many to each, at random (shards), '
    'or with class shares of their own (dirichlet).',
    choices=('shards', 'dirichlet'),
  )
  model: str = setting(
    'bilstm_tiny',
    'A BiLSTM, an encoder like BERT, or one of the models of hashed words; '
    'encoder_checkpoint takes size and weights from --checkpoint.',
    choices=(*sequence_presets.MODELS, *classification_settings.MODELS),
  )
  checkpoint: str | None = setting(
    None,
    'With encoder_checkpoint, the folder of a BERT or DistilBERT as Hugging Face '
    'distributes it: config.json, vocab.txt and *.safetensors or *.h5.',
  )
  vectors_file: str | None = setting(
    None,
    'A file of word vectors in text format (GloVe, fastText): where the embedding of a '
    'BiLSTM starts, and with --representation=vectors all that is read.',
  )
  more_vectors_files: tuple[str, ...] = setting(
    (),
    'Other such files of the same width, among which users choose with '
    '--different_init.',
  )
  vocab_size: int | None = setting(
    20_000,
    'Size of the common vocabulary, for methods that have one: the first words of '
    '--vectors_file, or else the most frequent ones of the training text.',
    low=1,
  )
  out_of_vocabulary: str = setting(
    RANDOM,
    'What is read for a word that is not in the vocabulary, be it everybody’s or a user’s '
    'own: a row that starts at random (random), zeros that stay zeros (zero), a row that '
    '--word_dropout trains (trained), one that starts as the mean of the public vectors or '
    'as the checkpoint’s own (pretrained), or the word’s own public vector, which is not '
    'trained; with a checkpoint, pieces of the word that are in the vocabulary (fallback).',
    choices=(RANDOM, ZERO, TRAINED, PRETRAINED, FALLBACK),
  )
  word_dropout: float | None = setting(
    None,
    'Share of the words of a training text that the unknown word replaces, drawn anew in '
    'each round; by default 0.1 with --out_of_vocabulary=trained, and none otherwise.',
    low=0,
    below=1,
  )
  max_words: int = setting(
    64, 'Where a text is cut off, in words or pieces of words.', low=3
  )
  dropout: float = setting(
    0.5, 'Share of the units that training drops; BERT’s own is 0.1.', low=0, below=1
  )
  max_eval_users: int = setting(
    100, 'Users whose own models are tested, at most; drawn by the seed.', low=1
  )
  max_eval_examples: int = setting(
    500,
    'Test examples of each user, at most: of the common test, and of a test with its own '
    'class shares.',
    low=1,
  )
  last_training: str = setting(
    ALL,
    'What a user trains in the round before its own model is tested: what it trains in '
    'other rounds (all), or the output layer only, so that it forgets less (output_layer).',
    choices=(ALL, OUTPUT_LAYER),
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    needs_checkpoint = self.model == sequence_presets.ENCODER_CHECKPOINT
    if needs_checkpoint != (self.checkpoint is not None):
      raise settings_lib.SettingsError(
        'checkpoint', self.checkpoint, 'goes with --model=encoder_checkpoint, always'
      )

    if self.reads_tokens and self.representation != 'hash':
      raise settings_lib.SettingsError(
        'representation',
        self.representation,
        f'--model={self.model} reads words in their order, and no other representation',
      )
    self._check_unknown_words()

  def _check_unknown_words(self) -> None:
    """Refuses what unknown words cannot be read as."""
    policy = self.out_of_vocabulary
    has_vectors = (
      self.vectors_file is not None and self.model in sequence_presets.BILSTMS
    )
    if policy != RANDOM and not self.reads_tokens:
      raise settings_lib.SettingsError(
        'out_of_vocabulary', policy, f'--model={self.model} has no vocabulary'
      )
    if policy in (PRETRAINED, FALLBACK) and not (has_vectors or self.checkpoint):
      raise settings_lib.SettingsError(
        'out_of_vocabulary',
        policy,
        'needs public vectors: --vectors_file with a BiLSTM, or --checkpoint with an '
        'encoder',
      )
    if policy == TRAINED and self.word_dropout == 0:
      raise settings_lib.SettingsError(
        'word_dropout', 0.0, f'must be more with --out_of_vocabulary={policy}'
      )

  @property
  def share_of_dropped_words(self) -> float:
    """The share of words that the unknown word replaces in training."""
    if self.word_dropout is not None:
      return self.word_dropout
    return _WORD_DROPOUT if self.out_of_vocabulary == TRAINED else 0.0

  @property
  def reads_tokens(self) -> bool:
    """Whether the model reads words in order, through an embedding table."""
    return self.model in sequence_presets.MODELS

  @property
  def reads_clients_text(self) -> bool:
    """Whether the common vocabulary is made of the clients' text."""
    if not self.reads_tokens:
      return super().reads_clients_text
    return self.checkpoint is None and self.vectors_file is None
