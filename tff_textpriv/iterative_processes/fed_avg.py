"""Federated averaging: clients train, the server averages what they learnt."""

import dataclasses

from tff_textpriv.iterative_processes import algorithm, common_settings
from tff_textpriv.privacy import local_gaussian
from tff_textpriv.privacy.mechanism import Mechanism


@dataclasses.dataclass(frozen=True)
class FedAvgSettings(common_settings.ScheduleSettings, common_settings.MeanSettings):
  """Federated averaging."""


def build_fed_avg(
  model: algorithm.Model, settings: FedAvgSettings, mechanism: Mechanism
) -> algorithm.Process:
  """Builds federated averaging.

  Client k starts from the server's weights w, trains on its n_k examples and sends
  v_k = w - w_k. The server steps along the mean,

    w <- w - server_step( sum_k n_k v_k / sum_k n_k ),

  or the uniform mean with `--client_weighting=uniform`. Updates that are not finite, or
  far too large, are left out and counted.

  Args:
    model: What is trained; carries the initial weights.
    settings: Both optimizers, the weighting and the schedule.
    mechanism: What stands between clients and the server; `NoMechanism` for none.

  Returns:
    A learning process: `initialize`, `next` and `get_model_weights`.

  Example:
    >>> process = build_fed_avg(model, FedAvgSettings(client_learning_rate=0.1),
    ...                         NoMechanism('a baseline'))
    >>> state = process.initialize()
    >>> state, metrics = process.next(state, cohort)

  Reference: McMahan et al., Communication-Efficient Learning of Deep Networks from
  Decentralized Data (2017).
  """
  # Only now is TFF needed: flags are read before.
  from tff_textpriv.iterative_processes import averaging

  return averaging.build(model, settings, mechanism)


ALGORITHM = algorithm.Algorithm(
  'fed_avg',
  'federated averaging',
  FedAvgSettings,
  build_fed_avg,
  mechanisms={'local_gaussian': local_gaussian.LocalGaussianSettings},
)
