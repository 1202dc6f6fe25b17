"""The ledger: costs add up, survive a restart and stop a run in time."""

import dataclasses
import json
import math
import time

import dp_accounting
import pytest
from dp_accounting import rdp
from sample_plan import PLAN

from tff_textpriv.privacy import accountants
from tff_textpriv.privacy.central import CentralGaussian
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.ledger import Ledger
from tff_textpriv.privacy.randomized_bits import RandomizedBits


def charged(plan: CentralGaussian, rounds: int, ledger: Ledger | None = None) -> Ledger:
  ledger = ledger or Ledger.of(plan)
  for _ in range(rounds):
    ledger.charge(plan)
  return ledger


def test_an_empty_ledger_has_spent_nothing():
  assert Ledger(1e-6).epsilon('rdp') == 0
  assert Ledger(1e-6).epsilon('pld') == 0


@pytest.mark.parametrize('accountant', accountants.ACCOUNTANTS)
def test_rounds_of_one_plan_are_one_entry_with_their_composed_cost(accountant):
  ledger = charged(PLAN, 7)
  assert [entry.count for entry in ledger.entries] == [7]
  expected = accountants.epsilon_of_rounds(PLAN.cost, 7, 1e-5, accountant)
  assert ledger.epsilon(accountant) == expected


def test_the_next_round_costs_what_it_then_does():
  ledger = charged(PLAN, 3)
  ahead = ledger.epsilon_after_next_round(PLAN)
  assert ahead > ledger.epsilon()
  ledger.charge(PLAN)
  assert ledger.epsilon() == ahead


def test_two_plans_compose_as_an_accountant_composes_them():
  noisier = dataclasses.replace(PLAN, noise_multiplier=2.0, cohort=40)
  ledger = charged(noisier, 5, charged(PLAN, 10))
  reference = rdp.RdpAccountant()
  reference.compose(PLAN.cost.event(), 10)
  reference.compose(noisier.cost.event(), 5)
  assert len(ledger.entries) == 2
  # What is known of the draws to the precision of the machine only comes on top.
  drawing = 15 * PLAN.cost.own_epsilon
  left = 1e-5 - 15 * PLAN.cost.own_delta
  assert ledger.epsilon() == pytest.approx(
    reference.get_epsilon(left) + drawing, rel=1e-12
  )


def test_the_run_stops_before_the_round_that_would_exceed_the_budget():
  limit = accountants.epsilon_of_rounds(PLAN.cost, 40, 1e-5, 'rdp')
  plan = dataclasses.replace(PLAN, budget_epsilon=limit)
  ledger = charged(plan, 39)
  assert not ledger.would_exceed(plan)
  ledger.charge(plan)
  assert ledger.epsilon() <= limit < ledger.epsilon_after_next_round(plan)
  assert ledger.would_exceed(plan)
  with pytest.raises(PrivacyError, match='would exceed the budget'):
    ledger.charge(plan)
  assert ledger.entries[0].count == 40


def test_a_resumed_ledger_stops_at_the_same_round():
  limit = accountants.epsilon_of_rounds(PLAN.cost, 150, 1e-5, 'rdp')
  plan = dataclasses.replace(PLAN, budget_epsilon=limit)
  ledger = charged(plan, 149)
  ledger = Ledger.from_json(ledger.to_json())
  assert not ledger.would_exceed(plan)
  ledger.charge(plan)
  assert ledger.would_exceed(plan)


def test_a_budget_counts_other_rounds_and_local_reports():
  limit = accountants.epsilon_of_rounds(PLAN.cost, 40, 1e-5, 'rdp')
  plan = dataclasses.replace(PLAN, budget_epsilon=limit)
  ledger = charged(plan, 5)
  assert not ledger.would_exceed(plan)
  charged(dataclasses.replace(PLAN, noise_multiplier=0.6), 40, ledger)
  assert ledger.would_exceed(plan)
  reported = charged(plan, 5)
  # Those of others do not count, unless they are everybody's.
  reported.charge_local('words', 'of others', epsilon=limit, group='first half')
  assert not reported.would_exceed(plan, 'second half')
  reported.charge_local('words', 'three words a user', epsilon=limit)
  assert reported.would_exceed(plan, 'second half')


