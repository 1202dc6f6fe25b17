"""Differential privacy as arithmetic: mechanisms, accounting, ledger and card.

Nothing in this package imports TensorFlow. Settings make a mechanism, which says what a
run promises; `accountants` do the sums, `Ledger` records what was spent and `card`
tells the reader. Aggregators are made from the same mechanism as the ledger's entries,
so that the claim and the code cannot drift apart.
"""

from tff_textpriv.privacy.central import CentralGaussian
from tff_textpriv.privacy.central_settings import CentralPrivacySettings
from tff_textpriv.privacy.distributed import DistributedNoise
from tff_textpriv.privacy.distributed_settings import DistributedPrivacySettings
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.ftrl import CorrelatedGaussian
from tff_textpriv.privacy.ftrl_settings import FtrlPrivacySettings
from tff_textpriv.privacy.ledger import Ledger
from tff_textpriv.privacy.local_gaussian import LocalGaussian, LocalGaussianSettings
from tff_textpriv.privacy.mechanism import Deployment, Mechanism, MechanismSettings
from tff_textpriv.privacy.no_mechanism import NoMechanism, NoPrivacySettings
from tff_textpriv.privacy.own_mechanism import OwnAggregatorSettings, OwnMechanism
from tff_textpriv.privacy.priv_unit import PrivUnit, PrivUnitSettings
from tff_textpriv.privacy.randomized_bits import LocalPrivacySettings, RandomizedBits
from tff_textpriv.privacy.sqkr import Sqkr, SqkrSettings

__all__ = [
  'CentralGaussian',
  'CentralPrivacySettings',
  'CorrelatedGaussian',
  'Deployment',
  'DistributedNoise',
  'DistributedPrivacySettings',
  'FtrlPrivacySettings',
  'Ledger',
  'LocalGaussian',
  'LocalGaussianSettings',
  'LocalPrivacySettings',
  'Mechanism',
  'MechanismSettings',
  'NoMechanism',
  'NoPrivacySettings',
  'OwnAggregatorSettings',
  'OwnMechanism',
  'PrivUnit',
  'PrivUnitSettings',
  'PrivacyError',
  'RandomizedBits',
  'Sqkr',
  'SqkrSettings',
]
