"""Central training: all data in one place, one pass over them per round."""

import dataclasses
from typing import TYPE_CHECKING

from tff_textpriv.iterative_processes import algorithm, common_settings
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.privacy.no_mechanism import NoPrivacySettings
from tff_textpriv.settings import setting

if TYPE_CHECKING:
  from tff_textpriv.iterative_processes import central_training


@dataclasses.dataclass(frozen=True)
class CentralSettings(common_settings.GradientClipSettings):
  """Training on all data in one place; flags are named as those of a client."""

  client_optimizer: str = setting(
    'adam',
    'Optimizer of training; its state is kept between passes.',
    choices=common_settings.CLIENT_OPTIMIZERS,
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
class AllInOnePlace(NoPrivacySettings):
  """No flags: who has all data needs no mechanism to read them."""

  reason = 'all data are in one place'


def build_central(
  model: algorithm.Model, settings: CentralSettings, mechanism: Mechanism
) -> 'central_training.CentralProcess':
  """Builds central training, the reference that federated methods are measured against.

  Args:
    model: What is trained; carries the initial weights.
    settings: The optimizer; its state is kept from pass to pass.
    mechanism: None: there is nobody between the data and the model.

  Returns:
    What has the face of a learning process: `initialize`, `next`, `get_model_weights`.

  Example:
    >>> process = build_central(model, CentralSettings(), NoMechanism('one place'))

  Reference: none.
  """
  # Only now is TensorFlow needed: flags are read before.
  from tff_textpriv.iterative_processes import central_training, optimizers

  del mechanism  # It claims nothing.
  return central_training.CentralProcess(model, optimizers.client_optimizer(settings))


ALGORITHM = algorithm.Algorithm(
  'central',
  'all data in one place, one pass over them per round',
  CentralSettings,
  build_central,
  algorithm.gradient_client,  # If there were any.
  privacy=AllInOnePlace,
  kinds=(algorithm.CLASSIFICATION,),
  gathers_data=True,
)
