"""The part of a privacy card that is about noise which a trusted aggregator adds."""

import math
from collections.abc import Mapping
from typing import Any

from tff_textpriv.privacy.central import CentralDpPlan
from tff_textpriv.privacy.ledger import Ledger
from tff_textpriv.privacy.mechanism import ADD_OR_REMOVE_ONE

THREAT_MODEL = (
  'Central differential privacy: a trusted aggregator sees the clipped updates, adds '
  'the noise and keeps only the noisy result. The guarantee is against everyone who '
  'sees what is released afterwards, every intermediate model included; it is not '
  'against the aggregator.'
)
NOISE_SOURCES = {
  'seeded': (
    'Seeded: the noise follows from the seed of the run and can be reproduced. Whoever '
    'knows the seed can subtract it, so this is for experiments only.'
  ),
  'system': (
    'System: the generator is seeded by the operating system and cannot be reproduced. '
    'It draws floating-point numbers, whose rounding the guarantee does not cover.'
  ),
}


def describe(plan: CentralDpPlan, ledger: Ledger) -> dict[str, Any]:
  """Returns the plan's numbers and the sentences that explain them."""
  return {
    'unit': plan.unit,
    'neighbouring_relation': plan.neighbouring_relation.name,
    'mechanism': _mechanism_note(plan),
    'clip': plan.clip if math.isfinite(plan.clip) else 'inf',
    'noise_multiplier': plan.noise_multiplier,
    'update_noise_multiplier': plan.update_noise_multiplier,
    'count_noise_multiplier': plan.adaptive and plan.adaptive.count_noise_multiplier,
    'sampling': plan.sampling,
    'sampling_note': _sampling_note(plan),
    'accounted_population': plan.population,
    'accounted_cohort': plan.cohort,
    'simulated_population': plan.simulated_population,
    'simulated_cohort': plan.simulated_cohort,
    'noise_scale': plan.scale,
    'size_note': _size_note(plan),
    'rounds_done': sum(
      entry.count for entry in ledger.entries if entry.mechanism == plan.mechanism
    ),
    'rounds_planned': plan.rounds,
    'budget_epsilon': plan.budget_epsilon,
    'noise_source': plan.noise_source,
    'noise_source_note': NOISE_SOURCES[plan.noise_source],
  }


def settings_rows(description: Mapping[str, Any]) -> list[tuple[str, str]]:
  """Returns the table of the numbers that `describe` made: setting, value."""
  rows = [
    ('clip', f'{description["clip"]}'),
    ('noise multiplier', f'{description["noise_multiplier"]:.4g}'),
  ]
  if description['count_noise_multiplier'] is not None:
    rows += [
      ('... of the update', f'{description["update_noise_multiplier"]:.4g}'),
      ('... of the clipping counts', f'{description["count_noise_multiplier"]:.4g}'),
    ]
  rows += [
    ('rounds done', f'{description["rounds_done"]:,}'),
    ('rounds planned', f'{description["rounds_planned"]:,}'),
    ('accounted users', f'{description["accounted_population"]:,}'),
    ('accounted users per round', f'{description["accounted_cohort"]:,}'),
    ('simulated users', f'{description["simulated_population"]:,}'),
    ('simulated users per round', f'{description["simulated_cohort"]:,}'),
  ]
  if description['budget_epsilon'] is not None:
    rows.append(
      ('budget: stop before epsilon exceeds', f'{description["budget_epsilon"]:g}')
    )
  return rows


def _mechanism_note(plan: CentralDpPlan) -> str:
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


def _sampling_note(plan: CentralDpPlan) -> str:
  if plan.neighbouring_relation is ADD_OR_REMOVE_ONE:
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


def _size_note(plan: CentralDpPlan) -> str:
  if not plan.is_scaled:
    return 'Sizes. The accounted sizes are those of the run itself.'
  return (
    '**Sizes.** The figure is that of a deployment of the accounted size: '
    f'{plan.population:,} users, {plan.cohort:,} per round. The simulation had '
    f'{plan.simulated_population:,} users, {plan.simulated_cohort:,} per round, and '
    f'added noise scaled by {plan.scale:.4g} (simulated over accounted cohort) to show '
    'the utility of that deployment. The simulation does not itself carry the guarantee.'
  )
