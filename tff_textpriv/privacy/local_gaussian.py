"""Local differential privacy by Gaussian noise: flags, and the plan they make.

Each user clips and noises an update before it is sent, so that the server never sees
anything else. There is no cohort to hide in: whoever collects the reports knows who
sent them. A user who takes part in R rounds has answered R times, and the worst case,
all rounds of the run, is what is accounted for; no amplification by sampling is claimed.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from tff_textpriv.privacy import (
  accountants,
  card_blocks,
  claim_settings,
  lattice,
  ledger_entries,
  local_mechanism,
  mechanism,
  rounded_gaussian,
)
from tff_textpriv.privacy.costs import SampledGaussian
from tff_textpriv.privacy.rounded_gaussian import RoundedGaussian
from tff_textpriv.settings import setting

if TYPE_CHECKING:
  from tff_textpriv.privacy.ledger import Ledger


@dataclasses.dataclass(frozen=True)
class LocalGaussianSettings(claim_settings.GaussianClaimSettings):
  """Flags of the noise that clients add to what they send."""

  randomizes_on_device = True
  promise = 'noise on the device; local differential privacy with --clip_norm only'

  noise_magnitude: float = setting(
    0.0,
    'Noise of magnitude * N(0, stddev^2) that a client adds to each of its parameters '
    'before it sends them (beta of Eq. 11).',
    low=0,
    high=1,
    key='noise that clients add',
  )
  noise_stddev: float = setting(
    1.0, 'Standard deviation of that noise (sigma of Eq. 11).', above=0, below=math.inf
  )
  clip_norm: float | None = setting(
    None,
    'L2 norm to which a client clips its update before the noise. With it the noise is '
    'a local Gaussian mechanism with an epsilon; without it there is no formal '
    'guarantee.',
    above=0,
    below=math.inf,
  )

  @property
  def claims(self) -> bool:
    """See the base class: noise without a clip norm claims nothing."""
    nobody = mechanism.Deployment('poisson', population=1, cohort=1, rounds=1)
    return self.mechanism(nobody).no_guarantee_reason is None

  def mechanism(self, deployment: mechanism.Deployment) -> 'LocalGaussian':
    """Makes the mechanism; see the base class."""
    return LocalGaussian(
      clip_norm=self.clip_norm,
      stddev=self.noise_magnitude * self.noise_stddev,
      delta=self.settled_delta(deployment.population),
      # Of one user, who takes part for sure: PLD can tell.
      accountant=self.settled_accountant('poisson'),
      noise_source=self.noise_source,
      claim=self.privacy_claim,
      rounds=deployment.rounds,
      population=deployment.population,
      num_coordinates=deployment.num_coordinates or mechanism.MANY_COORDINATES,
      unit=deployment.unit,
    )


@dataclasses.dataclass(frozen=True)
class LocalGaussian(local_mechanism.LocalMechanism):
  """What a client does to its update, and what a round of it costs.

  Attributes:
    clip_norm: L2 norm to which an update is clipped, or `None`.
    stddev: Standard deviation of the noise on each coordinate.
    delta: Delta of the guarantee.
    accountant: 'rdp' or 'pld', of the headline figure.
    noise_source: 'seeded' or 'system'.
    claim: Whether the run claims its figure; false for comparisons.
    num_coordinates: The size of an update, at most.
    unit: What is protected: all the data of one user.
  """

  aggregator = 'local_gaussian'

  clip_norm: float | None
  stddev: float
  delta: float
  accountant: str = 'rdp'
  noise_source: str = 'seeded'
  claim: bool = True
  budget_epsilon: float | None = None
  rounds: int = 1
  population: int = 1
  num_coordinates: int = mechanism.MANY_COORDINATES
  unit: str = 'user'

  @property
  def cost(self) -> SampledGaussian:
    """What one round is to an accountant: noise for one user, who takes part for sure.

    Any update may stand in place of any other, so that what is sent can move by two
    clip norms; the noise multiplier is the noise over that.
    """
    if self.clip_norm is None:
      return SampledGaussian('poisson', 1, 1, 0.0)
    return SampledGaussian(
      'poisson', 1, 1, self.stddev / (2 * self.clip_norm), self.num_coordinates
    )

  def points(self, num_coordinates: int) -> lattice.Lattice:
    """Returns the whole numbers that stand for updates of a size."""
    assert self.clip_norm is not None  # Only clipped updates are rounded.
    return lattice.fitting(num_coordinates, 1, self.stddev / self.clip_norm)

  def noise_law(self, points: lattice.Lattice) -> RoundedGaussian:
    """Returns the law of the noise on them."""
    multiplier = self.cost.noise_multiplier
    shift = 0.0 if self.no_guarantee_reason else 1 / multiplier
    return RoundedGaussian(2 * multiplier * points.clip, shift)

  def entry(self, group: str) -> ledger_entries.Entry | None:
    """See the base class: without a clip norm or noise there is nothing to account."""
    if self.cost.noise_multiplier == 0:
      return None
    return self.report(
      f'an update clipped to {self.clip_norm:g} with Gaussian noise of standard '
      f'deviation {self.stddev:g}',
      self.cost,
      group,
    )

  @property
  def no_guarantee_reason(self) -> str | None:
    """Why this plan promises nothing, or `None` if it does promise."""
    if self.stddev == 0:
      return 'clients add no noise to their updates (--noise_magnitude=0)'
    if self.clip_norm is None:
      return (
        'clients add noise to updates that are not clipped, so that one user’s text '
        'can move them by any amount; --clip_norm gives the noise a meaning'
      )
    if not self.claim:
      return mechanism.NOT_CLAIMED
    if 1 / self.cost.noise_multiplier > rounded_gaussian.LONGEST_SHIFT:
      return (
        f'noise of standard deviation {self.stddev:g} on updates of norm '
        f'{self.clip_norm:g} hides nobody'
      )
    return None

  @property
  def summary(self) -> str:
    """See the base class."""
    clip = 'not clipped' if self.clip_norm is None else f'clip {self.clip_norm:g}'
    return f'local, {clip}, noise of standard deviation {self.stddev:g}'

  def headline(self, epsilon: str) -> str:
    """See the base class."""
    return (
      f'({epsilon}, {self.delta:g})-local differential privacy for everything that a '
      f'{self.unit} sends in the run'
    )

  @property
  def threat_model(self) -> str:
    """See the base class."""
    if self.no_guarantee_reason is not None:
      return (
        'None: what users send is not protected by a mechanism with a formal guarantee.'
      )
    return (
      'Local differential privacy: users clip and noise an update before they send it, '
      'so that the guarantee also holds against whoever collects the updates. It is '
      'about what a user sends; that the user takes part, and when, is not hidden.'
    )

  @property
  def covered(self) -> frozenset[str]:
    """The noisy update, and the attention's sums, which are made of it alone."""
    return frozenset() if self.clip_norm is None else frozenset({'update'})

  def largest_step(self, num_coordinates: int) -> float:
    """See the base class."""
    return (self.clip_norm or 1.0) / math.sqrt(num_coordinates)

  def describe(self, ledger: 'Ledger') -> dict[str, Any]:
    """See the base class."""
    rounds = list(ledger.rounds_by_user.values())
    promises = self.no_guarantee_reason is None
    return {
      'unit': self.unit,
      'clip_norm': self.clip_norm,
      'noise_stddev': self.stddev,
      'sensitivity': None if self.clip_norm is None else 2 * self.clip_norm,
      'users_who_took_part': len(rounds),
      'by_user': [
        {
          'rounds': name,
          'epsilon': accountants.epsilon_of_rounds(
            self.cost, count, self.delta, self.accountant
          ),
        }
        for name, count in local_mechanism.user_rows(rounds if promises else []).items()
      ],
      'noise_source': self.noise_source,
    }

  def blocks(self, ledger: 'Ledger') -> list[card_blocks.Block]:
    """See the base class."""
    numbers = self.describe(ledger)
    blocks = [
      self.unit_block,
      card_blocks.paragraph(self._mechanism_note(), title='Mechanism'),
      card_blocks.paragraph(
        'Rounds. The figure is that of the user who took part most often. Who takes part '
        'is known to whoever collects the updates, so that drawing cohorts at random '
        'amplifies nothing.'
      ),
      card_blocks.noise_source(self.noise_source),
    ]
    if numbers['by_user']:
      blocks.append(
        local_mechanism.users_table(
          (f'epsilon at delta {self.delta:g}',),
          [
            (row['rounds'], card_blocks.figure(row['epsilon']))
            for row in numbers['by_user']
          ],
          numbers['users_who_took_part'],
        )
      )
    return blocks

  def _mechanism_note(self) -> str:
    noise = f'Gaussian noise of standard deviation {self.stddev:g} on each coordinate'
    if self.stddev == 0:
      noise = 'no noise'
    if self.clip_norm is None:
      return f'A user sends the update as it is, with {noise}.'
    return (
      f'A user clips the update to an L2 norm of {self.clip_norm:g} and sends it with '
      f'{noise}. One user’s update stands at most {2 * self.clip_norm:g} away from any '
      'other’s, which is the sensitivity of what is sent. An update that is not finite is '
      'replaced by zeros before the noise.'
    )
