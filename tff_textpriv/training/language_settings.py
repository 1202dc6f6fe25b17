"""Settings of a language-model task: text, tokenizer, model, evaluation."""

import dataclasses

from tff_textpriv.iterative_processes import algorithm
from tff_textpriv.models import presets
from tff_textpriv.privacy import count_mean_sketch
from tff_textpriv.settings import SettingsError, setting


@dataclasses.dataclass(frozen=True)
class LanguageModelSettings(count_mean_sketch.HeavyHittersSettings):
  """The text, the tokenizer and the model of a language-model task."""

  data: str = setting(
    'embedded',
    'The data: embedded (generated, nothing to download), download (by TFF’s own '
    'loader), or the path of a file.',
    key='generated text, or the path of yours (docs/data.md)',
  )
  data_dir: str = setting(
    'runs/data', 'The folder for downloads and for the cache of encoded text.'
  )
  public_data: str | None = setting(
    None,
    'Public text, one document a line, for the tokenizer; the embedded data bring '
    'their own.',
  )
  num_users: int = setting(300, 'Training users of the embedded data.', low=1)
  model: str = setting(
    'lstm_tiny',
    'The model: tiny trains on a laptop, paper has 3 layers and 14M parameters.',
    choices=presets.PRESETS,
    key='the model; tiny ones train on a laptop',
  )
  tied_embeddings: bool = setting(
    True, 'Use the input embedding as the output layer too.'
  )
  dropout: float = setting(
    0.0, 'Share of the model’s units that training drops.', low=0, below=1
  )
  tokenizer: str = setting(
    'bpe',
    'Sub-words, which can write any word (bpe), or the most frequent words (word).',
    choices=('bpe', 'word'),
  )
  vocab_size: int = setting(2000, 'Size of the vocabulary.', low=5)
  tokenizer_source: str = setting(
    'public',
    'What the (first) tokenizer is trained on: public text; words that users report '
    'under local differential privacy (heavy_hitters); or, for comparison only, as '
    'there is no privacy in it, the training users’ own text (oracle).',
    choices=('public', 'heavy_hitters', 'oracle'),
  )
  train_users: str = setting(
    'all',
    'Who trains: all training users, or the second half of them, which leaves the '
    'first half to whatever finds the tokenizer.',
    choices=('all', 'second_half'),
  )
  warm_start_epochs: int = setting(
    0,
    'Passes over the public text on which the server trains the first model before '
    'round 1, at no cost in privacy; a fresh model of a later phase gets them too.',
    low=0,
  )
  warm_start_learning_rate: float = setting(
    0.002, 'Step size of Adam, with --warm_start_epochs.', above=0
  )
  max_words_per_user: int = setting(
    1200, 'Words after which a user’s text is cut off.', low=1
  )
  max_sentence_words: int = setting(
    24, 'Words in a training example; longer posts go on in the next one.', low=2
  )
  max_eval_users: int = setting(
    200, 'Users of each evaluation, at most; drawn once, by the seed.', low=1
  )
  model_selection: str = setting(
    'last',
    'Which round’s model is tested and written: the last one, or the one with the '
    'least perplexity on the validation users (best_validation).',
    choices=('last', 'best_validation'),
  )
  target_perplexity: float | None = setting(
    None,
    'Validation perplexity per token; results.json names the first evaluated round '
    'that was at or below it (see --rounds_per_eval).',
    above=1,
  )
  stop_at_target: bool = setting(
    False, 'End the run with the round that reaches --target_perplexity.'
  )
  own_test_share: float | None = setting(
    None,
    'Share of each training user’s posts, the last ones, that training leaves out and '
    'the users’ own models are tested on; by default a fifth with algorithms that leave '
    'a part of the model on the device, and none with others.',
    low=0,
    below=1,
  )

  def __post_init__(self) -> None:
    """Checks what fields say together; see the base class."""
    super().__post_init__()
    if self.stop_at_target and self.target_perplexity is None:
      raise SettingsError(
        'stop_at_target', True, 'there is no target: give --target_perplexity, too'
      )

  @property
  def training_group(self) -> str:
    """The users who train, by the ledger's name."""
    if self.train_users == 'second_half':
      return algorithm.SECOND_HALF
    return algorithm.ALL_USERS

  @property
  def reported_epsilon(self) -> float:
    """What users spend before the first round, on reports of their words."""
    if self.tokenizer_source != 'heavy_hitters':
      return 0.0
    return self.heavy_hitters_epsilon

  @property
  def reads_streams(self) -> bool:
    """Whether an evaluated user's texts are one text, read from beginning to end."""
    return False

  @property
  def user_note(self) -> str | None:
    """Whom a privacy figure is about, where clients are not people."""
    return None
