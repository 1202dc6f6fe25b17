"""Local differential privacy by Gaussian noise: flags, and the plan they make.

Each user clips and noises an update before it is sent, so that the server never sees
anything else. There is no cohort to hide in: whoever collects the reports knows who
sent them. A user who takes part in R rounds has answered R times, and the worst case,
all rounds of the run, is what is accounted for; no amplification by sampling is claimed.
"""

import dataclasses
import math

from tff_textpriv.privacy import calibration
from tff_textpriv.privacy.mechanism import SampledGaussian
from tff_textpriv.settings import Settings, setting


@dataclasses.dataclass(frozen=True)
class LocalGaussianSettings(Settings):
  """Flags of the noise that clients add to what they send."""

  noise_magnitude: float = setting(
    0.0,
    'Noise of magnitude * N(0, stddev^2) that a client adds to each of its parameters '
    'before it sends them (beta of Eq. 11).',
    low=0,
    high=1,
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
  delta: float = setting(1e-6, 'Delta of the guarantee.', above=0, below=1)
  accountant: str = setting(
    'rdp',
    'Accountant of the headline figure; the card shows both.',
    choices=calibration.ACCOUNTANTS,
  )
  noise_source: str = setting(
    'seeded',
    'Where noise comes from: `seeded` repeats with --seed (for experiments), '
    '`system` is seeded by the operating system (for real use).',
    choices=('seeded', 'system'),
  )

  privacy_claim: bool = setting(
    True,
    'Set to false to run a comparison (such as a tokenizer of the users’ text) under '
    'the same mechanism without claiming anything.',
  )

  def plan(self) -> 'LocalGaussianPlan':
    """Makes the plan that the flags ask for."""
    return LocalGaussianPlan(
      clip_norm=self.clip_norm,
      stddev=self.noise_magnitude * self.noise_stddev,
      delta=self.delta,
      accountant=self.accountant,
      noise_source=self.noise_source,
      claim=self.privacy_claim,
    )


@dataclasses.dataclass(frozen=True)
class LocalGaussianPlan:
  """What a client does to its update, and what a round of it costs.

  Attributes:
    clip_norm: L2 norm to which an update is clipped, or `None`.
    stddev: Standard deviation of the noise on each coordinate.
    delta: Delta of the guarantee.
    accountant: 'rdp' or 'pld', of the headline figure.
    noise_source: 'seeded' or 'system'.
    claim: Whether the run claims its figure; false for comparisons.
    unit: What is protected: all the data of one user.
  """

  clip_norm: float | None
  stddev: float
  delta: float
  accountant: str = 'rdp'
  noise_source: str = 'seeded'
  claim: bool = True
  unit: str = 'user'

  @property
  def mechanism(self) -> SampledGaussian:
    """What one round is to an accountant: noise for one user, who takes part for sure.

    Any update may stand in place of any other, so that what is sent can move by two
    clip norms; the noise multiplier is the noise over that.
    """
    if self.clip_norm is None:
      return SampledGaussian('poisson', 1, 1, 0.0)
    return SampledGaussian('poisson', 1, 1, self.stddev / (2 * self.clip_norm))

  @property
  def report_description(self) -> str:
    """What a user sends in a round, for the ledger."""
    return (
      f'an update clipped to {self.clip_norm:g} with Gaussian noise of standard '
      f'deviation {self.stddev:g}; times: rounds of the user with most rounds'
    )

  @property
  def warnings(self) -> tuple[str, ...]:
    """What the person who starts the run should be told about its promise."""
    if self.no_guarantee_reason is None:
      return ()
    return (f'No formal privacy guarantee: {self.no_guarantee_reason}.',)

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
      return 'the run is a comparison that claims nothing (--privacy_claim=false)'
    return None
