"""DP-FTRL: central differential privacy by correlated noise, without random cohorts.

From a `CorrelatedGaussian` are made both the aggregation (how noise follows from that of
earlier rounds) and the ledger's entries (what all rounds so far cost together).
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg

from tff_textpriv.privacy import (
  card_blocks,
  central,
  correlated_noise,
  ftrl_card,
  lattice,
  ledger_entries,
  participation,
  rounded_gaussian,
)
from tff_textpriv.privacy.correlated_cost import CorrelatedRounds
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.rounded_gaussian import RoundedGaussian

if TYPE_CHECKING:
  from tff_textpriv.privacy.ledger import Ledger

SEPARATED = 'separated'
# How finely noise is drawn where a strategy leaves it open: so many bits to a deviation.
_FINEST_BITS = 43


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorrelatedGaussian(central.CentralGaussian):
  """Central differential privacy of users who come back only after some rounds.

  The noise multiplier is that of the independent noise, of which the strategy makes the
  noise of rounds.

  Attributes:
    strategy: How the noise of rounds hangs together.
    separation: The least number of rounds from one participation to the next, in the
      deployment that is accounted for.
    simulated_separation: The same in the simulation.
  """

  aggregator = 'ftrl_mean'

  strategy: correlated_noise.Strategy
  separation: int
  simulated_separation: int

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.sampling != SEPARATED:
      raise PrivacyError(
        f'correlated noise is accounted for {SEPARATED} cohorts, not for {self.sampling} '
        'ones'
      )
    if self.adaptive is not None:
      raise PrivacyError('correlated noise needs the same clip norm in all rounds')
    if self.strategy.rounds != self.rounds:
      raise PrivacyError(
        f'a strategy for {self.strategy.rounds} rounds is none for {self.rounds}'
      )

  @property
  def cost(self) -> CorrelatedRounds:  # type: ignore[override]
    """What rounds are to an accountant."""
    return CorrelatedRounds(
      self.noise_multiplier,
      self.separation,
      self.strategy.squared_sensitivities(self.separation),
      self.num_draws,
    )

  @property
  def num_draws(self) -> int:
    """The numbers that are drawn in a round."""
    return self.num_coordinates * self.strategy.draws_per_round

  @property
  def participations(self) -> int:
    """In how many rounds a user takes part at most."""
    return participation.most_participations(self.rounds, self.separation)

  @property
  def sensitivity(self) -> float:
    """How far a user moves what noise is added to in the whole run, in clip norms."""
    return self.cost.squares[-1] ** 0.5

  def entry(self, group: str) -> ledger_entries.Entry:
    """See the base class."""
    return ledger_entries.Entry(
      ledger_entries.CENTRAL,
      self.entry_name,
      f'correlated Gaussian noise ({self.strategy.summary}) on the sum over a cohort of '
      f'{self.cohort:,} of {self.population:,} users, who take part at least '
      f'{self.separation:,} rounds apart, noise multiplier {self.noise_multiplier:.4g}',
      cost=self.cost,
      group=group,
    )

  def check_sampling(self, sampling: str, separation: int = 1) -> None:
    """Refuses cohorts in which users may come back sooner than is accounted."""
    super().check_sampling(sampling, separation)
    if separation < self.simulated_separation:
      raise PrivacyError(
        f'users may come back after {separation} rounds, and the privacy plan accounts '
        f'for at least {self.simulated_separation}: its figure would be false'
      )

  def of_simulation(self) -> 'CorrelatedGaussian':
    """Returns the mechanism of the simulation: its own sizes, and the noise it adds."""
    own = super().of_simulation()
    assert isinstance(own, CorrelatedGaussian)
    return dataclasses.replace(own, separation=self.simulated_separation)

  @property
  def largest_shift(self) -> float:
    """See the base class."""
    return self.sensitivity / self.noise_multiplier

  def points(self, num_coordinates: int) -> lattice.Lattice:
    """See the base class; the noise is drawn on a lattice that is finer."""
    return lattice.fitting(
      num_coordinates,
      self.simulated_cohort,
      self.sum_stddev(1.0) * (self.strategy.denominator or 1),
      rounded_gaussian.SMALLEST_STDDEV
      if self._is_promise
      else rounded_gaussian.SMALLEST_UNCLAIMED,
    )

  def denominator(self, points: lattice.Lattice) -> int:
    """Returns how much finer the lattice is on which noise is drawn."""
    if self.strategy.denominator is not None:
      return self.strategy.denominator
    stddev = self.sum_stddev(1.0) * points.clip
    return 2 ** max(0, _FINEST_BITS - math.ceil(math.log2(stddev)))

  def draw_law(self, points: lattice.Lattice) -> RoundedGaussian:
    """Returns the law of the independent noise, on that lattice.

    Raises:
      PrivacyError: The strategy cannot make noise of it as precisely as is claimed.
    """
    finer = self.denominator(points)
    stddev = self.sum_stddev(1.0) * points.clip * finer
    if not self._is_promise:
      return RoundedGaussian(stddev, 0.0)
    law = RoundedGaussian(stddev, self.largest_shift)
    self.strategy.check_arithmetic(
      law.reach * stddev, points.clip * finer, self.num_coordinates
    )
    return law

  def mask_seeds(self) -> np.ndarray:
    """Returns what hides the noise that is kept before each round, int64 [rounds + 1, 2].

    A state is what everybody may see, and so must not tell the noise of earlier rounds.
    """
    return np.stack(
      [self.stream.words('mask', number) for number in range(self.rounds + 1)]
    )

  def independent(self, noise: Sequence[np.ndarray]) -> list[np.ndarray]:
    """See the base class: w = M z is made independent by the root of M M^T."""
    noising = self.strategy.noising()[: len(noise)]
    root = np.linalg.cholesky(noising @ noising.T)
    return list(scipy.linalg.solve_triangular(root, np.array(noise), lower=True))

  @property
  def summary(self) -> str:
    """See the base class."""
    return (
      f'clip {self.clip:g}, noise multiplier {self.noise_multiplier:.4g}, '
      f'{self.strategy.summary}, cohorts of {self.cohort:,} in {self.population:,} users '
      f'at least {self.separation:,} rounds apart'
    )

  def describe(self, ledger: 'Ledger') -> dict[str, Any]:
    """See the base class."""
    return ftrl_card.describe(self, ledger)

  def blocks(self, ledger: 'Ledger') -> list[card_blocks.Block]:
    """See the base class."""
    return ftrl_card.blocks(self, ledger)
