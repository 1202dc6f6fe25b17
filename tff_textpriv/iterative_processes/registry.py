"""The algorithms by the names that `--algo` takes.

To add one: write its builder in a module of this package, its settings in
`algorithm_settings`, and one line of `ALGORITHMS` here. Builders are imported when they are used, so that
reading flags does not import TFF.
"""

import dataclasses
import importlib
from typing import TYPE_CHECKING, Any

from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import algorithm_settings
from tff_textpriv.privacy import local, local_gaussian, plans

if TYPE_CHECKING:
  import tensorflow_federated as tff

  from tff_textpriv.iterative_processes import partially_local
  from tff_textpriv.privacy import card


@dataclasses.dataclass(frozen=True)
class Algorithm:
  """An algorithm's name, its flags, and where its builder is.

  Attributes:
    name: The value of `--algo`.
    summary: One line for `--help`.
    settings: The class of its settings.
    privacy: The class of its privacy settings, or `None` without a guarantee.
    kinds: The kinds of task that it can train on.
    no_central_privacy: Why flags of central differential privacy are refused, if there
      is more to say than that they are not the algorithm's.
    client_seeds: Whether clients draw random numbers: the data of each in a round are
      then its batches and a seed (see `seeded_client_work`).
    pooled: Whether it trains on all data in one place, and so has no clients.
    local_part: What of the model stays with users: nothing if empty, `table` (each
      has a vocabulary and an embedding table of its own) or `tokens` (the embeddings
      of private tokens of a common vocabulary).
  """

  name: str
  summary: str
  settings: type[settings_lib.Settings]
  privacy: type[settings_lib.Settings] | None = None
  kinds: tuple[str, ...] = ('language_model',)
  no_central_privacy: str = ''
  client_seeds: bool = False
  pooled: bool = False
  local_part: str = ''

  def build(
    self,
    model: 'tff.learning.models.FunctionalModel',
    settings: settings_lib.Settings,
    plan: 'card.Plan | None',
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
    return self._module.build(model, settings, plan, seed)

  def make_device(
    self,
    model: 'tff.learning.models.FunctionalModel',
    settings: settings_lib.Settings,
  ) -> 'partially_local.Device':
    """Describes the devices of an algorithm with a local part.

    Args:
      model: The whole model, whose first weights are the local part.
      settings: An instance of the class `settings`.
    """
    return self._module.make_device(model, settings)

  @property
  def _module(self) -> Any:
    return importlib.import_module(f'tff_textpriv.iterative_processes.{self.name}')


_ALL_KINDS = ('language_model', 'classification')

ALGORITHMS = {
  algorithm.name: algorithm
  for algorithm in (
    Algorithm(
      'central',
      'all data in one place, a pass over them a round',
      algorithm_settings.CentralSettings,
      kinds=('classification',),
      pooled=True,
    ),
    Algorithm(
      'dp_fed_avg',
      'federated averaging under user-level differential privacy',
      algorithm_settings.DpFedAvgSettings,
      privacy=plans.PrivacySettings,
      kinds=_ALL_KINDS,
    ),
    Algorithm(
      'fed_att',
      'attentive aggregation of the clients’ models',
      algorithm_settings.FedAttSettings,
      privacy=local_gaussian.LocalGaussianSettings,
      kinds=_ALL_KINDS,
      no_central_privacy=(
        'attention lets one user change the weights of all others, so that the clipped '
        'sum’s bounded sensitivity, on which central differential privacy rests, is '
        'lost; use --clip_norm and --noise_magnitude, the noise of which users add '
        'themselves'
      ),
      client_seeds=True,
    ),
    Algorithm(
      'fed_avg',
      'federated averaging',
      algorithm_settings.FedAvgSettings,
      kinds=_ALL_KINDS,
    ),
    Algorithm(
      'fed_prox',
      'federated averaging, pulled to the server',
      algorithm_settings.FedProxSettings,
      kinds=_ALL_KINDS,
    ),
    Algorithm(
      'fed_recon',
      'the embeddings of tokens with digits are reconstructed on the device',
      algorithm_settings.FedReconSettings,
      kinds=('classification',),
      local_part='tokens',
    ),
    Algorithm(
      'fed_sgd',
      'one gradient a client and round',
      algorithm_settings.FedSgdSettings,
      kinds=_ALL_KINDS,
    ),
    Algorithm(
      'fede_vocab',
      'vocabulary and embedding stay on the device, the rest is averaged',
      algorithm_settings.FedeVocabSettings,
      kinds=('classification',),
      local_part='table',
    ),
    Algorithm(
      'lg_fedavg',
      'representations stay on the device, the layers above are averaged',
      algorithm_settings.LgFedAvgSettings,
      kinds=('classification',),
      local_part='table',
    ),
    Algorithm(
      'local_only',
      'every user trains for itself',
      algorithm_settings.LocalOnlySettings,
      kinds=('classification',),
      local_part='table',
    ),
    Algorithm(
      'rr_ldp',
      'federated averaging of one randomized bit per weight (local privacy)',
      algorithm_settings.RrLdpSettings,
      privacy=local.LocalPrivacySettings,
      kinds=('classification', 'language_model'),
      client_seeds=True,
    ),
    Algorithm(
      'subword_resample',
      'DP-FedAvg that learns a sub-word tokenizer by sampling the language model',
      algorithm_settings.SubwordResampleSettings,
      privacy=algorithm_settings.PaperPrivacySettings,
    ),
  )
}
