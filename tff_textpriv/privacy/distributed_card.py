"""The card of distributed differential privacy: its numbers, sentences and tables."""

from typing import TYPE_CHECKING, Any

from tff_textpriv.privacy import (
  card_blocks,
  central_card,
  device_noise,
  ftrl_card,
  secure_sum,
)

if TYPE_CHECKING:
  from tff_textpriv.privacy.distributed import DistributedNoise
  from tff_textpriv.privacy.ledger import Ledger

_THEOREMS = {
  device_noise.SKELLAM: (
    'Agarwal, Kairouz, Liu, The Skellam Mechanism for Differentially Private Federated '
    'Learning, 2021, Corollary 4.1'
  ),
  device_noise.DISCRETE_GAUSSIAN: (
    'Kairouz, Liu, Steinke, The Distributed Discrete Gaussian Mechanism for Federated '
    'Learning with Secure Aggregation, 2021, Proposition 14'
  ),
}


def describe(plan: 'DistributedNoise', ledger: 'Ledger') -> dict[str, Any]:
  """Returns its numbers, as JSON values."""
  numbers = central_card.describe(plan, ledger)
  for name in ('update_noise_multiplier', 'count_noise_multiplier'):
    del numbers[name]
  return numbers | {
    'device_noise': plan.device_noise,
    'device_noise_stddev': plan.cost.variance**0.5,
    'modular_bits': plan.bits,
    'numbers_sent': plan.code.dimension,
    'clip_in_whole_numbers': plan.code.clip,
    'lost_by_rounding': plan.code.loss,
    'overflow_probability': secure_sum.OVERFLOW,
    'missing_share': plan.missing_share,
    'counted_clients': plan.counted_clients,
    'separation': plan.separation,
    'simulated_separation': plan.simulated_separation,
    'participations': plan.participations,
  }


def blocks(plan: 'DistributedNoise', ledger: 'Ledger') -> list[card_blocks.Block]:
  """Returns what the card's page says of it."""
  return [
    card_blocks.paragraph(
      f'Unit of privacy: one **{plan.unit}**. Two data sets are neighbours if all the '
      f'data of one {plan.unit} are left out of one of them. The {plan.unit} takes part '
      'and adds noise in either case.'
    ),
    card_blocks.paragraph(_mechanism(plan), title='Mechanism'),
    card_blocks.table(('setting', 'value'), _settings(plan, ledger)),
    card_blocks.paragraph(_secure_aggregation(plan)),
    card_blocks.paragraph(ftrl_card.participation(plan)),
    card_blocks.paragraph(
      'Accounting. The rounds in which a user takes part compose by their Renyi '
      f'divergences, at whole orders. Theorem: {_THEOREMS[plan.device_noise]}. Nothing is '
      'claimed for chance: the server knows who takes part.'
    ),
    card_blocks.paragraph(central_card.sizes(plan)),
    card_blocks.noise_source(plan.noise_source),
  ]


def _settings(plan: 'DistributedNoise', ledger: 'Ledger') -> list[tuple[str, str]]:
  """Returns the table of its numbers: setting, value."""
  code = plan.code
  return [
    ('clip', f'{plan.clip:g}'),
    ('noise multiplier that is counted on', f'{plan.noise_multiplier:.4g}'),
    ('clients whose noise is counted on', f'{plan.counted_clients:,}'),
    (
      'noise of one device, in whole numbers',
      f'{plan.device_noise.replace("_", " ")}, standard deviation '
      f'{plan.cost.variance**0.5:.4g}',
    ),
    ('clip norm, in whole numbers', f'{code.clip:,.1f}'),
    ('numbers that a client sends', f'{code.dimension:,} of {plan.bits} bits'),
    ('noise that rounding costs', f'{code.loss:.2%} more'),
    (
      'chance that a sum leaves its range in a round',
      f'at most {secure_sum.OVERFLOW:g}; harms the model, not privacy',
    ),
    ('least rounds between participations', f'{plan.separation:,}'),
    ('most participations', f'{plan.participations:,}'),
    *central_card.size_rows(plan, ledger),
  ]


def _mechanism(plan: 'DistributedNoise') -> str:
  """Says what a device does."""
  return (
    f"Each user's update is clipped to an L2 norm of {plan.clip:g}, turned by a random "
    'rotation that everybody knows, scaled, and rounded at random to whole numbers whose '
    'length is checked. The device adds noise of its own and sends each number modulo '
    f'2^{plan.bits}. The sum over the cohort is turned back and divided by the planned '
    'size of the cohort, a constant.'
  )


def _secure_aggregation(plan: 'DistributedNoise') -> str:
  """Says what stands between the devices and the server."""
  return (
    '**Secure aggregation is simulated by a plain sum.** A deployment needs a protocol '
    'that shows the server nothing but that sum, and that ends without one where fewer '
    f'than {plan.counted_clients:,} of {plan.cohort:,} clients are left: the noise of up '
    f'to {plan.missing_share:.0%} may be missing, or known to the server, and the figure '
    'still holds. What one device sends is protected by its own share of the noise only, '
    'which is little.'
  )
