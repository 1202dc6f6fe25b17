"""Local differential privacy: users send a vector that leans towards their update.

The update is clipped to an L2 norm C. How long it is would tell something, so it becomes a
direction of one dimension more: with the coordinates over C and sqrt(1 - |update|^2 / C^2)
it is a unit vector of d + 1 numbers, whatever the update is. PrivUnitG answers it
(`spherical_cap`, with the proof), and the last number of the answer is left out, which
costs nothing. What is left, times C / m, is an unbiased estimate of the clipped update, as
the answer over m is one of the direction.

From a `PrivUnit` are made both the aggregation and the ledger's entries.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from tff_textpriv import randomness
from tff_textpriv.privacy import (
  card_blocks,
  ledger_entries,
  local_mechanism,
  local_planning,
  mechanism,
  report_settings,
  shuffled_card,
  shuffling,
  spherical_cap,
)
from tff_textpriv.privacy.costs import Bits
from tff_textpriv.settings import setting

if TYPE_CHECKING:
  from tff_textpriv.privacy.ledger import Ledger


@dataclasses.dataclass(frozen=True)
class PrivUnitSettings(report_settings.ReportSettings):
  """Flags of local differential privacy by PrivUnitG."""

  promise = 'local differential privacy for users, of the directions of their updates'

  target_epsilon: float = setting(
    4.0,
    'Epsilon of a user over the whole run, of which each report gets its part. Nobody '
    'reports once more who would exceed it.',
    above=0,
    below=math.inf,
    key='epsilon of a run',
  )
  clip_norm: float | None = setting(
    None,
    'L2 norm to which a client clips its update; by default --client_learning_rate, which '
    'is one step of SGD along a gradient of norm 1.',
    above=0,
    below=math.inf,
  )

  def mechanism(self, deployment: mechanism.Deployment) -> 'PrivUnit':
    """Makes the mechanism; see the base class."""
    left = self.left_for_rounds(self.target_epsilon, deployment)
    return PrivUnit(
      epsilon=local_planning.epsilon_of_each(
        deployment.participations, left, self.settled_delta(deployment.population)
      ),
      num_coordinates=deployment.num_coordinates or 1,
      clip_norm=self.clip_norm or deployment.client_step or 1.0,
      budget_epsilon=self.target_epsilon,
      **self.deployed(deployment),
    )


@dataclasses.dataclass(frozen=True)
class PrivUnit(local_mechanism.PureReports):
  """Local differential privacy of users, one vector per report.

  Attributes:
    epsilon: Local epsilon of a report.
    num_coordinates: The number d of coordinates of an update.
    clip_norm: The L2 norm C to which an update is clipped.
    delta: Delta at which the composed epsilon is given; a report has none.
    noise_source: 'seeded' or 'system'.
    claim: Whether the run claims its figure; false for comparisons.
    stream: A secret, for clients that are given no seed of their own.
    unit: What is protected: all the data of one user.
    crowd: How many reports a shuffler would mix in a round; by default the user's own.
    participations: In how many rounds a user can take part.
  """

  aggregator = 'priv_unit'
  covered = frozenset({'report'})

  epsilon: float
  num_coordinates: int
  clip_norm: float = 1.0
  delta: float = 1e-6
  noise_source: str = 'seeded'
  claim: bool = True
  accountant: str = 'pld'
  budget_epsilon: float | None = None
  rounds: int = 1
  population: int = 1
  stream: randomness.Stream = dataclasses.field(
    default_factory=randomness.Stream.of_system
  )
  unit: str = 'user'
  crowd: shuffling.Crowd = shuffling.Crowd()
  participations: int = 1

  @property
  def response(self) -> spherical_cap.CapResponse:
    """The law of a report, with room for what rounding adds to epsilon."""
    dimension = self.num_coordinates + 1
    exact = self.epsilon - spherical_cap.ROUNDING * dimension
    return spherical_cap.least_noise(exact, dimension)

  @property
  def noise(self) -> float:
    """The standard deviation of one report's estimate of a coordinate, about."""
    return self.clip_norm / self.response.gain

  @property
  def step_value(self) -> float:
    """What a step of a reported number stands for in an unbiased estimate."""
    return self.noise / spherical_cap.STEPS

  @property
  def cost(self) -> Bits:
    """What one round costs: no report of an epsilon composes worse than a bit of it."""
    return Bits(self.epsilon, 1)

  def entry(self, group: str) -> ledger_entries.Entry:
    """See the base class."""
    return self.report(
      f'an update clipped to {self.clip_norm:g} as a vector of local epsilon '
      f'{self.epsilon:g}, which counts as one bit of that epsilon',
      self.cost,
      group,
    )

  @property
  def warnings(self) -> tuple[str, ...]:
    """See the base class."""
    return (
      f'{self.total_in_words} A report has epsilon {self.epsilon:.4g}; its noise has '
      f'standard deviation {self.noise:.3g} in each of {self.num_coordinates:,} '
      f'coordinates, for an update of norm {self.clip_norm:g} at most.',
    )

  @property
  def summary(self) -> str:
    """See the base class."""
    return f'local, PrivUnitG, clip {self.clip_norm:g}'

  def headline(self, epsilon: str) -> str:
    """See the base class."""
    return (
      f'({epsilon}, {self.delta:g})-local differential privacy for everything that a '
      f'{self.unit} sends in the run'
    )

  @property
  def threat_model(self) -> str:
    """See the base class."""
    return (
      'Local differential privacy: users send a random vector that leans towards their '
      'update, so that the guarantee also holds against whoever collects the vectors. It '
      'is about what a user sends; that the user takes part, and when, is not hidden.'
    )

  def largest_step(self, num_coordinates: int) -> float:
    """See the base class."""
    return self.clip_norm / math.sqrt(num_coordinates)

  def describe(self, ledger: 'Ledger') -> dict[str, Any]:
    """See the base class."""
    rounds = list(ledger.rounds_by_user.values())
    return {
      'unit': self.unit,
      'report_epsilon': self.epsilon,
      'clip_norm': self.clip_norm,
      'num_coordinates': self.num_coordinates,
      'noise_per_coordinate': self.noise,
      'users_who_took_part': len(rounds),
      'by_user': local_mechanism.spent_by_users(self.cost, rounds, self.delta),
      'shuffled': shuffled_card.describe(self, max(rounds, default=0)),
      'noise_source': self.noise_source,
    }

  def blocks(self, ledger: 'Ledger') -> list[card_blocks.Block]:
    """See the base class."""
    numbers = self.describe(ledger)
    law = self.response
    return [
      self.unit_block,
      card_blocks.paragraph(
        f'A user’s update is clipped to an L2 norm of {self.clip_norm:g} and answered by a '
        'Gaussian vector whose component along it is drawn from the tail beyond '
        f'{law.edge:.3g} standard deviations with probability '
        f'{law.coin.keep_probability:.4g}, and otherwise from below. Any two updates give '
        f'any one vector with densities at most a factor e^{self.epsilon:.4g} apart. An '
        'update that is not finite counts as zero.',
        title='Mechanism',
      ),
      card_blocks.noise_source(self.noise_source),
      local_mechanism.spent_table(
        numbers['by_user'], self.delta, numbers['users_who_took_part']
      ),
      *shuffled_card.blocks(self, numbers['shuffled']),
    ]
