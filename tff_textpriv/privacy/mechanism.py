"""The one central mechanism: Gaussian noise on the sum over sampled users.

Everything that an accountant has to know about a round of training is in
`SampledGaussian`; clip norms, learning rates and simulated sizes are not.
"""

import dataclasses

import dp_accounting

ADD_OR_REMOVE_ONE = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = dp_accounting.NeighboringRelation.REPLACE_ONE
SAMPLINGS = ('poisson', 'fixed')


class PrivacyError(ValueError):
  """A privacy claim that would not hold, or that cannot be computed."""


@dataclasses.dataclass(frozen=True)
class SampledGaussian:
  """Noise on the sum of the clipped updates of a random cohort of users.

  Attributes:
    sampling: 'poisson' (each user joins independently with probability
      `cohort / population`) or 'fixed' (a uniform subset of exactly `cohort`).
    population: Number of users that may be sampled.
    cohort: Expected (Poisson) or exact (fixed) number of users in a round.
    noise_multiplier: Standard deviation of the noise over the clip norm.
  """

  sampling: str
  population: int
  cohort: int
  noise_multiplier: float

  def __post_init__(self) -> None:
    if self.sampling not in SAMPLINGS:
      raise PrivacyError(
        f'sampling {self.sampling!r} has no accounting; use one of '
        f'{", ".join(SAMPLINGS)}'
      )
    if not 1 <= self.cohort <= self.population:
      raise PrivacyError(
        f'a cohort of {self.cohort} cannot be drawn from {self.population} users'
      )
    if not 0 <= self.noise_multiplier < float('inf'):
      raise PrivacyError(
        f'a noise multiplier of {self.noise_multiplier} is not a number >= 0'
      )

  @property
  def neighbouring_relation(self) -> dp_accounting.NeighboringRelation:
    """The change of the data under which the accounting of the sampling holds."""
    return ADD_OR_REMOVE_ONE if self.sampling == 'poisson' else REPLACE_ONE

  def event(self) -> dp_accounting.DpEvent:
    """Returns the accounting event of one round.

    Adding or removing a user moves the sum by at most one clip norm. Replacing
    a user moves it by up to two, one away and one back, so that the noise is
    worth only half its multiplier when the cohort's size is fixed.
    """
    if self.noise_multiplier == 0:
      return dp_accounting.NonPrivateDpEvent()
    if self.sampling == 'poisson':
      gaussian = dp_accounting.GaussianDpEvent(self.noise_multiplier)
      if self.cohort == self.population:
        return gaussian
      return dp_accounting.PoissonSampledDpEvent(
        self.cohort / self.population, gaussian
      )
    gaussian = dp_accounting.GaussianDpEvent(self.noise_multiplier / 2)
    if self.cohort == self.population:
      return gaussian
    return dp_accounting.SampledWithoutReplacementDpEvent(
      self.population, self.cohort, gaussian
    )
