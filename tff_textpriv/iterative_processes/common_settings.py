"""Settings that several algorithms share; each algorithm's own are in its module.

A class names only what it adds to, or starts differently from, the ones it inherits.
"""

import dataclasses
from typing import Self

import numpy as np

from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import algorithm
from tff_textpriv.settings import setting

CLIENT_OPTIMIZERS = ('sgd', 'adam', 'adamw')


@dataclasses.dataclass(frozen=True)
class AlgorithmSettings(settings_lib.Settings):
  """What the runner asks of the settings of any algorithm."""

  @property
  def local_epochs(self) -> int:
    """Passes over its own data that a client makes in a round."""
    return 1

  @property
  def client_step(self) -> float | None:
    """The step size of clients, if they have one."""
    return None

  @property
  def local_optimizer(self) -> str:
    """The kind of the clients' optimizer."""
    return 'sgd'

  @property
  def decay_rounds(self) -> int | None:
    """The rounds over which the step size of clients falls to zero; `None` for never."""
    return None

  @property
  def decays_within_round(self) -> bool:
    """Whether the step size of clients falls to zero in each round."""
    return False

  def step_scale(self, round_number: int) -> float:
    """Returns what the clients' step size is multiplied by in a round, from 0 on."""
    if self.decay_rounds is None:
      return 1.0
    done = np.float32(round_number) / np.float32(self.decay_rounds)
    return float(np.maximum(np.float32(0), np.float32(1) - done))

  @property
  def learns_tokenizer(self) -> bool:
    """Whether a sub-word tokenizer is learnt between the phases of a run."""
    return False

  def legs(self, total_rounds: int) -> tuple[algorithm.Leg, ...]:
    """Returns the phases of a run: one, of all rounds and all users.

    Raises:
      SettingsError: If settings do not fit into so many rounds.
    """
    return (algorithm.Leg(0, total_rounds),)

  def for_audit(self) -> Self:
    """Returns settings under which one client's message can be seen by itself."""
    return self


@dataclasses.dataclass(frozen=True)
class ServerSettings(AlgorithmSettings):
  """How the server applies the aggregated update."""

  server_optimizer: str = setting(
    'adam', 'Optimizer of the server step.', choices=('sgd', 'adam')
  )
  server_learning_rate: float = setting(0.1, 'Step size of the server.', above=0)
  server_momentum: float = setting(
    0.0, 'Momentum of the server, with --server_optimizer=sgd.', low=0, below=1
  )
  server_adam_epsilon: float = setting(
    1e-4,
    'What Adam adds to the denominator, with --server_optimizer=adam; the coordinates '
    'of an averaged update are small.',
    above=0,
  )
  server_decay_rounds: int | None = setting(
    None,
    'Rounds in which the step size of the server falls in a line to zero, e.g. '
    '--total_rounds; a phase with a fresh model begins anew. Constant if not set.',
    low=1,
  )
  client_batch_size: int = setting(16, 'Sentences in a batch on the client.', low=1)


@dataclasses.dataclass(frozen=True)
class GradientClipSettings(AlgorithmSettings):
  """How far one step of local training can go."""

  client_clip_norm: float | None = setting(
    None,
    'L2 norm to which the gradient of each step of local training is clipped, and where '
    'devices keep a part of the model that of this part by itself; not clipped if not '
    'set. It steadies training and promises nothing: that is done by '
    'what bounds the whole update.',
    above=0,
  )


