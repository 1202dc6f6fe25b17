"""SCAFFOLD: clients correct the direction in which their own data pull them."""

import dataclasses

from tff_textpriv.iterative_processes import algorithm, common_settings
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.settings import setting


@dataclasses.dataclass(frozen=True)
class ScaffoldSettings(
  common_settings.DeviceSettings,
  common_settings.GradientClipSettings,
  common_settings.FullStepSettings,
  common_settings.ServerSettings,
):
  """Federated averaging with control variates."""

  client_learning_rate: float = setting(0.5, 'Step size of the client’s SGD.', above=0)
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


def build_scaffold(
  model: algorithm.Model, settings: ScaffoldSettings, mechanism: Mechanism
) -> algorithm.Process:
  """Builds SCAFFOLD, with control variates by its option II.

  The server has weights x and a variate c, a device the variate c_i. A client makes K
  steps with the step size h, and both variates follow:

    y <- y - h (grad f_i(y) - c_i + c)
    c_i+ = c_i - c + (x - y) / (K h)
    x <- x - server_step( mean_i (x - y_i) )
    c <- c + (1 / N) sum_i (c_i+ - c_i)

  for N users in all. Means and sums are over the clients of the round, all alike. Updates
  and changes of variates that are not finite, or far too large, are left out.

  Args:
    model: What is trained; carries the initial weights.
    settings: The clients' step size, and the server optimizer.
    mechanism: Makes the mean of updates; knows the number N of users. Variates have no
      mechanism: they are sent as they are.

  Returns:
    A learning process. Clients read `batches` and the names of the files of their `state`.

  Example:
    >>> mechanism = NoMechanism('a baseline', population=len(client_ids))
    >>> process = build_scaffold(model, ScaffoldSettings(), mechanism)

  Reference: Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated
  Learning (2020), Algorithm 1.
  """
  # Only now is TFF needed: flags are read before.
  from tff_textpriv.iterative_processes import control_variates

  return control_variates.build(model, client(model, settings), settings, mechanism)


def client(model: algorithm.Model, settings: ScaffoldSettings) -> algorithm.Client:
  """Describes a client, which keeps its variate."""
  from tff_textpriv.iterative_processes import control_variates

  return control_variates.VariateClient(model, settings)


ALGORITHM = algorithm.Algorithm(
  'scaffold',
  'federated averaging with control variates that devices keep',
  ScaffoldSettings,
  build_scaffold,
  client,
  keeps=algorithm.Keeps.STATE,
)
