"""The plan of local differential privacy: randomized bits, round after round.

From an `LdpPlan` are made both the aggregation factory (how likely a bit is flipped,
how many coordinates a client reports) and the ledger's entries (what a round costs a
user). What is claimed is what an adversary faces: all the bits of a user.
"""

import dataclasses

from tff_textpriv.privacy import randomized_response
from tff_textpriv.privacy.mechanism import PrivacyError
from tff_textpriv.settings import Settings, SettingsError, setting


@dataclasses.dataclass(frozen=True)
class LocalPrivacySettings(Settings):
  """Flags of local differential privacy by randomized bits."""

  epsilon_per_coordinate: float = setting(
    1.0,
    'Local epsilon of one coordinate in one round, which is one bit. What a user '
    'spends is that of all coordinates that the user reports in all rounds: the '
    'privacy card shows it.',
    low=randomized_response.MIN_EPSILON,
    high=100,
  )
  coordinates_per_client: int | None = setting(
    None,
    'Coordinates of the update that a client reports in a round, drawn anew each '
    'time; all if not set. Fewer cost a user less, and the mean gets noisier.',
    low=1,
  )
  delta: float = setting(
    1e-6, 'Delta at which the composed epsilon is given.', above=0, below=1
  )
  noise_source: str = setting(
    'seeded',
    'Where bit flips come from: `seeded` repeats with --seed (for experiments), '
    '`system` is seeded by the operating system (for real use).',
    choices=('seeded', 'system'),
  )
  privacy_claim: bool = setting(
    True,
    'Set to false to run a comparison (such as an oracle tokenizer) under the same '
    'mechanism without claiming anything.',
  )


@dataclasses.dataclass(frozen=True)
class Reports:
  """What one user sends in one round: some bits, each randomized.

  Attributes:
    epsilon: Local epsilon of a bit.
    num_bits: The number of bits.
  """

  epsilon: float
  num_bits: int

  def pure_epsilon(self, rounds: int) -> float:
    """Returns the epsilon, at delta 0, of a user who takes part in so many rounds."""
    return self.epsilon * self.num_bits * rounds

  def composed_epsilon(self, rounds: int, delta: float) -> float:
    """Returns the exact epsilon at `delta` of a user who does."""
    return randomized_response.composed_epsilon(
      self.epsilon, self.num_bits * rounds, delta
    )


@dataclasses.dataclass(frozen=True)
class LdpPlan:
  """Local differential privacy of users, bit by bit.

  Attributes:
    epsilon: Local epsilon of one coordinate in one round.
    num_coordinates: The number d of coordinates of an update.
    coordinates_per_client: How many of them, s, a client reports in a round; `None`
      for all.
    delta: Delta at which the composed epsilon is given.
    noise_source: 'seeded' or 'system'.
    claim: Whether the run claims its figure; false for comparisons.
    unit: What is protected: all the data of one user.
  """

  epsilon: float
  num_coordinates: int
  coordinates_per_client: int | None = None
  delta: float = 1e-6
  noise_source: str = 'seeded'
  claim: bool = True
  unit: str = 'user'

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
  def accountant(self) -> str:
    """Bits are composed by their privacy loss distribution, in closed form."""
    return 'pld'

  @property
  def reports(self) -> Reports:
    """What one round costs a user who takes part."""
    return Reports(self.epsilon, self.num_reported)

  @property
  def no_guarantee_reason(self) -> str | None:
    """Why this plan promises nothing, or `None` if it does promise."""
    if not self.claim:
      return 'the run is a comparison that claims nothing (--privacy_claim=false)'
    return None

  @property
  def warnings(self) -> tuple[str, ...]:
    """What the person who starts the run should be told about its promise."""
    pure = self.reports.pure_epsilon(1)
    composed = self.reports.composed_epsilon(1, self.delta)
    return (
      f'Epsilon {self.epsilon:g} is that of one coordinate in one round. A user who '
      f'reports {self.num_reported:,} of {self.num_coordinates:,} coordinates spends '
      f'{pure:,.6g} in a single round (pure), {composed:,.6g} at delta {self.delta:g}, '
      'and more with every further round.',
    )


def make_plan(settings: LocalPrivacySettings, num_coordinates: int) -> LdpPlan:
  """Makes the plan that the flags ask for.

  Args:
    settings: The privacy flags.
    num_coordinates: The number of coordinates of an update: the model's size.

  Raises:
    SettingsError: More coordinates are to be reported than there are.
  """
  wanted = settings.coordinates_per_client
  if wanted is not None and wanted > num_coordinates:
    raise SettingsError(
      'coordinates_per_client',
      wanted,
      f'must be at most the number of parameters of the model, {num_coordinates:,}',
    )
  return LdpPlan(
    epsilon=settings.epsilon_per_coordinate,
    num_coordinates=num_coordinates,
    coordinates_per_client=wanted,
    delta=settings.delta,
    noise_source=settings.noise_source,
    claim=settings.privacy_claim,
  )


@dataclasses.dataclass(frozen=True)
class TruthRow:
  """One line of the truth table.

  Attributes:
    what: What is looked at.
    num_bits: How many bits of the user tell about it.
    pure: Their epsilon at delta 0.
    composed: Their epsilon at the plan's delta.
  """

  what: str
  num_bits: int
  pure: float
  composed: float


def truth_table(plan: LdpPlan, rounds: int) -> list[TruthRow]:
  """Returns what epsilon is of: a bit, a coordinate, a round, a run.

  Args:
    plan: The plan.
    rounds: The rounds in which the user took part.

  Returns:
    From the smallest figure, which is that of the mechanism's parameter, to the one
    that an adversary faces; with coordinate sampling also what there would be
    without it.
  """
  d, s = plan.num_coordinates, plan.num_reported
  of = f'{s:,} of {d:,}' if plan.samples_coordinates else f'all {d:,}'
  counts = {
    'one bit': 1,
    'one coordinate, one round': 1,
    f'one coordinate, {rounds:,} rounds': rounds,
    f'{of} coordinates, one round': s,
    f'{of} coordinates, {rounds:,} rounds: what an adversary faces': s * rounds,
  }
  if plan.samples_coordinates:
    counts[f'(without coordinate sampling: all {d:,}, {rounds:,} rounds)'] = d * rounds
  return [
    TruthRow(
      what,
      num_bits,
      plan.epsilon * num_bits,
      randomized_response.composed_epsilon(plan.epsilon, num_bits, plan.delta),
    )
    for what, num_bits in counts.items()
  ]
