"""The mechanism: one object that everything which a promise rests on is asked of.

The process asks it for the aggregation, the runner who may take part and what a round
costs, the card what to say, the audit what a worst-case client would send. Nobody
outside of this folder, and of the mechanism's own aggregator, asks which mechanism it is.

To add one, derive `Mechanism` and `MechanismSettings` in a module of this folder, and
write its aggregator in a module of `aggregators`. What a mechanism does not say is
answered by the base class, on the safe side: nothing is claimed, nothing is covered.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tff_textpriv import randomness
from tff_textpriv.privacy import card_blocks, participation, planning
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.ledger_entries import Entry
from tff_textpriv.settings import Settings

if TYPE_CHECKING:
  from tff_textpriv.privacy.ledger import Ledger

# What an update has at most, where nobody says how many.
MANY_COORDINATES = 2**27
NOT_CLAIMED = 'the run is a comparison that claims nothing (--privacy_claim=false)'


@dataclasses.dataclass(frozen=True)
class Deployment:
  """What a mechanism has to know of the run that it is for.

  Attributes:
    sampling: How cohorts are drawn: 'poisson', 'fixed' or 'banded_poisson'; or
      'separated', not drawn.
    population: Users who may be drawn.
    cohort: (Expected) users per round.
    rounds: Number of rounds the run is going to make.
    stream: Where random numbers come from: the run's seed, or a secret. If there is
      none, it is seed 0, or a new secret.
    num_coordinates: The number of coordinates of an update: the size of what is shared;
      `None` if it is not known yet.
    client_step: The step size of clients, if they have one.
    parts: Into how many groups the users of a deployment are dealt, of which this run's
      are one.
    unit: What is protected: the data of a user, or of what stands for one.
    spent_besides: What these users spend besides its rounds, an epsilon.
    spent_elsewhere: What other users of the run spend, an epsilon.
    separation: The least number of rounds from one participation of a user to the next.
    device_failure_rate: The probability that a user who was drawn does not report.
    stages: The rounds of each phase in which these users train, in order, where there are
      several; together they are all rounds.
    stage: Which of them it is for.
    simulated_sampling: How the simulation draws cohorts, if not as they are accounted.
  """

  sampling: str
  population: int
  cohort: int
  rounds: int
  stream: randomness.Stream | None = None
  num_coordinates: int | None = None
  client_step: float | None = None
  parts: int = 1
  unit: str = 'user'
  spent_besides: float = 0.0
  spent_elsewhere: float = 0.0
  separation: int = 1
  device_failure_rate: float = 0.0
  stages: tuple[int, ...] = ()
  stage: int = 0
  simulated_sampling: str | None = None

  @property
  def participations(self) -> int:
    """In how many rounds a user can take part, however cohorts turn out."""
    return participation.most_participations(self.rounds, self.separation)

  def stream_from(self, source: str) -> randomness.Stream:
    """Returns where random numbers come from, given the source that was asked for."""
    if self.stream is not None:
      return self.stream
    return (
      randomness.Stream.of_seed(0)
      if source == 'seeded'
      else randomness.Stream.of_system()
    )


class Mechanism:
  """Everything that a promise rests on.

  Attributes:
    aggregator: The module of `aggregators` that does what the mechanism says, by name; or
      an object with the functions that such a module has.
    randomizes_on_device: Whether clients draw random numbers of their own.
    by_user: Whether a round costs only those who take part in it.
    starts_anew: Whether each phase of a run is a mechanism of its own, whose aggregator
      keeps nothing of the phase before.
    worst_user_repeats: Whether a user who sends the same in all rounds shows most, and an
      audit should.
    entry_name: What the ledger calls a round.
    accountants: Those that can tell its figure.
    delta: Delta of the guarantee.
    accountant: The one of the headline figure.
    budget_epsilon: The run stops before the round that would exceed it.
    rounds: Planned number of rounds.
    population: Users who may be drawn.
    unit: What is protected: all the data of one user.
    noise_source: 'seeded' or 'system'.
  """

  aggregator: ClassVar[Any] = ''
  randomizes_on_device: ClassVar[bool] = False
  by_user: ClassVar[bool] = False
  starts_anew: ClassVar[bool] = False
  worst_user_repeats: ClassVar[bool] = False
  entry_name: ClassVar[str] = 'training rounds'
  accountants: ClassVar[tuple[str, ...]] = ('rdp', 'pld')
  # No values here: a dataclass would take them for the defaults of its fields.
  delta: float
  accountant: str
  budget_epsilon: float | None
  rounds: int
  population: int
  unit: str
  noise_source: str

  # What is promised.

  @property
  def no_guarantee_reason(self) -> str | None:
    """Why nothing is promised, or `None` if something is."""
    return f'{type(self).__name__} makes no claim'

  @property
  def warnings(self) -> tuple[str, ...]:
    """What the person who starts the run should be told about its promise."""
    if self.no_guarantee_reason is None:
      return ()
    return (f'No formal privacy guarantee: {self.no_guarantee_reason}.',)

  def entry(self, group: str) -> Entry | None:
    """Returns what the ledger enters for one round; `None` if that is nothing.

    Args:
      group: The users from whom the cohorts are drawn; see `Entry`.
    """
    raise PrivacyError(f'{type(self).__name__} does not say what a round costs')

  def check_sampling(self, sampling: str, separation: int = 1) -> None:
    """Raises `PrivacyError` if cohorts drawn in this way would make the figure false.

    What each user pays for does not depend on it; whoever else promises something must
    say for which cohorts.

    Args:
      sampling: How cohorts are drawn.
      separation: The least number of rounds from one participation to the next.
    """
    if self.no_guarantee_reason is None and not self.by_user:
      raise PrivacyError(
        f'{type(self).__name__} does not say whether its figure holds for {sampling} '
        'cohorts'
      )

  def of_simulation(self) -> 'Mechanism':
    """Returns the mechanism of the simulation itself, where it stands for another run."""
    return self

  @property
  def is_scaled(self) -> bool:
    """Whether the figure is that of another deployment than the simulation."""
    return False

  # What is said.

  @property
  def summary(self) -> str:
    """What it does, in a few words."""
    return 'no formal guarantee'

  @property
  def advice_on_noise(self) -> str:
    """Says what to do about a model that has learnt nothing."""
    return 'train for more rounds, or try other learning rates'

  def relative_noise(self, num_coordinates: int) -> float | None:
    """Returns how large the noise on the mean of a round is beside an update.

    That is its L2 norm, over the largest that an update can have. Of noise that hangs
    together over rounds it is that of independent noise.

    Args:
      num_coordinates: The size of an update.

    Returns:
      Their ratio; `None` if there is no noise, or nobody knows.
    """
    del num_coordinates
    return None

  def headline(self, epsilon: str) -> str:
    """Says what a user is promised; only asked where something is."""
    raise PrivacyError(f'{type(self).__name__} does not say what it promises')

  def qualified(self, headline: str) -> str:
    """Says of a headline what it is not, so that nobody takes it for more."""
    if self.is_scaled:
      return f'This model: no guarantee. The deployment it stands for: {headline}'
    if self.noise_source == 'seeded':
      return (
        'Experiment with seeded noise; whoever knows the seed knows all. With secret '
        f'noise: {headline}'
      )
    return headline

  @property
  def promise(self) -> tuple[str, str]:
    """What a figure is of, in few words and in sentences.

    Figures under different words are never compared.
    """
    return 'of an unknown kind', f'{type(self).__name__} does not say what it is of.'

  @property
  def threat_model(self) -> str:
    """Says who is protected from whom."""
    return 'None: no mechanism protects the users of this run.'

  @property
  def covered(self) -> frozenset[str]:
    """The names of what leaves a device under the promise."""
    return frozenset()

  @property
  def is_local_promise(self) -> bool:
    """Whether nothing may leave a device but what is covered, counts and losses too."""
    return self.randomizes_on_device and self.no_guarantee_reason is None

  @property
  def not_covered(self) -> tuple[str, ...]:
    """Sentences on what the promise leaves out, besides what it always does."""
    return ()

  def describe(self, ledger: 'Ledger') -> dict[str, Any]:
    """Returns its numbers, as JSON values."""
    return {}

  def blocks(self, ledger: 'Ledger') -> list[card_blocks.Block]:
    """Returns what the card's page says of it."""
    return []

  # What an audit asks.

  @property
  def epsilon_per_coordinate(self) -> float | None:
    """The pure epsilon of each coordinate, where each is randomized for itself."""
    return None

  @property
  def mean_denominator(self) -> float:
    """What the sum of a round is divided by, where that is fixed."""
    return 1.0

  def independent(self, noise: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns the noise of the first rounds, float [coordinates] each, as it was drawn.

    That is: with nothing in common between rounds, and of the standard deviation that is
    accounted for. It is linear, so that what users add can be told from what it becomes.
    """
    return list(noise)

  def largest_step(self, num_coordinates: int) -> float:
    """Returns how far each coordinate of an update can go before it is bounded."""
    return 1.0 / math.sqrt(num_coordinates)


@dataclasses.dataclass(frozen=True)
class MechanismSettings(Settings):
  """The flags of a mechanism.

  Attributes:
    randomizes_on_device: Whether users randomize what they send, so that their reports
      are audited one by one.
    promise: What users are promised, for `--help`.
    planned_by: What says how much a message hides, for `tools.plan`.
  """

  randomizes_on_device: ClassVar[bool] = False
  promise: ClassVar[str] = 'no formal guarantee'
  planned_by: ClassVar[str] = planning.NOISE

  @property
  def claims(self) -> bool:
    """Whether a run is going to claim a figure."""
    return False

  def check(self) -> None:
    """Raises `SettingsError` if a flag is missing without which there is no mechanism."""
    return

  @property
  def noise_source(self) -> str:
    """Where random numbers come from: `seeded`, or `system`."""
    return 'seeded'

  @property
  def cohort_sampling(self) -> str | None:
    """How users must come; `None` where the run may draw them as it likes."""
    return None

  def simulated_sampling(
    self, sampling: str, population: int, cohort: int, parts: int
  ) -> str:
    """Returns how the simulation draws users, given how cohorts are accounted.

    Args:
      sampling: How cohorts are accounted.
      population: The number of simulated users.
      cohort: (Expected) simulated users per round.
      parts: Into how many parts, each with rounds of its own, all users are dealt.
    """
    del population, cohort, parts  # The simulation is what is accounted.
    return sampling

  def slots(self, rounds: int, population: int, cohort: int) -> int:
    """Returns into how many slots users are dealt, of which one is drawn from at a time.

    Args:
      rounds: The number of rounds.
      population: The number of users.
      cohort: (Expected) users per round.
    """
    del rounds, population, cohort  # Everybody may be drawn in every round.
    return 1

  @classmethod
  def solve(cls, question: planning.Question) -> list[planning.Solution]:
    """Solves for the quantity of a deployment that is left out.

    Raises:
      PrivacyError: The mechanism has no such quantities.
    """
    raise PrivacyError(
      f'{cls.__name__} has no epsilon, noise, cohort and rounds to solve for'
    )

  def mechanism(self, deployment: Deployment) -> Mechanism:
    """Makes the mechanism that the flags ask for, with its noise calibrated.

    Raises:
      SettingsError: A flag is missing or cannot hold.
      PrivacyError: The flags together amount to a promise that would be false.
    """
    raise PrivacyError(f'{type(self).__name__} makes no mechanism')
