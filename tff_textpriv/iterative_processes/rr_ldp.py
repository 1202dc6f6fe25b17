"""Federated averaging of one randomized bit per coordinate."""

import dataclasses

from tff_textpriv.iterative_processes import algorithm, common_settings
from tff_textpriv.privacy import priv_unit, randomized_bits, sqkr
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.settings import setting


@dataclasses.dataclass(frozen=True)
class RrLdpSettings(common_settings.FullStepSettings, common_settings.MeanSettings):
  """Federated averaging of randomized bits."""

  client_optimizer: str = setting(
    'adam', 'Optimizer of local training.', choices=common_settings.CLIENT_OPTIMIZERS
  )
  client_learning_rate: float = setting(0.001, 'Step size of the client.', above=0)
  client_weighting: str = setting(
    'uniform',
    'How clients count in the mean: all alike, or by their number of examples, which '
    'they then send in the clear (only with --privacy_claim=false).',
    choices=('examples', 'uniform'),
  )


def build_rr_ldp(
  model: algorithm.Model, settings: RrLdpSettings, mechanism: Mechanism
) -> algorithm.Process:
  """Builds federated averaging of randomized bits (local differential privacy).

  Each coordinate x of a client's update is clipped to [-q, q] and becomes a bit that is 1
  with probability (1 - p) + (2p - 1) (x + q) / 2q, where p = e^eps / (1 + e^eps) is the
  probability that randomized response leaves a bit as it is. The mean b of the bits gives
  the unbiased estimate

    2q (b - (1 - p)) / (2p - 1) - q

  of the mean coordinate, along which the server steps.

  Args:
    model: What is trained; carries the initial weights.
    settings: Both optimizers, and whether clients count by their examples.
    mechanism: Epsilon per bit, the range q, and how many coordinates a client reports.

  Returns:
    A learning process. Clients read `batches` and a `seed`, int64 [2].

  Example:
    >>> deployment = Deployment('fixed', population=100, cohort=100, rounds=25,
    ...                         num_coordinates=5001, client_step=0.001)
    >>> mechanism = LocalPrivacySettings(epsilon_per_coordinate=1.0).mechanism(deployment)
    >>> process = build_rr_ldp(model, RrLdpSettings(), mechanism)

  Reference: Nagy et al., Privacy-preserving Federated Learning and its application to
  natural language processing (2023), whose Eq. 5 multiplies where it must divide.
  """
  # Only now is TFF needed: flags are read before.
  from tff_textpriv.iterative_processes import averaging

  return averaging.build(model, settings, mechanism)


ALGORITHM = algorithm.Algorithm(
  'rr_ldp',
  'federated averaging of one randomized bit per weight (local privacy)',
  RrLdpSettings,
  build_rr_ldp,
  privacy=randomized_bits.LocalPrivacySettings,
  mechanisms={'priv_unit': priv_unit.PrivUnitSettings, 'sqkr': sqkr.SqkrSettings},
)
