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