def test_a_pld_budget_allows_more_rounds_and_is_searched_once(monkeypatch):
  limit = accountants.epsilon_of_rounds(PLAN.cost, 12, 1e-5, 'pld')
  plan = dataclasses.replace(PLAN, budget_epsilon=limit, accountant='pld')
  calls = []
  epsilon = accountants.epsilon

  def counting(event, delta, relation, accountant):
    calls.append(accountant)
    return epsilon(event, delta, relation, accountant)

  monkeypatch.setattr(accountants, 'epsilon', counting)
  ledger = charged(plan, 12)
  assert ledger.would_exceed(plan)
  assert len(calls) <= math.ceil(math.log2(plan.rounds)) + 1
  assert charged(PLAN, 12).epsilon('rdp') > limit


def test_a_comparison_stops_where_the_real_run_would_but_claims_nothing():
  limit = accountants.epsilon_of_rounds(PLAN.cost, 3, 1e-5, 'rdp')
  plan = dataclasses.replace(PLAN, budget_epsilon=limit, claim=False)
  ledger = charged(plan, 3)
  assert ledger.epsilon() == math.inf
  assert ledger.would_exceed(plan)
  (reason,) = ledger.no_guarantee_reasons
  assert '--privacy_claim=false' in reason


def test_rounds_without_noise_leave_no_guarantee():
  ledger = charged(dataclasses.replace(PLAN, noise_multiplier=0.0), 2)
  assert ledger.epsilon() == math.inf
  assert ledger.no_guarantee_reasons


def test_a_release_without_guarantee_spoils_the_whole_ledger():
  ledger = charged(PLAN, 2)
  ledger.note_no_guarantee('oracle tokenizer', "trained on the users' own text")
  ledger.note_no_guarantee('oracle tokenizer', "trained on the users' own text")
  assert ledger.epsilon('rdp') == ledger.epsilon('pld') == math.inf
  assert ledger.epsilon_after_next_round(PLAN) == math.inf
  assert len(ledger.no_guarantee_reasons) == 1


def test_post_processing_is_recorded_at_no_cost():
  ledger = charged(PLAN, 2)
  before = ledger.epsilon()
  ledger.charge_post_processing('sampling', 'text sampled from the model')
  assert ledger.epsilon() == before
  assert ledger.entries[-1].name == 'sampling'


def test_local_reports_add_their_epsilon_and_take_their_delta():
  ledger = charged(PLAN, 10)
  ledger.charge_local('words', 'three words a user', epsilon=8.0, delta=4e-6)
  central = accountants.epsilon_of_rounds(PLAN.cost, 10, 1e-5 - 4e-6, 'rdp')
  assert ledger.epsilon() == pytest.approx(central + 8.0, rel=1e-12)
  ledger.charge_local('words', 'three words a user', epsilon=8.0, delta=4e-6)
  assert ledger.entries[-1].count == 2
  with pytest.raises(PrivacyError, match='is left of'):
    ledger.charge_local('words', 'three words a user', epsilon=8.0, delta=4e-6)
  with pytest.raises(PrivacyError, match='not a number'):
    ledger.charge_local('words', 'again', epsilon=math.inf)


def test_different_neighbouring_relations_are_not_composed():
  ledger = charged(PLAN, 1)
  fixed = dataclasses.replace(PLAN, sampling='fixed')
  for charge in (ledger.charge, ledger.epsilon_after_next_round):
    with pytest.raises(PrivacyError, match='different promises'):
      charge(fixed)
  assert ledger == charged(PLAN, 1)


def test_a_plan_for_another_delta_is_refused():
  with pytest.raises(PrivacyError, match='delta 1e-05 .* delta 1e-06'):
    Ledger(1e-6).charge(PLAN)


