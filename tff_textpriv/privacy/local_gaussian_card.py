"""The part of a privacy card that is about noise which clients add themselves."""

from collections.abc import Mapping
from typing import Any

from tff_textpriv.privacy import calibration, central_card, local_gaussian
from tff_textpriv.privacy.ledger import Ledger

THREAT_MODEL = (
  'Local differential privacy: users clip and noise an update before they send it, so '
  'that the guarantee also holds against whoever collects the updates. It is about what '
  'a user sends; that the user takes part, and when, is not hidden.'
)
NO_THREAT_MODEL = (
  'None: what users send is not protected by a mechanism with a formal guarantee.'
)


def threat_model(plan: local_gaussian.LocalGaussianPlan) -> str:
  """Says from whom users are protected."""
  return THREAT_MODEL if plan.no_guarantee_reason is None else NO_THREAT_MODEL


def describe(plan: local_gaussian.LocalGaussianPlan, ledger: Ledger) -> dict[str, Any]:
  """Returns the plan's numbers and the sentences that explain them."""
  rounds = sorted(ledger.rounds_by_user.values())
  return {
    'unit': plan.unit,
    'mechanism': _mechanism_note(plan),
    'clip_norm': plan.clip_norm,
    'noise_stddev': plan.stddev,
    'sensitivity': None if plan.clip_norm is None else 2 * plan.clip_norm,
    'sampling_note': (
      'Rounds. The figure is that of the user who took part most often. Who takes part '
      'is known to whoever collects the updates, so that drawing cohorts at random '
      'amplifies nothing.'
    ),
    'users_who_took_part': len(rounds),
    'by_user': _by_user(plan, rounds),
    'noise_source': plan.noise_source,
    'noise_source_note': central_card.NOISE_SOURCES[plan.noise_source],
  }


def tables(
  description: Mapping[str, Any], delta: float
) -> list[tuple[str, tuple[str, ...], list[tuple[str | float, ...]]]]:
  """Returns the tables of what `describe` made: title, header, rows."""
  if not description['by_user']:
    return []
  return [
    (
      f'User by user ({description["users_who_took_part"]:,} took part)',
      ('rounds', f'epsilon at delta {delta:g}'),
      [(row['rounds'], row['epsilon']) for row in description['by_user']],
    )
  ]


def headline(plan: local_gaussian.LocalGaussianPlan, epsilon: str) -> str:
  """Says what a user is promised."""
  return (
    f'({epsilon}, {plan.delta:g})-local differential privacy for everything that a user '
    'sends in the run'
  )


def _by_user(
  plan: local_gaussian.LocalGaussianPlan, rounds: list[int]
) -> list[dict[str, Any]]:
  """Returns the figures of the users with fewest, middling and most rounds."""
  if not rounds or plan.no_guarantee_reason is not None:
    return []
  chosen = {'fewest': rounds[0], 'median': rounds[len(rounds) // 2], 'most': rounds[-1]}
  return [
    {
      'rounds': f'{name}: {count:,}',
      'epsilon': calibration.epsilon_of_rounds(
        plan.mechanism, count, plan.delta, plan.accountant
      ),
    }
    for name, count in chosen.items()
  ]


def _mechanism_note(plan: local_gaussian.LocalGaussianPlan) -> str:
  noise = f'Gaussian noise of standard deviation {plan.stddev:g} on each coordinate'
  if plan.stddev == 0:
    noise = 'no noise'
  if plan.clip_norm is None:
    return f'A user sends the update as it is, with {noise}.'
  return (
    f'A user clips the update to an L2 norm of {plan.clip_norm:g} and sends it with '
    f'{noise}. One user’s update stands at most {2 * plan.clip_norm:g} away from any '
    'other’s, which is the sensitivity of what is sent. An update that is not finite is '
    'replaced by zeros before the noise.'
  )
