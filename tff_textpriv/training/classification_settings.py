"""Settings of a classification task: text, federation, representation, model."""

import dataclasses

from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import algorithm
from tff_textpriv.settings import setting
from tff_textpriv.training import run_settings

MODELS = ('logistic', 'network', 'lstm_network')
# Means of the word vectors of a file.
OF_A_FILE = ('vectors', 'weighed_vectors')
REPRESENTATIONS = ('hash', 'hash_words', 'term_frequency', 'word2vec', *OF_A_FILE)
# Representations that are fitted on the training text, which no noise protects.
FITTED = ('term_frequency', 'word2vec')


@dataclasses.dataclass(frozen=True)
class ClassificationSettings(settings_lib.Settings):
  """The data, how they are dealt to clients, and what learns from them."""

  data: str = setting(
    'embedded',
    'The data: embedded (generated, nothing to download), or the path of a file or '
    'folder.',
    key='generated text, or the path of yours (docs/data.md)',
  )
  max_train_examples: int | None = setting(
    None, 'Training examples to keep, drawn by the seed; all if not set.', low=1
  )
  federation: str = setting(
    'shards',
    'How training examples are dealt to clients: about as many to each, at random (shards), '
    'with class shares of their own (dirichlet), or one to each (examples), as where '
    'nobody has written more than one.',
    choices=('shards', 'dirichlet', 'examples'),
  )
  num_clients: int | None = setting(
    None,
    'Number N of clients; by default 100, or all users, or with '
    '--federation=examples all examples.',
    low=1,
    key='number of clients; by default 100, or all users',
  )
  dirichlet_alpha: float = setting(
    1.0,
    'With --federation=dirichlet, how alike clients are; small is different.',
    above=0,
  )
  dirichlet_prior: str = setting(
    'uniform',
    'With --federation=dirichlet, what --dirichlet_alpha is multiplied by for each class: '
    'nothing (uniform), or its share of the training examples (classes), as in the private '
    'vocabulary paper’s code, where users differ more.',
    choices=('uniform', 'classes'),
  )
  updates_per_epoch: int | None = setting(
    None,
    'Local updates of a pass over a client’s examples, however many these are: sets '
    'the batch size, so that the number of updates stays the same as clients get more '
    'and their data less. Takes the place of --client_batch_size.',
    low=1,
  )
  representation: str = setting(
    'hash',
    'What a model reads of a text: hashed words as a binary vector (hash) or in their '
    'order (hash_words, with a trained embedding); or, as references, counts of the '
    'training text’s words (term_frequency), or the mean of word vectors, trained '
    'on the training text (word2vec) or from a file, as they are (vectors) or so that '
    'common words count less (weighed_vectors).',
    choices=REPRESENTATIONS,
  )
  hash_buckets: int = setting(5000, 'Number M of hash buckets.', low=2, high=2**31 - 2)
  hash_base: int = setting(31, 'Base P of the rolling hash.', low=1)
  max_words: int = setting(300, 'With hash_words, where a text is cut off.', low=1)
  embedding_size: int = setting(
    100,
    'With hash_words, the width of the embedding; with word2vec, of vectors.',
    low=1,
  )
  vocab_size: int | None = setting(
    None,
    'With term_frequency, word2vec and vectors, how many words of the training text to '
    'keep, the most frequent; all if not set.',
    low=1,
  )
  word2vec_text: str = setting(
    'train',
    'What word2vec is trained on: the training text, or the text of validation and test, '
    'too (all), which only a reference may see.',
    choices=('train', 'all'),
  )
  word2vec_epochs: int = setting(
    5, 'With word2vec, how often its text is read; gensim reads it five times.', low=1
  )
  vectors_file: str | None = setting(
    None,
    'With vectors and weighed_vectors, a file of word vectors in text format (GloVe, '
    'fastText); for the latter with the most frequent words first.',
  )
  whitening_text: str | None = setting(
    None,
    'With weighed_vectors, public text with one document per line, by which vectors are '
    'centred and whitened; by default they are by the law of Zipf.',
  )
  model: str = setting(
    'logistic',
    'Logistic regression, a ReLU network of 100, 50 and 25 units, or the same with an '
    'LSTM of 50 units in front.',
    choices=MODELS,
    key='the model',
  )
  dropout: float = setting(
    0.2,
    'Share of the units of each hidden layer that training drops.',
    low=0,
    below=1,
  )
  model_selection: str = setting(
    'last',
    'Which round’s model is tested and written: the last one, or the one with the '
    'least loss on the validation examples (best_validation).',
    choices=('last', 'best_validation'),
  )

  @property
  def reads_tokens(self) -> bool:
    """Whether the model reads words in order, through a table of a vocabulary."""
    return False

  @property
  def reads_clients_text(self) -> bool:
    """Whether the representation is fitted on the clients' text."""
    chooses_words = self.representation == 'vectors' and self.vocab_size is not None
    return self.representation in FITTED or chooses_words

  @property
  def training_group(self) -> str:
    """The users who train, by the ledger's name."""
    return algorithm.ALL_USERS

  @property
  def reported_epsilon(self) -> float:
    """What users spend before the first round."""
    return 0.0

  @property
  def user_note(self) -> str | None:
    """Whom a privacy figure is about, where clients are not people."""
    if self.federation == 'users':
      return None
    if self.federation == 'examples':
      return (
        'A user of this run is whoever wrote one example (--federation=examples). The data '
        'do not say who that is: a person who wrote several of them spends as many times '
        'the figure.'
      )
    return (
      f'A user of this run is a simulated client (--federation={self.federation}), a '
      'part of the data set that was put together at random. Who wrote the examples '
      'does not count, so that a figure for users promises nothing to a person.'
    )

  @property
  def parts_users(self) -> bool:
    """Whether texts of one person, known as such, are dealt to several clients."""
    return False


@dataclasses.dataclass(frozen=True)
class ClassificationRunSettings(run_settings.RunSettings):
  """What decides the result, with defaults for a federation of few clients."""

  total_rounds: int = setting(25, 'Rounds of training.', low=1)
  clients_per_round: int = setting(
    0,
    'Clients a round: the exact number with fixed cohorts, else the expected one; 0 for '
    'all.',
    low=0,
  )
  cohort_sampling: str = setting(
    'fixed',
    'How clients are drawn: a fixed number without replacement, each independently '
    '(poisson), or each in its turn, not by chance (separated).',
    choices=('poisson', 'fixed', 'separated'),
  )
  rounds_per_eval: int = setting(
    5, 'Rounds between evaluations on the validation examples.', low=1
  )
  device_failure_rate: float = setting(
    0.0,
    'Share of a round’s clients whose devices drop out before they have reported; the '
    'mean is that of the others, and metrics.csv counts them.',
    low=0,
    below=1,
  )

  def cohort(self, num_clients: int) -> int:
    """Returns how many clients take part in a round, of so many."""
    return self.clients_per_round or num_clients
