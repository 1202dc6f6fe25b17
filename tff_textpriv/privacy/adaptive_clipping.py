"""A clip norm that follows the updates: what its noisy counts cost."""

import dataclasses

# The noisy count's standard deviation is 1/20 of the cohort (Andrew et al. 2021,
# "Differentially Private Learning with Adaptive Clipping", section 3.1).
COUNT_STDDEV_PER_COHORT = 1 / 20


@dataclasses.dataclass(frozen=True)
class AdaptiveClipping:
  """A clip norm that follows a quantile of update norms, by geometric steps.

  Attributes:
    quantile: Share of users whose updates should not be clipped.
    learning_rate: Step on the logarithm of the clip norm.
    count_stddev: Standard deviation of the noise on the sum of the accounted
      cohort's bits, each +0.5 (not clipped) or -0.5 (clipped).
  """

  quantile: float
  learning_rate: float
  count_stddev: float

  @property
  def count_noise_multiplier(self) -> float:
    """Count noise over the sensitivity 0.5 of a sum of +-0.5 bits."""
    return self.count_stddev / 0.5
