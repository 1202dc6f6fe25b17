"""No mechanism: nothing is done to updates, and nothing is promised."""

import dataclasses
from typing import ClassVar

from tff_textpriv.privacy import mechanism


@dataclasses.dataclass(frozen=True)
class NoMechanism(mechanism.Mechanism):
  """No mechanism: nothing is promised, and the reason is said.

  Attributes:
    reason: Why.
    delta: Nominal, like the accountant: no figure comes of it.
    accountant: Nominal.
    budget_epsilon: None.
    rounds: Planned number of rounds.
    population: Users who may be drawn.
    unit: What would be protected.
    noise_source: Nominal.
  """

  aggregator = 'sound_updates'
  entry_name = 'training'

  reason: str
  delta: float = 1e-6
  accountant: str = 'rdp'
  budget_epsilon: float | None = None
  rounds: int = 1
  population: int = 1
  unit: str = 'user'
  noise_source: str = 'system'

  @property
  def no_guarantee_reason(self) -> str:
    """See the base class."""
    return self.reason

  @property
  def warnings(self) -> tuple[str, ...]:
    """None: who starts a run without a mechanism is told so by its summary."""
    return ()

  def entry(self, group: str) -> None:
    """Returns nothing: a round costs what no figure tells."""


@dataclasses.dataclass(frozen=True)
class NoPrivacySettings(mechanism.MechanismSettings):
  """Algorithms without a mechanism have no flags of privacy."""

  reason: ClassVar[str] = 'updates are averaged without clipping and without noise'

  def mechanism(self, deployment: mechanism.Deployment) -> NoMechanism:
    """Makes no mechanism."""
    return NoMechanism(
      self.reason, rounds=deployment.rounds, population=deployment.population
    )
