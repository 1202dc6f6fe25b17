"""The algorithms by the names that `--algo` takes, with their settings.

To add one: write its builder in a module of this package, then its settings and
one line of `ALGORITHMS` here. Builders are imported when they are used, so that
reading flags does not import TFF.
"""

import dataclasses
import importlib
from typing import TYPE_CHECKING

from tff_textpriv import settings as settings_lib
from tff_textpriv.privacy import plans
from tff_textpriv.settings import setting

if TYPE_CHECKING:
  import tensorflow_federated as tff


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
  client_batch_size: int = setting(16, 'Sentences in a batch on the client.', low=1)


@dataclasses.dataclass(frozen=True)
class LocalTrainingSettings(ServerSettings):
  """How a client trains before it sends the difference."""

  client_learning_rate: float = setting(0.5, 'Step size of client SGD.', above=0)
  client_momentum: float = setting(0.0, 'Momentum of client SGD.', low=0, below=1)
  client_epochs_per_round: int = setting(
    1, 'Passes over its own data that a client makes in a round.', low=1
  )


@dataclasses.dataclass(frozen=True)
class FedAvgSettings(LocalTrainingSettings):
  """Federated averaging."""

  client_weighting: str = setting(
    'examples',
    'How clients count in the mean: by their number of examples, or all alike.',
    choices=('examples', 'uniform'),
  )


@dataclasses.dataclass(frozen=True)
class FedProxSettings(FedAvgSettings):
  """Federated averaging with a proximal term."""

  proximal_strength: float = setting(
    0.01, 'Weight of the pull of each client towards the server model.', low=0
  )


@dataclasses.dataclass(frozen=True)
class FedSgdSettings(ServerSettings):
  """One gradient a client and round."""


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


@dataclasses.dataclass(frozen=True)
class Algorithm:
  """An algorithm's name, its flags, and where its builder is.

  Attributes:
    name: The value of `--algo`.
    summary: One line for `--help`.
    settings: The class of its settings.
    privacy: The class of its privacy settings, or `None` without a guarantee.
    kinds: The kinds of task that it can train on.
  """

  name: str
  summary: str
  settings: type[settings_lib.Settings]
  privacy: type[settings_lib.Settings] | None = None
  kinds: tuple[str, ...] = ('language_model',)

  def build(
    self,
    model: 'tff.learning.models.FunctionalModel',
    settings: settings_lib.Settings,
    plan: plans.CentralDpPlan | None,
    seed: int,
  ) -> 'tff.learning.templates.LearningProcess':
    """Builds the iterative process.

    Args:
      model: What is trained; carries the initial weights.
      settings: An instance of the class `settings`.
      plan: The privacy plan of an algorithm that has one.
      seed: Decides the algorithm's own random numbers.

    Returns:
      A process with `initialize`, `next` and `get_model_weights`.
    """
    module = importlib.import_module(f'tff_textpriv.iterative_processes.{self.name}')
    return module.build(model, settings, plan, seed)


ALGORITHMS = {
  algorithm.name: algorithm
  for algorithm in (
    Algorithm(
      'dp_fed_avg',
      'federated averaging under user-level differential privacy',
      DpFedAvgSettings,
      privacy=plans.PrivacySettings,
    ),
    Algorithm('fed_avg', 'federated averaging', FedAvgSettings),
    Algorithm('fed_prox', 'federated averaging, pulled to the server', FedProxSettings),
    Algorithm('fed_sgd', 'one gradient a client and round', FedSgdSettings),
    Algorithm(
      'subword_resample',
      'DP-FedAvg that learns a sub-word tokenizer by sampling the language model',
      SubwordResampleSettings,
      privacy=PaperPrivacySettings,
    ),
  )
}
