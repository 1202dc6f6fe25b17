"""DP-FTRL: central differential privacy by correlated noise, without random cohorts.

From a `CorrelatedGaussian` are made both the aggregation (how noise follows from that of
earlier rounds) and the ledger's entries (what all rounds so far cost together).
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
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
from tff_textpriv.privacy.correlated_cost import BandedRounds, CorrelatedRounds
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.rounded_gaussian import RoundedGaussian

if TYPE_CHECKING:
  from tff_textpriv.privacy.ledger import Ledger

SEPARATED = 'separated'
BANDED_POISSON = 'banded_poisson'
# How finely noise is drawn where a strategy leaves it open: so many bits to a deviation.
_FINEST_BITS = 43


def squared_sensitivity(
  strategies: Iterable[correlated_noise.Strategy], separation: int
) -> float:
  """Returns the square of how far a user moves all phases of a run, in clip norms.

  Each phase is a matrix mechanism of its own: C is block diagonal, with a block C_i for
  the rounds of each phase, and the noise of phases is independent. A user who moves the
  block of phase i by S_i at most moves them all by (sum_i S_i^2)^(1/2) at most. S_i is
  taken over all sets of rounds of phase i that are far enough apart. That the last
  participation in one phase and the first one in the next are so, too, would only leave
  some of these sets out; it is not made use of.

  Args:
    strategies: Those of all phases in which the same users train.
    separation: The least number of rounds from one participation to the next.
  """
  return sum(each.squared_sensitivities(separation)[-1] for each in strategies)


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
    stage: Which phase of its run it is for, from 0. The noise of a phase has nothing in
      common with that of others.
    other_strategies: Those of the run's other phases, in which the same users train.
  """

  aggregator = 'ftrl_mean'
  starts_anew = True
  # What is sent in one direction adds up in C x, and noise does not cancel in it.
  worst_user_repeats = True

  strategy: correlated_noise.Strategy
  separation: int
  simulated_separation: int
  stage: int = 0
  other_strategies: tuple[correlated_noise.Strategy, ...] = ()

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.sampling not in (SEPARATED, BANDED_POISSON):
      raise PrivacyError(
        f'correlated noise is accounted for {SEPARATED} or {BANDED_POISSON} cohorts, not '
        f'for {self.sampling} ones'
      )
    if self.adaptive is not None:
      raise PrivacyError('correlated noise needs the same clip norm in all rounds')
    planned = sum(strategy.rounds for strategy in self.strategies)
    if planned != self.rounds:
      raise PrivacyError(f'a strategy for {planned} rounds is none for {self.rounds}')
    if self.sampling == BANDED_POISSON:
      self._check_bands()

  def _check_bands(self) -> None:
    """Refuses a strategy for which the theorem of banded sampling does not hold."""
    strategy = self.strategy
    if (
      self.other_strategies
      or not isinstance(strategy, correlated_noise.NearbyStrategy)
      or strategy.reach > self.separation
      or strategy.squared_norms().max() > 1
    ):
      raise PrivacyError(
        f'{BANDED_POISSON} cohorts need one strategy of at most {self.separation} bands, '
        f'with columns of norm 1 at most, not {strategy.summary}'
      )

  @property
  def cost(self) -> CorrelatedRounds | BandedRounds:  # type: ignore[override]
    """What rounds are to an accountant."""
    if self.sampling == BANDED_POISSON:
      return BandedRounds(
        self.noise_multiplier,
        self.population,
        self.cohort,
        self.separation,
        self.rounds,
        self.num_draws,
      )
    return CorrelatedRounds(
      self.noise_multiplier,
      self.separation,
      self.strategy.squared_sensitivities(self.separation),
      self.num_draws,
      self.stage,
    )

  @property
  def strategies(self) -> tuple[correlated_noise.Strategy, ...]:
    """Those of all phases of the run, its own first."""
    return (self.strategy, *self.other_strategies)

  def relative_noise(self, num_coordinates: int) -> float | None:
    """See the base class; noise cancels in sums over rounds, and counts for what is left."""
    alone = super().relative_noise(num_coordinates)
    if alone is None:
      return None
    independent = math.sqrt((self.strategy.rounds + 1) / 2)
    return alone * self.strategy.prefix_error() / independent

  @property
  def num_draws(self) -> int:
    """The numbers that are drawn in a round."""
    return self.num_coordinates * self.strategy.draws_per_round

  @property
  def participations(self) -> int:
    """In how many rounds a user takes part at most, each phase counted by itself."""
    return sum(
      participation.most_participations(strategy.rounds, self.separation)
      for strategy in self.strategies
    )

  @property
  def sensitivity(self) -> float:
    """How far a user moves what noise is added to in the whole run, in clip norms."""
    return squared_sensitivity(self.strategies, self.separation) ** 0.5

  def entry(self, group: str) -> ledger_entries.Entry:
    """See the base class."""
    return ledger_entries.Entry(
      ledger_entries.CENTRAL,
      self.entry_name,
      f'correlated Gaussian noise ({self.strategy.summary}) on the sum over a cohort of '
      f'{self.cohort:,} of {self.population:,} users, who take part at least '
      f'{self.separation:,} rounds apart, noise multiplier {self.noise_multiplier:.4g}'
      + f'; phase {self.stage + 1} of {len(self.strategies)}'
      * bool(self.other_strategies),
      cost=self.cost,
      group=group,
    )

  def check_sampling(self, sampling: str, separation: int = 1) -> None:
    """Refuses cohorts in which users may come back sooner than is accounted."""
    super().check_sampling(sampling, separation)
    if self.sampling == BANDED_POISSON and separation != self.simulated_separation:
      raise PrivacyError(
        f'users are dealt into {separation} slots, and the privacy plan accounts for '
        f'{self.simulated_separation}: its figure would be false'
      )
    if separation < self.simulated_separation:
      raise PrivacyError(
        f'users may come back after {separation} rounds, and the privacy plan accounts '
        f'for at least {self.simulated_separation}: its figure would be false'
      )

  def of_simulation(self) -> 'CorrelatedGaussian':
    """Returns the mechanism of the simulation: its own sizes, and the noise it adds."""
    own = super().of_simulation()
    assert isinstance(own, CorrelatedGaussian)
    apart = self.simulated_separation
    # With fewer slots than bands, chance is no help: only their distance counts.
    overlap = self.sampling == BANDED_POISSON and self.separation > apart
    sampling = SEPARATED if overlap else self.sampling
    return dataclasses.replace(own, sampling=sampling, separation=apart)

  @property
  def largest_shift(self) -> float:
    """See the base class."""
    (*_, square) = self.strategy.squared_sensitivities(self.separation)
    return square**0.5 / self.noise_multiplier

  def round_seeds(self) -> np.ndarray:
    """See the base class: of the rounds of its own phase."""
    return super().round_seeds()[: self.strategy.rounds]

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
    """Returns what hides the noise kept before each round of a phase, int64 [rounds + 1, 2].

    A state is what everybody may see, and so must not tell the noise of earlier rounds.
    """
    return np.stack(
      [self.stream.words('mask', number) for number in range(self.strategy.rounds + 1)]
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
