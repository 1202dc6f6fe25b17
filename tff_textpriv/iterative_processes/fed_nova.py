"""FedNova: averaging of updates per step, so that nobody counts for having more steps."""

import dataclasses

from tff_textpriv.iterative_processes import algorithm, common_settings
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.settings import setting


@dataclasses.dataclass(frozen=True)
class FedNovaSettings(common_settings.FullStepSettings, common_settings.MeanSettings):
  """Federated averaging of normalized updates."""

  client_optimizer: str = setting(
    'sgd',
    'Optimizer of local training. Updates of the others are not in proportion to their '
    'steps.',
    choices=('sgd',),
  )


def build_fed_nova(
  model: algorithm.Model, settings: FedNovaSettings, mechanism: Mechanism
) -> algorithm.Process:
  """Builds FedNova, federated averaging of normalized updates.

  Client k makes tau_k steps with momentum rho and sends v_k / |a_k| and |a_k|, where

    |a_k| = (tau_k - rho (1 - rho^tau_k) / (1 - rho)) / (1 - rho)

  is how often its gradients count in v_k, tau_k itself without momentum. With p_k the
  client's share of all examples the server steps along

    ( sum_k p_k |a_k| ) sum_k p_k v_k / |a_k|

  so that the objective is that of all examples, however many steps each client makes.

  Args:
    model: What is trained; carries the initial weights.
    settings: Both optimizers and the weighting.
    mechanism: `NoMechanism`; what stands between clients and the server.

  Returns:
    A learning process: `initialize`, `next` and `get_model_weights`.

  Example:
    >>> build_fed_nova(model, FedNovaSettings(client_momentum=0.9), NoMechanism('none'))

  Reference: Wang et al., Tackling the Objective Inconsistency Problem in Heterogeneous
  Federated Optimization (2020).
  """
  # Only now is TFF needed: flags are read before.
  from tff_textpriv.iterative_processes import normalized_work

  return normalized_work.build(model, settings, mechanism)


ALGORITHM = algorithm.Algorithm(
  'fed_nova',
  'federated averaging of updates per step',
  FedNovaSettings,
  build_fed_nova,
)