@dataclasses.dataclass(frozen=True)
class LocalTrainingSettings(GradientClipSettings, ServerSettings):
  """How a client trains before it sends the difference."""

  client_optimizer: str = setting(
    'sgd', 'Optimizer of local training.', choices=CLIENT_OPTIMIZERS
  )
  client_learning_rate: float = setting(0.5, 'Step size of the client.', above=0)
  client_momentum: float = setting(
    0.0, 'Momentum of the client, with --client_optimizer=sgd.', low=0, below=1
  )
  client_weight_decay: float = setting(
    0.01, 'Weight decay of the client, with --client_optimizer=adamw.', low=0
  )
  client_epochs_per_round: int = setting(
    1, 'Passes over its own data that a client makes in a round.', low=1
  )

  @property
  def local_epochs(self) -> int:
    """See the base class."""
    return self.client_epochs_per_round

  @property
  def client_step(self) -> float:
    """See the base class."""
    return self.client_learning_rate

  @property
  def local_optimizer(self) -> str:
    """See the base class."""
    return self.client_optimizer

  @property
  def weighs_by_examples(self) -> bool:
    """Whether clients count by their number of examples in the mean."""
    return False


@dataclasses.dataclass(frozen=True)
class FullStepSettings(AlgorithmSettings):
  """A server that applies the aggregated update as it is, unless told otherwise."""

  server_optimizer: str = setting(
    'sgd', 'Optimizer of the server step.', choices=('sgd', 'adam')
  )
  server_learning_rate: float = setting(1.0, 'Step size of the server.', above=0)


@dataclasses.dataclass(frozen=True)
class MeanSettings(LocalTrainingSettings):
  """How the clients' updates are averaged."""

  client_weighting: str = setting(
    'examples',
    'How clients count in the mean: by their number of examples, or all alike.',
    choices=('examples', 'uniform'),
  )

  @property
  def weighs_by_examples(self) -> bool:
    """See the base class."""
    return self.client_weighting == 'examples'


@dataclasses.dataclass(frozen=True)
class ScheduleSettings(AlgorithmSettings):
  """How the step size of clients changes from round to round."""

  client_decay_rounds: int | None = setting(
    None,
    'Rounds over which the step size of the client decays linearly to zero; never if '
    'not set.',
    low=1,
  )
  client_decay_within_round: bool = setting(
    False,
    'Let the step size of the client decay linearly over the batches of each round, from '
    'the whole to zero, and in the same way over those of an adaptation.',
  )

  @property
  def decay_rounds(self) -> int | None:
    """See the base class."""
    return self.client_decay_rounds

  @property
  def decays_within_round(self) -> bool:
    """See the base class."""
    return self.client_decay_within_round


@dataclasses.dataclass(frozen=True)
class DeviceSettings(AlgorithmSettings):
  """Algorithms whose devices keep something between rounds."""

  device_store: str = setting(
    'disk',
    'Where simulated devices keep their part: in files of the run’s folder (disk), or '
    'in memory, copied to the disk with each checkpoint (memory).',
    choices=('disk', 'memory'),
  )


@dataclasses.dataclass(frozen=True)
class PersonalSettings(
  DeviceSettings, FullStepSettings, ScheduleSettings, LocalTrainingSettings
):
  """Methods whose users have a model, or a part of one, of their own."""

  client_optimizer: str = setting(
    'adam',
    'Optimizer of local training; the state of the local part’s is kept on the device.',
    choices=CLIENT_OPTIMIZERS,
  )
  client_learning_rate: float = setting(0.005, 'Step size of the client.', above=0)
  fresh_optimizer: bool = setting(
    False,
    'Start the optimizer of a user’s own part anew in each round, and once more after '
    'adaptation, as the private vocabulary paper’s code does; by default it goes on where '
    'it was.',
  )
  user_words: int | None = setting(
    None,
    'Size of a user’s own vocabulary: the most frequent words of its text; all if not '
    'set.',
    low=1,
  )
  different_init: bool = setting(
    False,
    'Let users’ embeddings start differently: each chooses among --vectors_file and '
    '--more_vectors_files or, without vectors, draws its own; by default the same word '
    'starts with the same vector.',
  )
  public_words: int = setting(
    0,
    'Words that all users have in their vocabularies anyway, so that words they have not '
    'used yet are told apart: the first ones of --vectors_file or of the checkpoint.',
    low=0,
  )
