"""Tasks on corpora that are shuffled and dealt to clients."""

import dataclasses

from tff_textpriv import randomness
from tff_textpriv.datasets import clients, lm_text
from tff_textpriv.models import presets
from tff_textpriv.settings import setting
from tff_textpriv.tasks import language_data
from tff_textpriv.training import experiment, language_settings, run_settings


@dataclasses.dataclass(frozen=True)
class ShuffledTextSettings(language_settings.LanguageModelSettings):
  """A language-model task on a corpus without users of its own."""

  data: str = setting(
    'embedded',
    'The data: embedded (generated, nothing to download), or the path of the folder '
    'with the corpus’s three files.',
  )
  num_clients: int = setting(
    100, 'Clients to whom the shuffled training text is dealt.', low=1
  )
  model: str = setting(
    'gru_tiny',
    'The model; gru_small, gru_medium and gru_large are 300, 650 and 1500 wide.',
    choices=presets.PRESETS,
  )
  tokenizer: str = setting(
    'word',
    'The most frequent words (word), or sub-words, which can write any word (bpe).',
    choices=('word', 'bpe'),
  )
  tokenizer_source: str = setting(
    'train',
    'What the tokenizer is trained on: the training text, as is usual on these corpora '
    'and nothing that a server could do with users’ text (train), public text, or words '
    'that clients report under local differential privacy (heavy_hitters).',
    choices=('train', 'public', 'heavy_hitters'),
  )
  max_words_per_user: int = setting(
    1_000_000, 'Words after which a client’s text is cut off.', low=1
  )
  model_selection: str = setting(
    'best_validation',
    'Which round’s model is tested and written: the one with the least perplexity on '
    'the validation text, or the last one.',
    choices=('best_validation', 'last'),
  )

  @property
  def reads_streams(self) -> bool:
    """See the base class: perplexities on these corpora carry the state over lines."""
    return True


@dataclasses.dataclass(frozen=True)
class ShuffledRunSettings(run_settings.RunSettings):
  """Rounds as in the paper: 50, of a tenth of the clients."""

  total_rounds: int = setting(50, 'Rounds of training.', low=1)
  clients_per_round: int = setting(
    10,
    'Clients a round: the exact number, or with Poisson cohorts the expected one.',
    low=1,
  )
  cohort_sampling: str = setting(
    'fixed',
    'How clients are drawn: a fixed number without replacement, each independently '
    '(poisson), or each in its turn, not by chance (separated).',
    choices=('fixed', 'poisson', 'separated'),
  )
  rounds_per_eval: int = setting(
    5, 'Rounds between evaluations on the validation text.', low=1
  )


def make_task(name: str, corpus: lm_text.Corpus) -> experiment.Task:
  """Makes the task of a corpus.

  Args:
    name: The task's name, that of its module.
    corpus: What the files are called.
  """
  return experiment.Task(
    name=name,
    summary=f'Trains a language model on {corpus.name}, shuffled and dealt to clients.',
    kind='language_model',
    settings=ShuffledTextSettings,
    load=lambda chosen, seed: _load(chosen, seed, corpus),
    run_settings=ShuffledRunSettings,
  )


def _load(
  chosen: ShuffledTextSettings, seed: int, corpus: lm_text.Corpus
) -> clients.FederatedText:
  """Reads the data that `--data` names and deals them to clients.

  The embedded twin is a generated corpus whose users are shuffled away.
  """
  rng = randomness.generator(seed, 'embedded corpus', corpus.name)
  data = language_data.load(
    chosen,
    embedded_seed=int(rng.integers(2**31)),
    read=lambda path: lm_text.load(path, corpus),
    download=(
      f'there is no public loader for {corpus.name}; fetch it yourself and give the path '
      f'of the folder with {corpus.train}, {corpus.validation} and {corpus.test}'
    ),
  )
  return lm_text.deal(data, chosen.num_clients, seed)
