"""FedProx: federated averaging whose clients are pulled towards the server model."""

import dataclasses

from tff_textpriv.iterative_processes import algorithm, fed_avg
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.settings import setting


@dataclasses.dataclass(frozen=True)
class FedProxSettings(fed_avg.FedAvgSettings):
  """Federated averaging with a proximal term."""

  proximal_strength: float = setting(
    0.01, 'Weight of the pull of each client towards the server model.', low=0
  )


def build_fed_prox(
  model: algorithm.Model, settings: FedProxSettings, mechanism: Mechanism
) -> algorithm.Process:
  """Builds FedProx: each client minimizes its loss f_k with a pull to the server.

    min_u  f_k(u) + (mu / 2) |u - w|^2

  Everything else is `build_fed_avg`. TFF's own builder adds the pull with the opposite
  sign (0.87), so the pull is a part of the client optimizer here.

  Args:
    model: What is trained; carries the initial weights.
    settings: Those of federated averaging, and mu, `--proximal_strength`.
    mechanism: What stands between clients and the server.

  Returns:
    A learning process: `initialize`, `next` and `get_model_weights`.

  Example:
    >>> build_fed_prox(model, FedProxSettings(proximal_strength=0.1), NoMechanism('none'))

  Reference: Li et al., Federated Optimization in Heterogeneous Networks (2020).
  """
  from tff_textpriv.iterative_processes import averaging, proximal

  return averaging.build(model, settings, mechanism, proximal.optimizer(settings))


def client(model: algorithm.Model, settings: FedProxSettings) -> algorithm.Client:
  """Describes a client; see `Algorithm.client`."""
  from tff_textpriv.iterative_processes import clients, proximal

  return clients.training(model, settings, proximal.optimizer(settings))


ALGORITHM = algorithm.Algorithm(
  'fed_prox',
  'federated averaging, pulled to the server',
  FedProxSettings,
  build_fed_prox,
  client,
  mechanisms=fed_avg.ALGORITHM.mechanisms,
)
