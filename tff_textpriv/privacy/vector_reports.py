"""What mechanisms have in common by which users report a clipped update as a whole.

A report is about all coordinates at once and has one epsilon, that of the report. Which
law it follows is each mechanism's own.
"""

import abc
import dataclasses
import math
from typing import TYPE_CHECKING, Any

from tff_textpriv.privacy import (
  card_blocks,
  ledger_entries,
  local_mechanism,
  local_planning,
  mechanism,
  report_settings,
  shuffled_card,
)
from tff_textpriv.privacy.costs import Bits
from tff_textpriv.settings import setting

if TYPE_CHECKING:
  from tff_textpriv.privacy.ledger import Ledger


@dataclasses.dataclass(frozen=True)
class VectorReportSettings(report_settings.ReportSettings):
  """Flags of local differential privacy of whole updates."""

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

  def deployed(self, deployment: mechanism.Deployment) -> dict[str, Any]:
    """Returns what `VectorReports` have of a deployment and of the flags."""
    left = self.left_for_rounds(self.target_epsilon, deployment)
    return {
      **super().deployed(deployment),
      'epsilon': local_planning.epsilon_of_each(
        deployment.participations, left, self.settled_delta(deployment.population)
      ),
      'num_coordinates': deployment.num_coordinates or 1,
      'clip_norm': self.clip_norm or deployment.client_step or 1.0,
      'budget_epsilon': self.target_epsilon,
    }


@dataclasses.dataclass(frozen=True)
class VectorReports(local_mechanism.PureReports):
  """Local differential privacy of users, one report of a whole update per round.

  Attributes:
    epsilon: Local epsilon of a report.
    num_coordinates: The number d of coordinates of an update.
    clip_norm: The L2 norm C to which an update is clipped.
    Others: see `local_mechanism.PureReports`.
  """

  epsilon: float
  num_coordinates: int
  clip_norm: float = 1.0

  @property
  @abc.abstractmethod
  def noise(self) -> float:
    """The standard deviation of one report's estimate of a coordinate, about."""

  @property
  @abc.abstractmethod
  def answer(self) -> str:
    """What a user answers, as it stands in the ledger."""

  @property
  @abc.abstractmethod
  def law_in_words(self) -> str:
    """How an answer is drawn, in sentences for the card."""

  @property
  @abc.abstractmethod
  def threat_model(self) -> str:
    """See the base class."""

  def relative_noise(self, num_coordinates: int) -> float | None:
    """See the base class."""
    shrunk = math.sqrt(num_coordinates / self.crowd.cohort)
    return self.noise * shrunk / self.clip_norm

  @property
  def cost(self) -> Bits:
    """What one round costs: no report of an epsilon composes worse than a bit of it."""
    return Bits(self.epsilon, 1)

  def entry(self, group: str) -> ledger_entries.Entry:
    """See the base class."""
    return self.report(
      f'an update clipped to {self.clip_norm:g} as {self.answer} of local epsilon '
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

  def headline(self, epsilon: str) -> str:
    """See the base class."""
    return (
      f'({epsilon}, {self.delta:g})-local differential privacy for everything that a '
      f'{self.unit} sends in the run'
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
    return [
      self.unit_block,
      card_blocks.paragraph(
        f'A user’s update is clipped to an L2 norm of {self.clip_norm:g}. '
        f'{self.law_in_words} Any two updates give any one report with probabilities at '
        f'most a factor e^{self.epsilon:.4g} apart. An update that is not finite counts '
        'as zero.',
        title='Mechanism',
      ),
      card_blocks.noise_source(self.noise_source),
      local_mechanism.spent_table(
        numbers['by_user'], self.delta, numbers['users_who_took_part']
      ),
      *shuffled_card.blocks(self, numbers['shuffled']),
    ]
