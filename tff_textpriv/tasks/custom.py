"""Your own text: a language model, or a classifier where a column holds labels.

python -m tff_textpriv.tasks.custom --data=posts.csv --user_column=author \
  --text_column=body --label_column=stars --algo=fed_avg
"""

import dataclasses
from collections.abc import Collection, Mapping

from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import (
  clients,
  conversion,
  data_summary,
  embedded_labelled,
  labelled,
  own_text,
)
from tff_textpriv.iterative_processes import registry
from tff_textpriv.models import sequence_presets
from tff_textpriv.settings import setting
from tff_textpriv.tasks import base, language_data, own_defaults
from tff_textpriv.training import (
  classification_settings,
  experiment,
  language_settings,
  token_settings,
)

_DATA = (
  'The data: embedded (generated, nothing to download), or the path of a .csv, .tsv, '
  '.jsonl or .parquet file, of LEAF’s .json, of a .sqlite file in TFF’s layout, of a '
  'folder of such files, or of a folder of text files, USER/*.txt or USER.txt.'
)
# Clients of a round of which nothing was said.
_MOST_CLIENTS = 100
_EMBEDDED_CLASSES = ('red', 'green', 'blue')


@dataclasses.dataclass(frozen=True)
class OwnTextSettings(settings_lib.Settings):
  """Which columns are read, and how users are dealt into groups."""

  user_column: str | None = setting(
    None,
    'The column that tells users apart; for tables always needed.',
    key='the column that tells users apart',
  )
  text_column: str | None = setting(
    None, 'The column of texts; for tables always needed.', key='the column of texts'
  )
  label_column: str | None = setting(
    None,
    'The column of labels. With it, a classifier is trained; without it, a language '
    'model.',
    key='the column of labels, for a classifier',
  )
  split_column: str | None = setting(
    None,
    'The column that says which users train (train, validation or test); by default '
    'users are dealt at random.',
  )
  validation_share: float = setting(
    0.1, 'Share of users on whom choices are made.', above=0, below=1
  )
  test_share: float = setting(
    0.1, 'Share of users on whom the result is measured.', above=0, below=1
  )
  max_examples_per_user: int | None = setting(
    None, 'Texts of a user to keep, the first ones; all if not set.', low=1
  )
  max_broken_share: float = setting(
    0.01, 'Stop if more than this share of rows cannot be used.', low=0, high=1
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.validation_share + self.test_share >= 1:
      raise settings_lib.IncompatibleSettingsError(
        f'--validation_share={self.validation_share:g} and '
        f'--test_share={self.test_share:g} leave nobody to train'
      )


@dataclasses.dataclass(frozen=True)
class OwnLanguageSettings(language_settings.LanguageModelSettings, OwnTextSettings):
  """A language model of your own text."""

  data: str = setting('embedded', _DATA)

  def check_public_text(self) -> None:
    """Raises `SettingsError` if there is nothing to learn a tokenizer from."""
    if (
      self.data != 'embedded'
      and self.public_data is None
      and self.tokenizer_source != 'oracle'
    ):
      raise settings_lib.SettingsError(
        'public_data',
        None,
        'is missing. The tokenizer is learnt from public text, since one that is learnt '
        'from users’ text gives them away: name a text file with one document a line, '
        'such as Wikipedia articles, with --public_data=FILE. To try without, at no '
        'privacy at all: --tokenizer_source=oracle (private algorithms also need '
        '--privacy_claim=false)',
      )


@dataclasses.dataclass(frozen=True)
class OwnLabelsSettings(token_settings.TokenSettings, OwnTextSettings):
  """A classifier of your own text."""

  data: str = setting('embedded', _DATA)
  data_dir: str = setting('runs/data', 'The folder for the converted text.')
  federation: str = setting(
    'users',
    'How training examples are dealt to clients: to the users who wrote them (users), '
    'about as many to each, at random (shards), or with class shares of their own '
    '(dirichlet).',
    choices=('users', 'shards', 'dirichlet'),
  )
  model: str = setting(
    'logistic',
    'A model of hashed words (logistic regression, a network, or the same with an LSTM '
    'in front), a BiLSTM, or an encoder like BERT, of size and weights from --checkpoint '
    'if it is encoder_checkpoint. For algorithms that leave an embedding of words on the '
    'device, the default is bilstm_tiny.',
    choices=(*classification_settings.MODELS, *sequence_presets.MODELS),
  )

  @property
  def parts_users(self) -> bool:
    """Whether texts of one person, known as such, are dealt to several clients."""
    return self.federation != 'users'


@dataclasses.dataclass(frozen=True)
class OwnLabelsRunSettings(classification_settings.ClassificationRunSettings):
  """Of users there may be very many."""

  clients_per_round: int = setting(
    0,
    'Clients a round: the exact number with fixed cohorts, else the expected one; 0 for '
    f'{_MOST_CLIENTS}, or all if they are fewer.',
    low=0,
  )

  def cohort(self, num_clients: int) -> int:
    """Returns how many clients take part in a round, of so many."""
    return self.clients_per_round or min(num_clients, _MOST_CLIENTS)


_Settings = OwnLanguageSettings | OwnLabelsSettings


def check(chosen: _Settings) -> None:
  """Refuses a file or a column that is not there, and then public text that is not."""
  if chosen.data not in ('embedded', 'download'):
    conversion.check(_source(chosen))
  if isinstance(chosen, OwnLanguageSettings):
    chosen.check_public_text()


def load_text(chosen: OwnLanguageSettings, seed: int) -> clients.FederatedText:
  """Reads the data that `--data` names, and prints what is in them."""
  return language_data.load(
    chosen,
    embedded_seed=seed,
    read=lambda _: _read_text(chosen, seed),
    download='your own text is nowhere to be downloaded from; give a path',
  )


def load_labelled(chosen: OwnLabelsSettings, seed: int) -> labelled.LabelledData:
  """Reads the labelled data that `--data` names, and prints what is in them."""
  if chosen.data == 'embedded':
    return embedded_labelled.with_users(
      embedded_labelled.topics(seed, _EMBEDDED_CLASSES, sentences=(1, 3)), seed
    )
  path, data = _open(chosen, seed)
  examples = own_text.read_labelled(path, data, chosen.max_examples_per_user)
  summary = _say_what_is_there(chosen, path, data, examples, seed)
  return dataclasses.replace(examples, summary=summary)


def _read_text(chosen: OwnLanguageSettings, seed: int) -> clients.FederatedText:
  path, data = _open(chosen, seed)
  summary = _say_what_is_there(chosen, path, data, None, seed)
  return dataclasses.replace(data, summary=summary)


def _source(chosen: _Settings) -> conversion.Source:
  return conversion.Source(
    chosen.data,
    chosen.user_column,
    chosen.text_column,
    chosen.label_column,
    chosen.split_column,
  )


def _open(chosen: _Settings, seed: int) -> tuple[str, clients.FederatedText]:
  """Converts the data if they are not yet, and deals their users into groups."""
  path = conversion.convert(_source(chosen), chosen.data_dir)
  own_text.check_broken(path, chosen.max_broken_share)
  data = own_text.open_groups(
    path,
    own_text.data_set_name(chosen.data),
    seed,
    validation_share=chosen.validation_share,
    test_share=chosen.test_share,
    max_texts=chosen.max_examples_per_user,
  )
  data.check_disjoint()
  return path, data


def _say_what_is_there(
  chosen: _Settings,
  path: str,
  data: clients.FederatedText,
  examples: labelled.LabelledData | None,
  seed: int,
) -> tuple[str, ...]:
  """Prints the summary of the data; returns what of it a run may keep.

  What classes are called is the users' own text, and stays on the screen.
  """

  def described(shown: labelled.LabelledData | None) -> list[str]:
    return data_summary.describe(
      path, data, shown, max_texts=chosen.max_examples_per_user, seed=seed
    )

  print('\n'.join(described(examples)))
  if examples is not None:
    numbers = tuple(f'class {i + 1}' for i in range(len(examples.classes)))
    examples = dataclasses.replace(examples, classes=numbers)
  return tuple(described(examples))


def _fit(
  chosen: experiment.Experiment, given: Collection[str]
) -> experiment.Experiment:
  """Puts values that go with the number of users in the place of defaults."""
  task = chosen.task_settings
  if task.data in ('embedded', 'download') or not chosen.privacy_settings.claims:
    return chosen
  check(task)
  chosen.privacy_settings.check()
  number, size = num_training_users(chosen), num_coordinates(chosen)
  return own_defaults.fitted(chosen, given, number, size)


def num_training_users(chosen: experiment.Experiment) -> int:
  """Returns how many users train."""
  _, data = _open(chosen.task_settings, chosen.run.seed)
  return len(data.train.client_ids)


def num_coordinates(chosen: experiment.Experiment) -> int | None:
  """Returns the size of a logistic regression; others are known when they are made."""
  task = chosen.task_settings
  if chosen.model_name != 'logistic' or task.representation != 'hash':
    return None
  classes = num_classes(chosen)
  return (task.hash_buckets + 1) * (1 if classes == 2 else classes)


def num_classes(chosen: experiment.Experiment) -> int:
  """Returns how many classes there are."""
  path, data = _open(chosen.task_settings, chosen.run.seed)
  return len(own_text.read_labelled(path, data).classes)


def _defaults(algorithm: registry.Algorithm) -> Mapping[str, str]:
  """Chooses a model with an embedding where the algorithm leaves it on the device."""
  return {} if algorithm.has_whole_model else {'model': 'bilstm_tiny'}


_SUMMARY = (
  'Trains on your own text: a language model, or with --label_column a classifier.'
)
TASK = experiment.Task(
  name='custom',
  summary=_SUMMARY,
  kind='language_model',
  settings=OwnLanguageSettings,
  load=load_text,
  check=check,
  accounts_own_users=True,
  fit=_fit,
  variants={
    'label_column': experiment.Task(
      name='custom',
      summary=_SUMMARY,
      kind='classification',
      settings=OwnLabelsSettings,
      load=load_labelled,
      check=check,
      accounts_own_users=True,
      fit=_fit,
      run_settings=OwnLabelsRunSettings,
      run_name='custom_labels',
      defaults=_defaults,
    )
  },
)

if __name__ == '__main__':
  base.main(TASK)