def test_a_ledger_survives_json_unchanged():
  ledger = charged(dataclasses.replace(PLAN, noise_multiplier=1 / 3), 4)
  ledger.charge_post_processing('remap', 'embedding rows mapped to new pieces')
  ledger.charge_local('words', 'three words a user', epsilon=0.1)
  again = Ledger.from_json(ledger.to_json())
  assert again == ledger
  assert again.epsilon() == ledger.epsilon()
  ledger.charge(dataclasses.replace(PLAN, noise_multiplier=1 / 3))
  assert again != ledger
  ledger.note_no_guarantee('oracle', 'why')
  assert Ledger.from_json(ledger.to_json()).epsilon() == math.inf


@pytest.mark.parametrize(
  'text',
  [
    '',
    '[]',
    '{}',
    json.dumps({'delta': 1e-6, 'accountant': 'magic', 'entries': []}),
    json.dumps({'delta': 1e-6, 'accountant': 'rdp', 'entries': [{'kind': 'x'}]}),
  ],
)
def test_a_text_that_is_no_ledger_is_refused(text):
  with pytest.raises(PrivacyError, match='ledger'):
    Ledger.from_json(text)


def test_a_fixed_size_ledger_knows_that_pld_cannot_account_it():
  ledger = charged(dataclasses.replace(PLAN, sampling='fixed'), 1)
  assert ledger.supports('rdp')
  assert not ledger.supports('pld')
  assert ledger.epsilon('rdp') == pytest.approx(
    PLAN.cost.own_epsilon
    + rdp.RdpAccountant(
      neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
    )
    .compose(
      dp_accounting.SampledWithoutReplacementDpEvent(
        1000, 20, dp_accounting.GaussianDpEvent(0.5)
      )
    )
    .get_epsilon(1e-5)
  )


def test_epsilon_by_rdp_is_cheap_in_every_round():
  ledger = charged(PLAN, 1)
  ledger.epsilon('rdp')
  start = time.process_time()
  for _ in range(100):
    ledger.charge(PLAN)
    ledger.epsilon('rdp')
  assert time.process_time() - start < 2


def test_groups_of_users_do_not_add_up():
  ledger = Ledger(PLAN.delta)
  for _ in range(7):
    ledger.charge(PLAN, group='first half')
  for _ in range(4):
    ledger.charge(PLAN, group='second half')
  assert ledger.epsilon() == charged(PLAN, 7).epsilon()
  # What all users spent adds to either group.
  ledger.charge_local('words', 'reported by everyone', 0.5)
  assert ledger.epsilon() == pytest.approx(charged(PLAN, 7).epsilon() + 0.5)
  assert Ledger.from_json(ledger.to_json()) == ledger


def test_a_group_is_stopped_by_its_own_spending_only():
  budget = charged(PLAN, 5).epsilon()
  plan = dataclasses.replace(PLAN, budget_epsilon=budget)
  ledger = Ledger(plan.delta)
  for _ in range(5):
    ledger.charge(plan, group='first half')
  assert ledger.would_exceed(plan, 'first half')
  assert not ledger.would_exceed(plan, 'second half')


def test_where_users_pay_the_budget_ends_with_the_first_who_would_exceed_it():
  plan = RandomizedBits(2.0, 100, coordinates_per_client=2, budget_epsilon=4.1)
  ledger = Ledger.of(plan)
  for user in ('ann', 'bob', 'cem'):
    assert not ledger.would_exceed(plan, users=[user])
    ledger.charge(plan, [user])
  # Nobody has reported twice, who would spend 8.
  assert 3.9 < ledger.epsilon() <= 4.1
  assert not ledger.would_exceed(plan, users=['dee', 'eve'])
  assert not ledger.would_exceed(plan, users=[])
  assert ledger.would_exceed(plan, users=['dee', 'bob'])
  assert ledger.would_exceed(plan)  # Whoever it is.
  before = ledger.to_json()
  with pytest.raises(PrivacyError, match='exceed the budget of epsilon 4.1'):
    ledger.charge(plan, ['dee', 'bob'])
  assert ledger.to_json() == before
