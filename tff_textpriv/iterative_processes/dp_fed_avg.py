"""DP-FedAvg: unweighted federated averaging with a private mean."""

import dataclasses

from tff_textpriv.iterative_processes import algorithm, common_settings
from tff_textpriv.privacy import central_settings, distributed_settings
from tff_textpriv.privacy.mechanism import Mechanism


@dataclasses.dataclass(frozen=True)
class DpFedAvgSettings(common_settings.LocalTrainingSettings):
  """Federated averaging with user-level differential privacy."""


def build_dp_fed_avg(
  model: algorithm.Model, settings: DpFedAvgSettings, mechanism: Mechanism
) -> algorithm.Process:
  """Builds federated averaging under user-level differential privacy.

  The mean of the clients' updates v_k = w - w_k is the mechanism's: with the central
  Gaussian, clip norm C, noise multiplier z and a planned cohort of m,

    w <- w - server_step( (sum_k v_k min(1, C / |v_k|) + N(0, z^2 C^2 I)) / m )

  Args:
    model: What is trained; carries the initial weights.
    settings: Both optimizers.
    mechanism: Clip, noise and cohort; also what the ledger is charged with.

  Returns:
    A learning process: `initialize`, `next` and `get_model_weights`.

  Example:
    >>> deployment = Deployment('poisson', population=10**6, cohort=5000, rounds=1000)
    >>> mechanism = CentralPrivacySettings(target_epsilon=2.0).mechanism(deployment)
    >>> process = build_dp_fed_avg(model, DpFedAvgSettings(), mechanism)

  Reference: McMahan et al., Learning Differentially Private Recurrent Language Models
  (2018).
  """
  # Only now is TFF needed: flags are read before.
  from tff_textpriv.iterative_processes import averaging

  return averaging.build(model, settings, mechanism)


ALGORITHM = algorithm.Algorithm(
  'dp_fed_avg',
  'federated averaging under user-level differential privacy',
  DpFedAvgSettings,
  build_dp_fed_avg,
  privacy=central_settings.CentralPrivacySettings,
  mechanisms={'distributed': distributed_settings.DistributedPrivacySettings},
)
