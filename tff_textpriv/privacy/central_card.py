"""The card of central differential privacy: its numbers, sentences and tables."""

import math
from typing import TYPE_CHECKING, Any

from tff_textpriv.privacy import card_blocks
from tff_textpriv.privacy.costs import ADD_OR_REMOVE_ONE

if TYPE_CHECKING:
  from tff_textpriv.privacy.central import CentralGaussian
  from tff_textpriv.privacy.ledger import Ledger

_RELATIONS = {
  'ADD_OR_REMOVE_ONE': 'adding or removing all the data of one {unit}',
  'REPLACE_ONE': 'replacing all the data of one {unit} by that of another',
}


def describe(plan: 'CentralGaussian', ledger: 'Ledger') -> dict[str, Any]:
  """Returns its numbers, as JSON values."""
  return {
    'unit': plan.unit,
    'neighbouring_relation': plan.cost.relation.name,
    'clip': plan.clip if math.isfinite(plan.clip) else 'inf',
    'noise_multiplier': plan.noise_multiplier,
    'update_noise_multiplier': plan.update_noise_multiplier,
    'count_noise_multiplier': plan.adaptive and plan.adaptive.count_noise_multiplier,
    'sampling': plan.sampling,
    'accounted_population': plan.population,
    'accounted_cohort': plan.cohort,
    'simulated_population': plan.simulated_population,
    'simulated_cohort': plan.simulated_cohort,
    'simulated_sampling': plan.drawn,
    'noise_scale': plan.scale,
    'rounds_done': rounds_done(plan, ledger),
    'rounds_planned': plan.rounds,
    'budget_epsilon': plan.budget_epsilon,
    'noise_source': plan.noise_source,
  }


def blocks(plan: 'CentralGaussian', ledger: 'Ledger') -> list[card_blocks.Block]:
  """Returns what the card's page says of it."""
  return [
    card_blocks.paragraph(
      f'Unit of privacy: one **{plan.unit}**. Two data sets are neighbours if they '
      f'differ by {_RELATIONS[plan.cost.relation.name].format(unit=plan.unit)}.'
    ),
    card_blocks.paragraph(mechanism(plan), title='Mechanism'),
    card_blocks.table(('setting', 'value'), _settings(plan, ledger)),
    card_blocks.paragraph(_sampling(plan)),
    card_blocks.paragraph(sizes(plan)),
    card_blocks.noise_source(plan.noise_source),
  ]


def _rho(plan: 'CentralGaussian', ledger: 'Ledger') -> float | None:
  """Returns the rho of zCDP of the users with most rounds; nothing without noise."""
  if plan.noise_multiplier == 0:
    return None
  theirs = [entry for entry in ledger.entries if entry.cost == plan.cost]
  rounds = [
    sum(entry.count for entry in theirs if entry.group in ('', one.group))
    for one in theirs
  ]
  return max(rounds, default=0) * plan.cost.rho


def rounds_done(plan: 'CentralGaussian', ledger: 'Ledger') -> int:
  """Returns how many rounds of the plan the ledger was charged."""
  return sum(entry.count for entry in ledger.entries if plan.cost.is_like(entry.cost))


def _settings(plan: 'CentralGaussian', ledger: 'Ledger') -> list[tuple[str, str]]:
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
  rho = _rho(plan, ledger)
  if rho is not None:
    rows.append(('rho-zCDP of a user’s rounds, sampling aside', f'{rho:.4g}'))
  return rows + size_rows(plan, ledger)


def size_rows(plan: 'CentralGaussian', ledger: 'Ledger') -> list[tuple[str, str]]:
  """Returns the lines of the table that all plans have: rounds, users, budget."""
  rows = [
    ('rounds done', f'{rounds_done(plan, ledger):,}'),
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


def _sampling(plan: 'CentralGaussian') -> str:
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
    f'{plan.simulated_population:,} users, {_simulated_cohorts(plan)}, and '
    f'added noise scaled by {plan.scale:.4g} (simulated over accounted cohort) to show '
    'the utility of that deployment. The simulation does not itself carry the guarantee.'
  )


def _simulated_cohorts(plan: 'CentralGaussian') -> str:
  """Says how the simulation drew its users."""
  if plan.drawn == plan.sampling:
    return f'{plan.simulated_cohort:,} per round'
  if plan.drawn == 'separated':
    return f'{plan.simulated_cohort:,} per round, each in its turn'
  return (
    f'exactly {plan.simulated_cohort:,} per round (so small a {plan.sampling} cohort '
    'would vary as no accounted one does)'
  )
