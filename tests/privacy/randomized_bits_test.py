"""Plans of local privacy, what they cost in the ledger, and what the card says."""

import dataclasses
import json

import pytest

from tff_textpriv import randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.privacy import (
  card,
  card_page,
  errors,
  ledger,
  ledger_entries,
  randomized_bits,
)
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.privacy.truth_table import truth_table

_PLAN = randomized_bits.RandomizedBits(
  epsilon=1.0,
  num_coordinates=5001,
  coordinates_per_client=20,
  stream=randomness.Stream.of_seed(0),
)


def _ledger(*rounds, plan=_PLAN):
  spent = ledger.Ledger.of(plan)
  for users in rounds:
    spent.charge(plan, users)
  return spent


def _card(plan, spent):
  return card.privacy_card(spent, plan, task='imdb', algo='rr_ldp', facts={})


def test_flags_make_a_plan_and_a_model_that_is_too_small_is_refused():
  settings = randomized_bits.LocalPrivacySettings(coordinates_per_client=20)
  deployment = Deployment(
    'fixed', population=1, cohort=1, rounds=1, num_coordinates=5001
  )
  assert settings.mechanism(deployment) == _PLAN
  with pytest.raises(settings_lib.SettingsError, match='coordinates_per_client=20.*19'):
    settings.mechanism(dataclasses.replace(deployment, num_coordinates=19))
  with pytest.raises(errors.PrivacyError, match='20 of 19'):
    dataclasses.replace(_PLAN, num_coordinates=19)


def test_a_user_pays_for_the_rounds_that_the_user_took_part_in():
  spent = _ledger(['ann', 'bob'], ['bob'], ['cem'], [], ['bob', 'cem'])
  assert spent.rounds_by_user == {'ann': 1, 'bob': 3, 'cem': 2}
  # Three rounds of 20 bits; not the five rounds of the run.
  assert spent.epsilon() == _PLAN.cost.epsilon(3, 1e-6)
  assert spent.epsilon() < _PLAN.cost.epsilon(5, 1e-6)
  (entry,) = spent.entries
  assert (entry.kind, entry.count) == (ledger_entries.LOCAL, 3)


def test_the_ledger_of_reports_survives_a_restart():
  spent = _ledger(['ann', 'bob'], ['bob'])
  again = ledger.Ledger.from_json(spent.to_json())
  assert again == spent
  again.charge(_PLAN, ['bob'])
  assert again.epsilon() == _PLAN.cost.epsilon(3, 1e-6)


def test_the_range_is_the_step_of_clients_unless_it_is_set():
  deployment = Deployment(
    'fixed', population=5, cohort=2, rounds=3, num_coordinates=9, client_step=0.25
  )
  plan = randomized_bits.LocalPrivacySettings().mechanism(deployment)
  assert (plan.bound, plan.rounds, plan.population) == (0.25, 3, 5)
  settings = randomized_bits.LocalPrivacySettings(quantization_range=2.0)
  assert settings.mechanism(deployment) == dataclasses.replace(plan, bound=2.0)


def test_reports_add_to_other_local_reports():
  spent = _ledger(['ann'])
  spent.charge_local('heavy hitters', 'words', 8.0)
  assert spent.epsilon() == 8 + _PLAN.cost.epsilon(1, 1e-6)


def test_bits_of_another_plan_or_for_another_delta_are_refused():
  spent = _ledger(['ann'])
  with pytest.raises(errors.PrivacyError, match='two plans'):
    spent.charge(dataclasses.replace(_PLAN, epsilon=2.0, claim=False), ['ann'])
  with pytest.raises(errors.PrivacyError, match='delta'):
    spent.charge(dataclasses.replace(_PLAN, delta=1e-5), ['ann'])
  assert spent == _ledger(['ann'])


def test_the_truth_table_goes_from_one_bit_to_what_an_adversary_faces():
  rows = truth_table(_PLAN, rounds=25)
  assert [row.num_bits for row in rows] == [1, 1, 25, 20, 500, 5001 * 25]
  assert [row.pure for row in rows] == [1, 1, 25, 20, 500, 125_025]
  composed = [row.composed for row in rows]
  # From the general accountant: 500 bits of epsilon 1 are 320.818 at delta 1e-6.
  assert composed[4] == pytest.approx(320.818, abs=1e-3)
  # 125,025 bits: mean 57,776 and 4.75 standard deviations of 314 each.
  assert composed[5] == pytest.approx(59_262, abs=5)
  everything = truth_table(
    dataclasses.replace(_PLAN, coordinates_per_client=None), rounds=25
  )
  assert [row.num_bits for row in everything] == [1, 1, 25, 5001, 5001 * 25]
  assert 'adversary' in everything[-1].what


