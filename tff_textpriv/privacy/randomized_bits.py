"""Local differential privacy: users send randomized bits, round after round.

From a `RandomizedBits` are made both the aggregation (how likely a bit is flipped, how
many coordinates a client reports) and the ledger's entries (what a round costs a user).
What is claimed is what an adversary faces: all the bits of a user.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tff_textpriv.privacy import (
  bits_card,
  card_blocks,
  ledger_entries,
  local_mechanism,
  local_planning,
  mechanism,
  randomized_response,
  report_settings,
  shuffling,
)
from tff_textpriv.privacy.costs import Bits
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.settings import IncompatibleSettingsError, SettingsError, setting

if TYPE_CHECKING:
  from tff_textpriv.privacy.ledger import Ledger

# The norm of a user's update beside that of one with all coordinates at the ends of their
# range: a text moves the weights of its own words, and leaves the others where they are.
_SHARE_OF_RANGE = 0.05
# Of one bit, where nothing is said: the paper's.
_DEFAULT_EPSILON = 1.0


@dataclasses.dataclass(frozen=True)
class LocalPrivacySettings(report_settings.ReportSettings):
  """Flags of local differential privacy by randomized bits."""

  promise = 'local differential privacy for users; how much, the card says'

  target_epsilon: float | None = setting(
    None,
    'Epsilon of a user over the whole run. From it follow how many coordinates a client '
    'reports in a round (unless --coordinates_per_client says so) and the epsilon of '
    'each: those with the least noise. Nobody reports once more who would exceed it.',
    above=0,
    below=math.inf,
    key='epsilon of a run',
  )
  epsilon_per_coordinate: float | None = setting(
    None,
    'In place of --target_epsilon, the local epsilon of one coordinate in one round, '
    'which is one bit; 1 if neither is given. What a user spends is that of all '
    'coordinates that the user reports in all rounds: the run says it at its start.',
    low=randomized_response.MIN_EPSILON,
    high=100,
    key='epsilon of one bit',
  )
  coordinates_per_client: int | None = setting(
    None,
    'Coordinates of the update that a client reports in a round, drawn anew each '
    'time; if not set all, or as many as go best with --target_epsilon. Fewer cost a user '
    'less, and the mean gets noisier.',
    low=1,
  )
  quantization_range: float | None = setting(
    None,
    'The range [-q, q] to which each coordinate of an update is clipped before it '
    'becomes a bit; by default q is --client_learning_rate.',
    above=0,
  )

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
    delta = self.settled_delta(deployment.population)
    epsilon = self.epsilon_per_coordinate or _DEFAULT_EPSILON
    if self.target_epsilon is not None:
      left = self.left_for_rounds(self.target_epsilon, deployment)
      wanted, epsilon = self._planned(left, delta, deployment.participations, there)
    return RandomizedBits(
      epsilon=epsilon,
      num_coordinates=there,
      coordinates_per_client=wanted,
      bound=self.quantization_range or deployment.client_step or 1.0,
      budget_epsilon=self.target_epsilon,
      **self.deployed(deployment),
    )

  def _planned(
    self, total: float, delta: float, participations: int, num_coordinates: int
  ) -> tuple[int, float]:
    """Returns how many bits a report has and the epsilon of each, given a user's total."""
    if self.epsilon_per_coordinate is not None:
      raise IncompatibleSettingsError(
        '--target_epsilon is that of a user over the whole run, from which the epsilon of '
        'each bit follows, and --epsilon_per_coordinate is that of one bit: give one of '
        'both'
      )
    bits = self.coordinates_per_client or local_planning.bits_for_total(
      total, delta, participations, num_coordinates
    )
    epsilon = local_planning.epsilon_of_each(bits * participations, total, delta)
    if epsilon < randomized_response.MIN_EPSILON:
      raise SettingsError(
        'target_epsilon',
        self.target_epsilon,
        f'leaves less than {randomized_response.MIN_EPSILON:g} to each of '
        f'{bits * participations:,} bits; report fewer, in fewer rounds',
      )
    return bits, epsilon


@dataclasses.dataclass(frozen=True)
class RandomizedBits(local_mechanism.PureReports):
  """Local differential privacy of users, bit by bit.

  Attributes:
    epsilon: Local epsilon of one coordinate in one round.
    num_coordinates: The number d of coordinates of an update.
    coordinates_per_client: How many of them, s, a client reports in a round; `None`
      for all.
    bound: The quantization range q, of no consequence for privacy.
    Others: see `local_mechanism.PureReports`.
  """

  aggregator = 'bit_randomized_response'

  epsilon: float
  num_coordinates: int
  coordinates_per_client: int | None = None
  bound: float = 1.0

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
  def shuffled_bound(self) -> Callable[[float, int, int, float], float]:
    """See the base class."""
    return (
      shuffling.epsilon_of_bits if self.num_reported == 1 else super().shuffled_bound
    )

  @property
  def noise(self) -> float:
    """The standard deviation of one report's estimate of a zero, over the range q."""
    return self.sign_value * math.sqrt(self.reported_share) / self.bound

  def relative_noise(self, num_coordinates: int) -> float | None:
    """See the base class: the norm of an update is a share of q sqrt(d)."""
    del num_coordinates  # Noise and update grow alike with it.
    return self.noise / math.sqrt(self.crowd.cohort) / _SHARE_OF_RANGE

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
  def warnings(self) -> tuple[str, ...]:
    """What the person who starts the run should be told about its promise."""
    reported = f'{self.num_reported:,} of {self.num_coordinates:,} coordinates'
    if self.budget_epsilon is not None:
      return (
        f'{self.total_in_words} A report is of {reported}, one bit of epsilon '
        f'{self.epsilon:.4g} each: few bits with a large epsilon each make the least '
        'noise, which for one coordinate of one report has standard deviation '
        f'{self.noise:.3g} q.',
      )
    pure = self.cost.pure_epsilon(1)
    composed = self.cost.epsilon(1, self.delta)
    return (
      f'Epsilon {self.epsilon:g} is that of one coordinate in one round. A user who '
      f'reports {reported} spends {pure:,.6g} in a single round (pure), {composed:,.6g} at '
      f'delta {self.delta:g}. {self.total_in_words} --target_epsilon plans for a total.',
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
