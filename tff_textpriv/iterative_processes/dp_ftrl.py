"""DP-FTRL: federated averaging under correlated noise, without random cohorts."""

import dataclasses

from tff_textpriv.iterative_processes import algorithm, dp_fed_avg
from tff_textpriv.privacy import ftrl_settings
from tff_textpriv.settings import setting


@dataclasses.dataclass(frozen=True)
class DpFtrlSettings(dp_fed_avg.DpFedAvgSettings):
  """Federated averaging under noise that cancels over rounds.

  It does so in sums of updates, which is what SGD makes, with momentum or without;
  optimizers that rescale each round's update see the noise of rounds by themselves.
  """

  server_optimizer: str = setting(
    'sgd', 'Optimizer of the server step.', choices=('sgd', 'adam')
  )
  server_learning_rate: float = setting(1.0, 'Step size of the server.', above=0)
  server_momentum: float = setting(
    0.9, 'Momentum of the server, with --server_optimizer=sgd.', low=0, below=1
  )


# The process is that of DP-FedAvg. What is different is the mechanism's: its mean adds
#
#   w_t = (C^-1 z)_t  in place of independent noise,
#
# so that a server that adds updates up has B z on its sums, with B C the matrix of
# partial sums. Reference: Kairouz et al., Practical and Private (Deep) Learning without
# Sampling or Shuffling (2021).
build_dp_ftrl = dp_fed_avg.build_dp_fed_avg

ALGORITHM = algorithm.Algorithm(
  'dp_ftrl',
  'federated averaging under correlated noise, without random cohorts',
  DpFtrlSettings,
  build_dp_ftrl,
  privacy=ftrl_settings.FtrlPrivacySettings,
)
