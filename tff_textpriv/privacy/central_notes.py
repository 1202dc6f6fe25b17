"""What the card says of central differential privacy, in sentences and rows."""

import math
from typing import TYPE_CHECKING

from tff_textpriv.privacy.costs import ADD_OR_REMOVE_ONE

if TYPE_CHECKING:
  from tff_textpriv.privacy.central import CentralGaussian


def settings(
  plan: 'CentralGaussian', rounds_done: int, rho: float | None
) -> list[tuple[str, str]]:
  """Returns the table of its numbers: setting, value."""
  rows = [
    ('clip', f'{plan.clip:g}'),
    ('noise multiplier', f'{plan.noise_multiplier:.4g}'),
  ]
  if plan.adaptive is not None:
    counts = plan.adaptive.count_noise_multiplier
    rows += [
      ('... of the update', f'{plan.update_noise_multiplier:.4g}'),
      ('... of the clipping counts', f'{counts:.4g}'),
    ]
  if rho is not None:
    rows.append(('rho-zCDP of a user’s rounds, sampling aside', f'{rho:.4g}'))
  rows += [
    ('rounds done', f'{rounds_done:,}'),
    ('rounds planned', f'{plan.rounds:,}'),
    ('accounted users', f'{plan.population:,}'),
    ('accounted users per round', f'{plan.cohort:,}'),
    ('simulated users', f'{plan.simulated_population:,}'),
    ('simulated users per round', f'{plan.simulated_cohort:,}'),
  ]
  if plan.budget_epsilon is not None:
    rows.append(('budget: stop before epsilon exceeds', f'{plan.budget_epsilon:g}'))
  return rows


def mechanism(plan: 'CentralGaussian') -> str:
  """Says what is done to updates and to their sum."""
  if not math.isfinite(plan.clip):
    return 'The sum of the updates of a cohort, neither clipped nor noised.'
  clip = f"Each user's update is clipped to an L2 norm of {plan.clip:g}"
  if plan.adaptive is not None:
    clip += (
      f' at first; the norm then follows the {plan.adaptive.quantile:g} quantile of '
      "the updates' norms by noisy counts, which take their share of the noise multiplier"
    )
  if plan.noise_multiplier == 0:
    return f'{clip}. No noise is added.'
  return (
    f'{clip}. Gaussian noise of standard deviation noise multiplier x clip is added to '
    'the sum over a cohort, and the sum is divided by the (expected) size of the '
    'cohort, a constant.'
  )


def sampling(plan: 'CentralGaussian') -> str:
  """Says how cohorts are drawn, and how that is accounted."""
  if plan.cost.relation is ADD_OR_REMOVE_ONE:
    return (
      'Sampling. Poisson: each user joins a round independently, with probability '
      f'{plan.cohort / plan.population:.4g}. Accounted as the Poisson-sampled Gaussian '
      'mechanism.'
    )
  return (
    f'Sampling. Fixed size: exactly {plan.cohort:,} users join a round, drawn without '
    'replacement. Accounted as that, under replacement of one user. A replaced user '
    'moves the sum by up to twice the clip norm, so that the noise counts half.'
  )


def sizes(plan: 'CentralGaussian') -> str:
  """Says whose sizes the figure is of."""
  if not plan.is_scaled:
    return 'Sizes. The accounted sizes are those of the run itself.'
  return (
    '**Sizes.** The figure is that of a deployment of the accounted size: '
    f'{plan.population:,} users, {plan.cohort:,} per round. The simulation had '
    f'{plan.simulated_population:,} users, {plan.simulated_cohort:,} per round, and '
    f'added noise scaled by {plan.scale:.4g} (simulated over accounted cohort) to show '
    'the utility of that deployment. The simulation does not itself carry the guarantee.'
  )
