"""The flags that all promises have: delta, where random numbers come from, a claim or none."""

import dataclasses
import math

from tff_textpriv.privacy import accountants, mechanism
from tff_textpriv.settings import SettingsError, setting

# Where populations are no larger than a hundred thousand.
_DEFAULT_DELTA = 1e-6


def default_delta(population: int) -> float:
  """Returns the delta of promises that name none, well below one over the population."""
  return min(_DEFAULT_DELTA, 10.0 ** math.floor(math.log10(0.1 / population)))


@dataclasses.dataclass(frozen=True)
class ClaimSettings(mechanism.MechanismSettings):
  """Flags of a mechanism that promises something."""

  delta: float | None = setting(
    None,
    'Delta of the guarantee; by default 1e-6, or less where there are more than a hundred '
    'thousand users: it must stay below one over the population.',
    above=0,
    below=1,
  )
  noise_source: str = setting(
    'seeded',
    'Where random numbers come from: `seeded` repeats with --seed (for experiments), '
    '`system` is seeded by the operating system (for real use).',
    choices=('seeded', 'system'),
  )
  privacy_claim: bool = setting(
    True,
    'Set to false to run a comparison (such as a tokenizer of the users’ text) under '
    'the same mechanism without claiming anything.',
  )

  @property
  def claims(self) -> bool:
    """See the base class."""
    return self.privacy_claim

  def settled_delta(self, population: int) -> float:
    """Returns the delta of the promise, well below one over the population by default.

    Raises:
      SettingsError: If one is claimed that is not below it at all: publishing all the
        data of one random user would satisfy it.
    """
    if self.delta is None:
      return default_delta(population)
    if self.privacy_claim and self.delta >= 1 / population:
      raise SettingsError(
        'delta',
        self.delta,
        f'must be below one over the population, 1/{population:,}: publishing the data of '
        'one random user would satisfy it. Leave it out, or for a comparison add '
        '--privacy_claim=false',
      )
    return self.delta

  def left_for_rounds(self, total: float, deployment: mechanism.Deployment) -> float:
    """Returns what of an epsilon, which is the whole run's, is left for its rounds.

    A comparison claims nothing, and trains like what it is compared with.

    Args:
      total: The epsilon, of the flag `--target_epsilon`.
      deployment: Who spends how much of it before the first round.

    Raises:
      SettingsError: Nothing is left.
    """
    if not self.privacy_claim:
      return total
    left = total - deployment.spent_besides
    if left <= 0 or total < deployment.spent_elsewhere:
      spent = deployment.spent_besides or deployment.spent_elsewhere
      raise SettingsError(
        'target_epsilon',
        total,
        f'is that of the whole run, of which users spend {spent:g} before the first round '
        '(--heavy_hitters_epsilon). Raise the one or lower the other, or for a comparison '
        'add --privacy_claim=false',
      )
    return left


@dataclasses.dataclass(frozen=True)
class GaussianClaimSettings(ClaimSettings):
  """Flags of a mechanism whose rounds an accountant composes."""

  accountant: str = setting(
    'auto',
    'Accountant of the headline figure, and of calibration: the tighter PLD where it '
    'applies (auto), or the one that is named. The card shows both.',
    choices=('auto', *accountants.ACCOUNTANTS),
  )

  def settled_accountant(self, sampling: str) -> str:
    """Returns the accountant that is meant: the tighter one where it applies."""
    if self.accountant != 'auto':
      return self.accountant
    return 'pld' if sampling == 'poisson' else 'rdp'
