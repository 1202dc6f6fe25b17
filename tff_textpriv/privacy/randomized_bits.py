"""Local differential privacy: users send randomized bits, round after round.

From a `RandomizedBits` are made both the aggregation (how likely a bit is flipped, how
many coordinates a client reports) and the ledger's entries (what a round costs a user).
What is claimed is what an adversary faces: all the bits of a user.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

from tff_textpriv import randomness
from tff_textpriv.privacy import (
  bits_card,
  card_blocks,
  claim_settings,
  ledger_entries,
  local_mechanism,
  mechanism,
  planning,
  randomized_response,
  shuffled_planning,
  shuffling,
)
from tff_textpriv.privacy.costs import Bits
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.settings import SettingsError, setting

if TYPE_CHECKING:
  from tff_textpriv.privacy.ledger import Ledger


@dataclasses.dataclass(frozen=True)
class LocalPrivacySettings(claim_settings.ClaimSettings):
  """Flags of local differential privacy by randomized bits."""

  randomizes_on_device = True
  promise = 'local differential privacy for users; how much, the card says'
  planned_by = planning.REPORT

  epsilon_per_coordinate: float = setting(
    1.0,
    'Local epsilon of one coordinate in one round, which is one bit. What a user '
    'spends is that of all coordinates that the user reports in all rounds: the '
    'privacy card shows it.',
    low=randomized_response.MIN_EPSILON,
    high=100,
    key='epsilon of one bit',
  )
  coordinates_per_client: int | None = setting(
    None,
    'Coordinates of the update that a client reports in a round, drawn anew each '
    'time; all if not set. Fewer cost a user less, and the mean gets noisier.',
    low=1,
  )
  quantization_range: float | None = setting(
    None,
    'The range [-q, q] to which each coordinate of an update is clipped before it '
    'becomes a bit; by default q is --client_learning_rate.',
    above=0,
  )

  @classmethod
  def solve(cls, question: planning.Question) -> list[planning.Solution]:
    """See the base class: of reports behind a shuffler."""
    return [shuffled_planning.solve(question)]

  def mechanism(self, deployment: mechanism.Deployment) -> 'RandomizedBits':
    """Makes the mechanism; see the base class."""
    wanted = self.coordinates_per_client
    there = deployment.num_coordinates or wanted or 1
    if wanted is not None and wanted > there:
      raise SettingsError(
        'coordinates_per_client',
        wanted,
        f'must be at most the number of parameters of the model, {there:,}',
      )
    return RandomizedBits(
      epsilon=self.epsilon_per_coordinate,
      num_coordinates=there,
      coordinates_per_client=wanted,
      bound=self.quantization_range or deployment.client_step or 1.0,
      delta=self.settled_delta(deployment.population),
      noise_source=self.noise_source,
      claim=self.privacy_claim,
      rounds=deployment.rounds,
      population=deployment.population,
      stream=deployment.stream_from(self.noise_source),
      unit=deployment.unit,
      crowd=shuffling.Crowd(
        deployment.sampling,
        deployment.population,
        deployment.cohort,
        deployment.device_failure_rate,
      ),
    )


@dataclasses.dataclass(frozen=True)
class RandomizedBits(local_mechanism.LocalMechanism):
  """Local differential privacy of users, bit by bit.

  Attributes:
    epsilon: Local epsilon of one coordinate in one round.
    num_coordinates: The number d of coordinates of an update.
    coordinates_per_client: How many of them, s, a client reports in a round; `None`
      for all.
    bound: The quantization range q, of no consequence for privacy.
    delta: Delta at which the composed epsilon is given.
    noise_source: 'seeded' or 'system'.
    claim: Whether the run claims its figure; false for comparisons.
    stream: A secret, for clients that are given no seed of their own.
    unit: What is protected: all the data of one user.
    crowd: How many reports a shuffler would mix in a round; by default the user's own.
  """

  aggregator = 'bit_randomized_response'
  accountants = ('pld',)

  epsilon: float
  num_coordinates: int
  coordinates_per_client: int | None = None
  bound: float = 1.0
  delta: float = 1e-6
  noise_source: str = 'seeded'
  claim: bool = True
  # Bits are composed by their privacy loss distribution, in closed form.
  accountant: str = 'pld'
  budget_epsilon: float | None = None
  rounds: int = 1
  population: int = 1
  stream: randomness.Stream = dataclasses.field(
    default_factory=randomness.Stream.of_system
  )
  unit: str = 'user'
  crowd: shuffling.Crowd = shuffling.Crowd()

  def __post_init__(self) -> None:
    if not 1 <= self.num_reported <= self.num_coordinates:
      raise PrivacyError(
        f'a client cannot report {self.num_reported} of '
        f'{self.num_coordinates} coordinates'
      )

  @property
  def response(self) -> randomized_response.BitResponse:
    """How one bit is randomized."""
    return randomized_response.BitResponse(self.epsilon)

  @property
  def num_reported(self) -> int:
    """The number s of coordinates that a client reports in a round."""
    return self.coordinates_per_client or self.num_coordinates

  @property
  def samples_coordinates(self) -> bool:
    """Whether a client reports only some of the coordinates."""
    return self.num_reported < self.num_coordinates

  @property
  def reported_share(self) -> float:
    """The probability s / d that a client reports a given coordinate."""
    return self.num_reported / self.num_coordinates

  @property
  def sign_value(self) -> float:
    """What a reported sign stands for in an unbiased estimate: q / (2p - 1) d / s."""
    return self.bound / self.response.contrast / self.reported_share

  @property
  def cost(self) -> Bits:
    """What one round costs a user who takes part."""
    return Bits(self.epsilon, self.num_reported)

  def entry(self, group: str) -> ledger_entries.Entry:
    """See the base class."""
    return self.report(
      f'{self.num_reported:,} of {self.num_coordinates:,} coordinates, one bit each of '
      f'local epsilon {self.epsilon:g}',
      self.cost,
      group,
    )

  @property
  def no_guarantee_reason(self) -> str | None:
    """Why this plan promises nothing, or `None` if it does promise."""
    return None if self.claim else mechanism.NOT_CLAIMED

  @property
  def warnings(self) -> tuple[str, ...]:
    """What the person who starts the run should be told about its promise."""
    pure = self.cost.pure_epsilon(1)
    composed = self.cost.epsilon(1, self.delta)
    return (
      f'Epsilon {self.epsilon:g} is that of one coordinate in one round. A user who '
      f'reports {self.num_reported:,} of {self.num_coordinates:,} coordinates spends '
      f'{pure:,.6g} in a single round (pure), {composed:,.6g} at delta {self.delta:g}, '
      'and more with every further round.',
    )

  @property
  def summary(self) -> str:
    """See the base class."""
    return 'local, bit by bit'

  def headline(self, epsilon: str) -> str:
    """Says what a user is promised: the figure of all bits, not that of one."""
    return (
      f'({epsilon}, {self.delta:g})-local differential privacy for everything that a '
      f'{self.unit} sends in the run; epsilon {self.epsilon:g} is that of one coordinate in one '
      'round only'
    )

  @property
  def promise(self) -> tuple[str, str]:
    """See the base class."""
    words, explanation = super().promise
    return words, (
      f'{explanation} The setting epsilon_per_coordinate is of one bit in one round; it '
      'is another figure and is not compared with these.'
    )

  @property
  def threat_model(self) -> str:
    """See the base class."""
    return (
      'Local differential privacy: users randomize every bit before they send it, so '
      'that the guarantee also holds against whoever collects the bits. It is about what '
      'a user sends; that the user takes part, and when, is not hidden.'
    )

  @property
  def covered(self) -> frozenset[str]:
    """The bits, and which coordinates they are of, which follows from nobody's data."""
    return frozenset({'bits'} | ({'selection'} if self.samples_coordinates else set()))

  @property
  def epsilon_per_coordinate(self) -> float:
    """See the base class."""
    return self.epsilon

  def largest_step(self, num_coordinates: int) -> float:
    """See the base class: each coordinate has a bound of its own."""
    return self.bound

  def describe(self, ledger: 'Ledger') -> dict[str, Any]:
    """See the base class."""
    return bits_card.describe(self, ledger)

  def blocks(self, ledger: 'Ledger') -> list[card_blocks.Block]:
    """See the base class."""
    return bits_card.blocks(self, ledger)
