"""The settings of every algorithm: one class each, whose fields are its flags.

A class names only what it adds to, or starts differently from, the ones it inherits.
"""

import dataclasses

from tff_textpriv import settings as settings_lib
from tff_textpriv.privacy import plans
from tff_textpriv.settings import setting

CLIENT_OPTIMIZERS = ('sgd', 'adam', 'adamw')


@dataclasses.dataclass(frozen=True)
class ServerSettings(settings_lib.Settings):
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
class LocalTrainingSettings(ServerSettings):
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


@dataclasses.dataclass(frozen=True)
class FullStepSettings(settings_lib.Settings):
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


@dataclasses.dataclass(frozen=True)
class ScheduleSettings(settings_lib.Settings):
  """How the step size of clients changes from round to round."""

  client_decay_rounds: int | None = setting(
    None,
    'Rounds over which the step size of the client falls to zero, in a line; never if '
    'not set.',
    low=1,
  )


@dataclasses.dataclass(frozen=True)
class FedAvgSettings(ScheduleSettings, MeanSettings):
  """Federated averaging."""


@dataclasses.dataclass(frozen=True)
class FedProxSettings(FedAvgSettings):
  """Federated averaging with a proximal term."""

  proximal_strength: float = setting(
    0.01, 'Weight of the pull of each client towards the server model.', low=0
  )


@dataclasses.dataclass(frozen=True)
class FedAttSettings(FullStepSettings, LocalTrainingSettings):
  """Attentive aggregation."""

  attention: str = setting(
    'exact',
    'How clients are weighted: by the gradient of the attentive loss (exact), by that '
    'gradient as its paper prints it (paper), by a softmax of distances, layer by layer '
    '(layerwise), or all alike (uniform).',
    choices=('exact', 'paper', 'layerwise', 'uniform'),
  )
  attention_granularity: str | None = setting(
    None,
    'What is attended to: the model as a whole, or each layer (weight tensor) by '
    'itself; by default the model, and layers with --attention=layerwise.',
    choices=('model', 'layer'),
  )
  attention_step: str = setting(
    'relative',
    'With --attention=exact or paper, the unit of --server_learning_rate: the gradient '
    'itself (gradient), or the gradient over the sum of 2 / squared distance, so that a '
    'step of 1 is a weighted mean of the updates (relative).',
    choices=('relative', 'gradient'),
  )
  server_learning_rate: float = setting(
    1.0, 'Step size of the server (epsilon of Eq. 7).', above=0
  )

  @property
  def granularity(self) -> str:
    """What is attended to, the default filled in."""
    default = 'layer' if self.attention == 'layerwise' else 'model'
    return self.attention_granularity or default


@dataclasses.dataclass(frozen=True)
class RrLdpSettings(FullStepSettings, MeanSettings):
  """Federated averaging of randomized bits."""

  client_optimizer: str = setting(
    'adam', 'Optimizer of local training.', choices=CLIENT_OPTIMIZERS
  )
  client_learning_rate: float = setting(0.001, 'Step size of the client.', above=0)
  quantization_range: float | None = setting(
    None,
    'The range [-q, q] to which each coordinate of an update is clipped before it '
    'becomes a bit; by default q is --client_learning_rate.',
    above=0,
  )


