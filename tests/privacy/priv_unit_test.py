"""Plans of PrivUnitG: what a user's total becomes, what it costs, what the card says."""

import dataclasses
import json
import math

import pytest

from tff_textpriv import randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.privacy import (
  card,
  card_page,
  errors,
  ledger,
  priv_unit,
  randomized_bits,
  shuffling,
  spherical_cap,
)
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
  return priv_unit.PrivUnitSettings(**flags).mechanism(deployment)


def _charged(plan, *rounds):
  spent = ledger.Ledger.of(plan)
  for users in rounds:
    spent.charge(plan, users)
  return spent


def test_who_takes_part_once_spends_the_total_on_one_report():
  plan = _plan(target_epsilon=4.0)
  assert plan.participations == 1
  assert plan.epsilon == pytest.approx(4.0, rel=1e-3)
  assert _charged(plan, ['a', 'b']).epsilon() <= 4.0
  assert (plan.clip_norm, _plan(clip_norm=2.5).clip_norm) == (0.1, 2.5)
  assert plan.noise == pytest.approx(0.1 / plan.response.gain)


def test_who_takes_part_in_all_rounds_has_a_part_of_it_for_each():
  everybody = dataclasses.replace(
    _DEPLOYMENT, sampling='fixed', population=700, separation=1
  )
  plan = _plan(everybody, target_epsilon=4.0)
  assert plan.participations == 26
  spent = _charged(plan, *[['a']] * 26)
  assert 3.99 < spent.epsilon() <= 4.0
  assert spent.would_exceed(plan, users=['a'])
  assert not spent.would_exceed(plan, users=['b'])
  with pytest.raises(errors.PrivacyError, match='exceed the budget of epsilon 4'):
    spent.charge(plan, ['b', 'a'])


def test_the_law_leaves_room_for_what_rounding_adds():
  plan = _plan()
  law = plan.response
  room = plan.epsilon - law.coin_epsilon - law.tail_epsilon
  assert room == pytest.approx(5002 * spherical_cap.ROUNDING, rel=1e-6)
  # Where every coordinate may add something, millions of them still have room.
  large = dataclasses.replace(plan, num_coordinates=10**7)
  assert 0.01 < large.epsilon - sum(dataclasses.astuple(large.response)) < 0.03


def test_what_other_reports_spend_is_taken_off_the_total():
  besides = dataclasses.replace(_DEPLOYMENT, spent_besides=1.0)
  assert _plan(besides, target_epsilon=4.0).epsilon == pytest.approx(3.0, rel=1e-3)
  with pytest.raises(settings_lib.SettingsError, match='users spend 1 before'):
    _plan(besides, target_epsilon=1.0)


def test_the_start_of_a_run_names_total_report_and_noise():
  (said,) = _plan(target_epsilon=4.0).warnings
  assert 'Epsilon 4.000 at delta 1e-06' in said and 'in 1 rounds at most' in said
  assert 'each of 5,001 coordinates' in said and '--cohort_sampling' not in said
  by_chance = dataclasses.replace(_DEPLOYMENT, sampling='poisson', separation=1)
  (said,) = _plan(by_chance, target_epsilon=4.0).warnings
  assert 'in 26 rounds at most' in said and '--cohort_sampling=separated' in said


def test_the_card_has_the_local_figure_and_that_behind_a_shuffler():
  plan = _plan(target_epsilon=4.0, noise_source='system')
  plan = dataclasses.replace(
    plan, crowd=shuffling.Crowd('fixed', 10**6, 10**5), delta=1e-7
  )
  made = card.privacy_card(
    _charged(plan, ['a'], ['b']), plan, task='imdb', algo='rr_ldp', facts={}
  )
  json.dumps(made, allow_nan=False)
  assert made['epsilon'] <= 4.0 and made['formal_guarantee']
  assert 'local differential privacy' in made['headline']
  numbers = made['plan']
  assert numbers['users_who_took_part'] == 2
  assert numbers['shuffled']['epsilon'] == shuffling.epsilon_of_reports(
    plan.epsilon, 10**5, 1, 1e-7
  )
  page = card_page.render(made)
  assert 'PrivUnit' in plan.summary and 'Gaussian vector' in page
  assert '## Behind a shuffler' in page and '| most: 1 | 4.000 |' in page


def test_a_comparison_claims_nothing():
  plan = _plan(privacy_claim=False)
  assert plan.no_guarantee_reason is not None and not plan.is_local_promise
  assert _charged(plan, ['a']).epsilon() == math.inf


def test_it_has_less_noise_than_bits_at_the_same_total():
  deployment = dataclasses.replace(_DEPLOYMENT, num_coordinates=51)
  for total in (1.0, 4.0, 8.0):
    vectors = _plan(deployment, target_epsilon=total, clip_norm=1.0)
    bits = randomized_bits.LocalPrivacySettings(
      target_epsilon=total, quantization_range=3 / math.sqrt(51)
    ).mechanism(deployment)
    # Bits have a range for each coordinate, here one that hardly clips a random direction.
    assert vectors.noise < bits.noise * bits.bound