def test_the_headline_is_the_figure_of_all_bits_and_not_of_one():
  spent = _ledger(*[['ann']] * 25)
  made = _card(_PLAN, spent)
  assert made['epsilon'] == pytest.approx(320.818, abs=1e-3)
  assert 'With secret noise: (320.818, 1e-06)-local diff' in made['headline']
  assert not made['of_this_model']
  real = _card(dataclasses.replace(_PLAN, noise_source='system'), spent)
  assert real['headline'].startswith('(320.818, 1e-06)-local differential privacy')
  assert real['of_this_model']
  assert made['formal_guarantee'] and not made['reasons']
  assert not any('Training metrics' in each for each in made['not_covered'])
  unclaimed = _card(dataclasses.replace(_PLAN, claim=False), spent)
  assert any('Training metrics' in each for each in unclaimed['not_covered'])
  assert made['plan']['by_user'][-1]['pure'] == 500
  page = card_page.render(made)
  for line in (
    '| one bit | 1 | 1.000 | 1.000 |',
    '| one coordinate, 25 rounds | 25 | 25.000 | 24.998 |',
    '| 20 of 5,001 coordinates, 25 rounds: what an adversary faces | 500 | 500.000 | '
    '320.818 |',
    '| most: 25 | 500.000 | 320.818 |',
  ):
    assert line in page
  assert '125,025.000' in page  # What there would be without coordinate sampling.
  assert 'Central differential privacy' not in page
  json.dumps(made, allow_nan=False)


def test_a_comparison_claims_nothing():
  plan = dataclasses.replace(_PLAN, claim=False)
  made = _card(plan, _ledger(['ann'], plan=plan))
  assert made['epsilon'] is None
  assert made['headline'] == 'No formal guarantee'
  assert '--privacy_claim=false' in made['reasons'][0]


def test_a_card_before_the_first_round_has_spent_nothing():
  made = _card(_PLAN, _ledger())
  assert made['plan']['by_user'] == []
  card_page.render(made)


def test_the_warning_names_what_one_round_costs():
  (warning,) = randomized_bits.RandomizedBits(
    epsilon=1.0, num_coordinates=5001
  ).warnings
  assert 'spends 5,001 in a single round' in warning


_ONCE = Deployment(
  'separated',
  population=18_800,
  cohort=700,
  rounds=26,
  separation=26,
  num_coordinates=5001,
)


def _planned(deployment=_ONCE, **flags):
  return randomized_bits.LocalPrivacySettings(**flags).mechanism(deployment)


@pytest.mark.parametrize(('total', 'bits'), [(1.0, 1), (4.0, 2), (8.0, 4)])
def test_a_total_becomes_few_bits_with_a_large_epsilon_each(total, bits):
  plan = _planned(target_epsilon=total)
  assert (plan.participations, plan.num_reported) == (1, bits)
  assert plan.epsilon == pytest.approx(total / bits, rel=1e-3)
  spent = _ledger(['ann'], ['bob'], plan=plan)
  assert 0.999 * total < spent.epsilon() <= total == plan.budget_epsilon
  assert not spent.would_exceed(plan, users=['cem'])
  assert spent.would_exceed(plan, users=['ann'])
  (said,) = plan.warnings
  assert f'Epsilon {total:.3f} at delta 1e-06 is the total' in said
  assert f'{bits} of 5,001 coordinates' in said and 'few bits' in said


def test_a_total_is_that_of_all_rounds_in_which_a_user_may_be_drawn():
  by_chance = dataclasses.replace(_ONCE, sampling='fixed', separation=1)
  plan = _planned(by_chance, target_epsilon=8.0)
  assert plan.participations == 26
  spent = _ledger(*[['ann']] * 26, plan=plan)
  assert 7.99 < spent.epsilon() <= 8
  assert spent.would_exceed(plan, users=['ann'])
  (said,) = plan.warnings
  assert '26 rounds at most' in said and '--cohort_sampling=separated' in said
  # One bit per round is the least that can be said.
  assert plan.num_reported == 1


def test_the_number_of_bits_can_be_chosen_and_has_its_epsilon():
  plan = _planned(target_epsilon=4.0, coordinates_per_client=500)
  assert plan.num_reported == 500
  assert 3.99 < plan.cost.epsilon(1, plan.delta) <= 4
  # Composed, each of many has more than its share, but the estimate is noisier.
  assert plan.epsilon > 2 * 4 / 500
  assert plan.noise > 1.5 * _planned(target_epsilon=4.0).noise


def test_what_other_reports_spend_is_taken_off_the_total():
  besides = dataclasses.replace(_ONCE, spent_besides=8.0)
  assert _planned(besides, target_epsilon=12.0).cost.pure_epsilon(1) == pytest.approx(4)
  with pytest.raises(settings_lib.SettingsError, match='users spend 8 before'):
    _planned(besides, target_epsilon=8.0)


def test_a_total_and_an_epsilon_of_one_bit_are_not_given_together():
  with pytest.raises(settings_lib.IncompatibleSettingsError, match='give one of both'):
    _planned(target_epsilon=4.0, epsilon_per_coordinate=1.0)


def test_a_total_that_leaves_nothing_to_a_bit_is_refused():
  with pytest.raises(settings_lib.SettingsError, match='target_epsilon=1e-06.*leaves'):
    _planned(target_epsilon=1e-6, coordinates_per_client=5000)


def test_the_paper_s_setting_is_told_what_it_amounts_to():
  everybody = dataclasses.replace(_ONCE, sampling='fixed', population=700, separation=1)
  (said,) = _planned(dataclasses.replace(everybody, rounds=25)).warnings
  assert 'Epsilon 1 is that of one coordinate in one round' in said
  assert 'Epsilon 59,262.488 at delta 1e-06 is the total' in said