@dataclasses.dataclass(frozen=True)
class PersonalSettings(FullStepSettings, ScheduleSettings, LocalTrainingSettings):
  """Methods whose users have a model, or a part of one, of their own."""

  client_optimizer: str = setting(
    'adam',
    'Optimizer of local training; the state of the local part’s is kept on the device.',
    choices=CLIENT_OPTIMIZERS,
  )
  client_learning_rate: float = setting(0.005, 'Step size of the client.', above=0)
  device_store: str = setting(
    'disk',
    'Where simulated devices keep their part: in files of the run’s folder (disk), or '
    'in memory, copied to the disk with each checkpoint (memory).',
    choices=('disk', 'memory'),
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


@dataclasses.dataclass(frozen=True)
class FedeVocabSettings(PersonalSettings):
  """Private vocabularies: the embedding stays on the device."""

  adaptive_updating: bool = setting(
    True,
    'Let users adapt their embedding to the received model, for one epoch, before both '
    'are trained.',
  )
  table_learning_rate: float | None = setting(
    None,
    'Step size of a user’s own table; by default --client_learning_rate. With smaller '
    'steps than the rest’s the table learns less of a few texts by heart.',
    above=0,
  )


@dataclasses.dataclass(frozen=True)
class LgFedAvgSettings(PersonalSettings):
  """Local representations under a global model."""

  local_layers: str = setting(
    'representation',
    'What stays on the device: everything but the output layer (representation), or '
    'the embedding only.',
    choices=('representation', 'embedding'),
  )
  interpolation: float = setting(
    0.0,
    'How much of the shared layers a user takes from its own last training, rather '
    'than from the server.',
    low=0,
    below=1,
  )


@dataclasses.dataclass(frozen=True)
class LocalOnlySettings(PersonalSettings):
  """Every user for itself."""


@dataclasses.dataclass(frozen=True)
class FedReconSettings(FullStepSettings, LocalTrainingSettings):
  """Federated reconstruction of the embeddings of private tokens."""

  client_optimizer: str = setting(
    'adam',
    'Optimizer of local training, and of reconstruction.',
    choices=CLIENT_OPTIMIZERS,
  )
  client_learning_rate: float = setting(0.005, 'Step size of the client.', above=0)


@dataclasses.dataclass(frozen=True)
class FedSgdSettings(ServerSettings):
  """One gradient a client and round."""


@dataclasses.dataclass(frozen=True)
class CentralSettings(settings_lib.Settings):
  """Training on all data in one place; flags are named as those of a client."""

  client_optimizer: str = setting(
    'adam',
    'Optimizer of training; its state is kept between passes.',
    choices=CLIENT_OPTIMIZERS,
  )
  client_learning_rate: float = setting(0.001, 'Step size.', above=0)
  client_momentum: float = setting(
    0.0, 'Momentum, with --client_optimizer=sgd.', low=0, below=1
  )
  client_weight_decay: float = setting(
    0.01, 'Weight decay, with --client_optimizer=adamw.', low=0
  )
  client_batch_size: int = setting(32, 'Examples in a batch.', low=1)


@dataclasses.dataclass(frozen=True)
class DpFedAvgSettings(LocalTrainingSettings):
  """Federated averaging with user-level differential privacy."""


@dataclasses.dataclass(frozen=True)
class SubwordResampleSettings(DpFedAvgSettings):
  """DP-FedAvg that learns its tokenizer by sampling the model."""

  phase_plan: str = setting(
    'switch',
    'What happens after sampling: the same model goes on with the new tokenizer '
    '(switch), or users are split in halves and the second half trains a fresh model '
    '(half_split).',
    choices=('switch', 'half_split'),
  )
  resample_rounds: tuple[int, ...] = setting(
    (),
    'Rounds after which the tokenizer is learnt anew, e.g. 1000,2000; by default half '
    'way. With half_split, the rounds of the first half’s model; by default all.',
    low=1,
  )
  sample_tokens: int = setting(
    200_000, 'Tokens to sample from the model for a new tokenizer.', low=1
  )
  sample_temperature: float = setting(
    1.0, 'Temperature of sampling; 1 samples the model as it is.', above=0
  )
  sample_max_length: int = setting(
    64, 'Tokens after which a sampled text is cut off.', low=2
  )


@dataclasses.dataclass(frozen=True)
class PaperPrivacySettings(plans.PrivacySettings):
  """The privacy of the sub-word sampling paper, accounted for its deployment."""

  target_epsilon: float | None = setting(
    2.0,
    'Epsilon of the whole run. Alone, it calibrates the noise; with '
    '--noise_multiplier, the run stops before the round that would exceed it.',
    above=0,
  )
  accounted_population: int | None = setting(
    10_000_000, 'Users of the deployment that is accounted for.', low=1
  )
  accounted_cohort: int | None = setting(
    20_000,
    'Users per round of the deployment that is accounted for; noise is scaled by '
    'simulated over accounted cohort.',
    low=1,
  )
