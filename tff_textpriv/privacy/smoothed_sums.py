"""The flags of central differential privacy of smoothed attention.

Smoothed attention is a quotient of two sums to each of which a user adds little, however
far its update went: sum_k w_k v_k and sum_k w_k. Both are one vector to the mechanism, and
both are noised.
"""

import dataclasses

from tff_textpriv.privacy import central_settings, mechanism
from tff_textpriv.privacy.central import CentralGaussian
from tff_textpriv.settings import SettingsError


@dataclasses.dataclass(frozen=True)
class SmoothedSumsSettings(central_settings.CentralPrivacySettings):
  """Central differential privacy of updates that bring their weights."""

  def mechanism(self, deployment: mechanism.Deployment) -> CentralGaussian:
    """Makes the mechanism, of one number more than the model has; see the base class."""
    if self.adaptive_clipping:
      raise SettingsError(
        'adaptive_clipping',
        self.adaptive_clipping,
        'the clip norm is also what distances are measured by; leave the flag out',
      )
    size = deployment.num_coordinates
    return super().mechanism(
      dataclasses.replace(
        deployment, num_coordinates=None if size is None else size + 1
      )
    )
