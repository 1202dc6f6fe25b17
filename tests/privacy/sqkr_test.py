"""Plans of SQKR: what a total becomes, what it costs, what the card says."""

import dataclasses
import math

import pytest

from tff_textpriv import randomness
from tff_textpriv.privacy import card, card_page, errors, ledger, randomized_bits, sqkr
from tff_textpriv.privacy.mechanism import Deployment

_DEPLOYMENT = Deployment(
  'separated',
  population=18_800,
  cohort=700,
  rounds=26,
  separation=26,
  num_coordinates=5001,
  client_step=0.1,
  stream=randomness.Stream.of_seed(0),
)


def _plan(deployment=_DEPLOYMENT, **flags):
  return sqkr.SqkrSettings(**flags).mechanism(deployment)


def test_who_takes_part_once_spends_the_total_on_one_report_of_few_bits():
  plan = _plan(target_epsilon=4.0)
  assert plan.epsilon == pytest.approx(4.0, rel=1e-3)
  assert (plan.num_bits, plan.dimension, plan.clip_norm) == (4, 8192, 0.1)
  assert _plan(bits_per_report=7).num_bits == 7
  spent = ledger.Ledger.of(plan)
  spent.charge(plan, ['a', 'b'])
  assert 3.99 < spent.epsilon() <= 4.0
  with pytest.raises(errors.PrivacyError, match='exceed the budget of epsilon 4'):
    spent.charge(plan, ['b'])


def test_the_noise_is_that_of_signs_scaled_back():
  plan = _plan(target_epsilon=4.0, clip_norm=2.0)
  bound = 2.0 * 3 / math.sqrt(8192)
  # k signs of D coordinates, each worth q / contrast * D / k.
  variance = (bound / plan.response.contrast) ** 2 * 8192 / 4
  assert plan.noise == pytest.approx(math.sqrt(variance))
  # In few dimensions no rotated coordinate is longer than the update.
  small = _plan(dataclasses.replace(_DEPLOYMENT, num_coordinates=3), clip_norm=2.0)
  assert (small.dimension, small.bound) == (4, 2.0)


def test_bits_that_are_randomized_together_have_less_noise_than_one_by_one():
  for total in (2.0, 4.0, 8.0):
    together = _plan(target_epsilon=total, clip_norm=1.0)
    one_by_one = randomized_bits.LocalPrivacySettings(
      target_epsilon=total, quantization_range=3 / math.sqrt(5001)
    ).mechanism(_DEPLOYMENT)
    assert together.noise < one_by_one.noise * one_by_one.bound


def test_the_card_says_what_is_sent_and_how():
  plan = _plan(target_epsilon=4.0, noise_source='system')
  spent = ledger.Ledger.of(plan)
  spent.charge(plan, ['a'])
  made = card.privacy_card(spent, plan, task='imdb', algo='rr_ldp', facts={})
  assert made['formal_guarantee'] and made['epsilon'] <= 4.0
  page = card_page.render(made)
  assert '4 of its 8,192 coordinates' in page and 'as 4 bits of local epsilon' in page


def test_more_bits_than_coordinates_are_refused():
  tiny = dataclasses.replace(_DEPLOYMENT, num_coordinates=2)
  with pytest.raises(
    errors.PrivacyError, match='a report of 5 bits is more than the 2'
  ):
    _plan(tiny, bits_per_report=5)
