"""Distributed differential privacy: clients add the noise, and only sums are seen.

From a `DistributedNoise` are made both the aggregation (how clients round, noise and wrap
their updates) and the ledger's entries (what a sum costs). The server need not be trusted
with updates: it is given nothing but their noisy sum, by secure aggregation.
"""

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tff_textpriv.privacy import (
  card_blocks,
  central,
  distributed_card,
  ledger_entries,
  participation,
  secure_sum,
)
from tff_textpriv.privacy.device_noise import LARGEST_STDDEV, DeviceNoise
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.secure_sum_cost import SecureSumRounds

if TYPE_CHECKING:
  from tff_textpriv.privacy.ledger import Ledger

SEPARATED = 'separated'


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistributedNoise(central.CentralGaussian):
  """Differential privacy of users against a server that sees sums only.

  The noise multiplier is that of the noise that is counted on, in the sum of the accounted
  cohort, over the clip norm.

  Attributes:
    device_noise: The law of the clients' noise, one of `device_noise.LAWS`.
    bits: Sums are kept modulo 2^bits.
    missing_share: The share of a cohort whose noise is not counted on: devices that drop
      out, or that tell the server what they drew.
    separation: The least number of rounds from one participation to the next, in the
      deployment that is accounted for.
    simulated_separation: The same in the simulation.
  """

  aggregator = 'distributed_mean'
  randomizes_on_device = True
  accountants = ('rdp',)

  device_noise: str
  bits: int
  missing_share: float
  separation: int
  simulated_separation: int

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.sampling != SEPARATED:
      raise PrivacyError(
        f'noise of clients is accounted for {SEPARATED} cohorts, not for {self.sampling} '
        'ones'
      )
    if self.adaptive is not None or not math.isfinite(self.clip):
      raise PrivacyError('noise of clients needs the same clip norm in all rounds')

  @property
  def counted_clients(self) -> int:
    """How many clients of the accounted cohort must add noise."""
    return counted(self.cohort, self.missing_share)

  @property
  def fewest_clients(self) -> int:
    """With how many clients fewer than which a round of the simulation is abandoned.

    Where the simulation stands for a larger deployment, whose cohorts hardly vary, none
    is.
    """
    return 0 if self.is_scaled else self.counted_clients

  @functools.cached_property
  def code(self) -> secure_sum.SumCode:
    """How updates become whole numbers, in the accounted deployment."""
    # What a client adds, in clip norms.
    share = self.noise_multiplier / math.sqrt(self.counted_clients)
    return secure_sum.fitting(
      self.num_coordinates,
      self.bits,
      self.cohort,
      share * math.sqrt(self.cohort),
      largest_clip=LARGEST_STDDEV[self.device_noise] / share,
    )

  def client_noise(self) -> DeviceNoise:
    """Returns the law of what a client of the simulation adds."""
    counted_on = counted(self.simulated_cohort, self.missing_share)
    stddev = self.sum_stddev(1.0) * self.code.clip
    return DeviceNoise(self.device_noise, stddev**2 / counted_on)

  @functools.cached_property
  def cost(self) -> SecureSumRounds:  # type: ignore[override]
    """What rounds are, at the accounted sizes."""
    variance = (self.noise_multiplier * self.code.clip) ** 2 / self.counted_clients
    return SecureSumRounds(
      self.device_noise,
      variance,
      self.counted_clients,
      self.code.largest_square,
      self.code.dimension,
      self.separation,
    )

  @property
  def participations(self) -> int:
    """In how many rounds a user takes part at most."""
    return participation.most_participations(self.rounds, self.separation)

  def entry(self, group: str) -> ledger_entries.Entry:
    """See the base class."""
    return ledger_entries.Entry(
      ledger_entries.CENTRAL,
      self.entry_name,
      f'{self.device_noise.replace("_", " ")} noise of at least '
      f'{self.counted_clients:,} clients on a secure sum over a cohort of '
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

  def of_simulation(self) -> 'DistributedNoise':
    """Returns the mechanism of the simulation: its own sizes, and the noise it adds."""
    own = super().of_simulation()
    assert isinstance(own, DistributedNoise)
    return dataclasses.replace(own, separation=self.simulated_separation)

  @property
  def num_draws(self) -> int:
    """The numbers that a client draws in a round."""
    return self.code.dimension

  def rotation_seeds(self) -> np.ndarray:
    """Returns the seed of each round's rotation, which everybody knows, int64 [rounds, 2].

    There are no more: a round that nobody planned is not made.
    """
    return np.stack(
      [self.stream.words('rotation', number) for number in range(self.rounds)]
    )

  @property
  def covered(self) -> frozenset[str]:
    """The noisy numbers, and that the client is there, which is no secret."""
    return frozenset({'update', 'present'})

  @property
  def summary(self) -> str:
    """See the base class."""
    return (
      f'clip {self.clip:g}, noise multiplier {self.noise_multiplier:.4g} from devices, '
      f'secure sums modulo 2^{self.bits}, cohorts of {self.cohort:,} in '
      f'{self.population:,} users at least {self.separation:,} rounds apart'
    )

  @property
  def promise(self) -> tuple[str, str]:
    """See the base class."""
    words = 'distributed, a user’s data left out'
    explanation = (
      'Distributed: leaving out all the data of a user changes the probability of '
      'whatever the server sees by a factor of e^epsilon at most, delta aside. The server '
      'sees sums only; whoever makes them is trusted.'
    )
    if not self.is_scaled:
      return words, explanation
    return f'{words}, accounted deployment', (
      f'{explanation} The figure is that of a deployment of the accounted size, not of '
      'the simulation.'
    )

  @property
  def threat_model(self) -> str:
    """See the base class."""
    if self.no_guarantee_reason is not None:
      return 'None: nothing is claimed for the noise that clients add.'
    return (
      'Distributed differential privacy: clients clip, round and noise their updates, and '
      'a secure aggregation hands the server their sum modulo a power of two and nothing '
      'else. The guarantee is against the server, too, and against up to '
      f'{self.missing_share:.0%} of a cohort’s devices, as long as they do not deviate '
      'from the protocol. It rests on the secure aggregation, which is simulated here by '
      'a plain sum. That a user takes part, and when, is not hidden.'
    )

  def describe(self, ledger: 'Ledger') -> dict[str, Any]:
    """See the base class."""
    return distributed_card.describe(self, ledger)

  def blocks(self, ledger: 'Ledger') -> list[card_blocks.Block]:
    """See the base class."""
    return distributed_card.blocks(self, ledger)


def counted(cohort: int, missing_share: float) -> int:
  """Returns how many clients of a cohort are counted on."""
  return max(1, math.floor(cohort * (1 - missing_share)))
