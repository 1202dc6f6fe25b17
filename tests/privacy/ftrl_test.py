"""DP-FTRL: one Gaussian mechanism over all rounds, and what the ledger makes of it."""

import dataclasses

import dp_accounting
import numpy as np
import pytest
from noise_check import is_gaussian

from tff_textpriv.privacy import accountants, card, card_page
from tff_textpriv.privacy.adaptive_clipping import AdaptiveClipping
from tff_textpriv.privacy.correlated_cost import CorrelatedRounds
from tff_textpriv.privacy.costs import ADD_OR_REMOVE_ONE
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.ftrl_settings import FtrlPrivacySettings
from tff_textpriv.privacy.ledger import Ledger
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.settings import SettingsError

# 300 users, 20 in a round: each takes part every 15 rounds, 4 times in 60.
_DEPLOYMENT = Deployment(
  'separated', 300, 20, rounds=60, num_coordinates=1000, separation=15
)


def _plan(deployment: Deployment = _DEPLOYMENT, **flags):
  flags = {'noise_multiplier': 3.0, 'delta': 1e-5, 'ftrl_noise': 'banded'} | flags
  return FtrlPrivacySettings(**flags).mechanism(deployment)


def _charged(plan, rounds: int) -> Ledger:
  ledger = Ledger.of(plan)
  for _ in range(rounds):
    ledger.charge(plan)
  return ledger


def _epsilon(event, accountant: str) -> float:
  return accountants.epsilon(event, 1e-5, ADD_OR_REMOVE_ONE, accountant)


@pytest.mark.parametrize('accountant', ['rdp', 'pld'])
@pytest.mark.parametrize('rounds', [1, 15, 16, 60])
def test_one_band_is_independent_noise_for_each_participation(accountant, rounds):
  ledger = _charged(_plan(ftrl_bands=1), rounds)
  times = -(-rounds // 15)
  event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(3.0), times)
  assert ledger.epsilon(accountant) == pytest.approx(
    _epsilon(event, accountant), rel=1e-4
  )
  # One participation fewer, as whoever rounds down would count, is far from it.
  fewer = dp_accounting.GaussianDpEvent(3.0 / np.sqrt(max(times - 1, 0.5)))
  assert ledger.epsilon(accountant) > 1.1 * _epsilon(fewer, accountant)


@pytest.mark.parametrize('restart', [None, 8, 11])
def test_a_tree_costs_what_dp_accounting_says_of_its_event(restart):
  ledger = _charged(_plan(ftrl_noise='tree', ftrl_restart_rounds=restart), 60)
  # Each user is in four trees, once in each; the depth is that of its rounds.
  tree = dp_accounting.SingleEpochTreeAggregationDpEvent(3.0, restart or 15)
  relation = dp_accounting.NeighboringRelation.REPLACE_SPECIAL
  theirs = dp_accounting.rdp.RdpAccountant(neighboring_relation=relation)
  theirs.compose(dp_accounting.SelfComposedDpEvent(tree, 4))
  assert ledger.epsilon('rdp') == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-6)


@pytest.mark.parametrize('kind', ['blt', 'banded', 'tree'])
@pytest.mark.parametrize('accountant', ['rdp', 'pld'])
def test_noise_is_the_least_that_keeps_the_target(kind, accountant):
  plan = _plan(
    ftrl_noise=kind, noise_multiplier=None, target_epsilon=4.0, accountant=accountant
  )
  assert 3.99 < _charged(plan, 60).epsilon() <= 4.0
  less = dataclasses.replace(plan, noise_multiplier=plan.noise_multiplier * 0.99)
  less = dataclasses.replace(less, budget_epsilon=None)
  assert _charged(less, 60).epsilon() > 4.0


def test_noise_is_no_smaller_for_chance():
  # The same users in random cohorts need less noise for the same epsilon; here they
  # are not random, and that must not be claimed.
  plan = _plan(ftrl_bands=1)
  assert plan.cost.composed(60) == dp_accounting.GaussianDpEvent(1.5)


def test_a_run_ends_before_the_participation_that_would_exceed_the_budget():
  two = _epsilon(dp_accounting.GaussianDpEvent(3.0 / np.sqrt(2)), 'pld')
  plan = _plan(target_epsilon=two + 0.05)
  ledger = Ledger.of(plan)
  rounds = 0
  while not ledger.would_exceed(plan):
    ledger.charge(plan)
    rounds += 1
  assert rounds == 30
  with pytest.raises(PrivacyError, match='would exceed'):
    ledger.charge(plan)


def test_rounds_that_were_not_planned_promise_nothing():
  plan = _plan()
  assert _charged(plan, 60).epsilon() < np.inf
  assert _charged(plan, 61).epsilon() == np.inf


def test_a_ledger_is_read_back_as_it_was():
  plan = _plan()
  ledger = _charged(plan, 20)
  again = Ledger.from_json(ledger.to_json())
  assert again.entries == ledger.entries
  again.charge(plan)
  assert len(again.entries) == 1


def test_sensitivities_that_cannot_be_are_refused():
  wrong = ((0, [1.0]), (1.5, [1.0]), (3, []), (3, [2.0, 1.0]), (3, [np.nan]))
  for separation, squares in wrong:
    with pytest.raises(PrivacyError, match='no sensitivities'):
      CorrelatedRounds(1.0, separation, tuple(squares))
  with pytest.raises(PrivacyError, match='noise multiplier'):
    CorrelatedRounds(-1.0, 3, (1.0,))


@pytest.mark.parametrize('sampling', ['poisson', 'fixed'])
def test_random_cohorts_are_refused(sampling):
  with pytest.raises(PrivacyError, match=f'not for {sampling}'):
    _plan(dataclasses.replace(_DEPLOYMENT, sampling=sampling))
  with pytest.raises(PrivacyError, match='its figure would be false'):
    _plan().check_sampling(sampling, 15)


def test_users_who_come_back_too_soon_are_refused():
  plan = _plan()
  plan.check_sampling('separated', 15)
  plan.check_sampling('separated', 20)
  with pytest.raises(PrivacyError, match='after 14 rounds.*at least 15'):
    plan.check_sampling('separated', 14)


def test_a_population_that_cannot_carry_the_rounds_is_refused_with_the_numbers():
  _plan(ftrl_max_participations=4)
  with pytest.raises(SettingsError, match='1,200 participations.*300 users.*4 times'):
    _plan(ftrl_max_participations=3)


@pytest.mark.parametrize(
  ('flags', 'match'),
  [
    ({'ftrl_bands': 16}, 'must be at most 15'),
    ({'ftrl_noise': 'tree', 'ftrl_restart_rounds': 16}, 'must be at most 15'),
    ({'ftrl_noise': 'tree', 'ftrl_bands': 4}, 'is not for --ftrl_noise=tree'),
    ({'ftrl_restart_rounds': 4}, 'is not for --ftrl_noise=banded'),
    ({'ftrl_noise': 'blt', 'ftrl_bands': 4}, 'is not for --ftrl_noise=blt'),
    ({'client_weighting': 'examples'}, 'no bounded sensitivity'),
    ({'noise_multiplier': None}, 'give --target_epsilon'),
    ({'delta': 0.01}, 'below one over the population'),
  ],
)
def test_flags_that_do_not_go_together_are_refused(flags, match):
  with pytest.raises(SettingsError, match=match):
    _plan(**flags)


def test_a_clip_that_moves_is_refused():
  adaptive = AdaptiveClipping(quantile=0.5, learning_rate=0.2, count_stddev=100.0)
  with pytest.raises(PrivacyError, match='same clip norm'):
    dataclasses.replace(_plan(), adaptive=adaptive)


def test_sizes_of_a_deployment_have_its_own_separation():
  plan = _plan(accounted_population=1_000_000, accounted_cohort=10_000, delta=1e-7)
  assert (plan.separation, plan.simulated_separation) == (100, 15)
  assert plan.participations == 1
  assert plan.is_scaled and not plan.of_simulation().is_scaled
  own = plan.of_simulation()
  # A user of the simulation takes part four times, under a five-hundredth of the noise.
  assert own.cost.square(60) >= 4 * 0.99 * plan.cost.square(60)
  assert own.noise_multiplier == pytest.approx(plan.noise_multiplier / 500)


@pytest.mark.parametrize('kind', ['blt', 'banded', 'tree'])
def test_noise_of_rounds_is_made_independent_again(kind):
  plan = _plan(ftrl_noise=kind)
  noising = plan.strategy.noising()
  draws = np.random.default_rng(0).normal(size=[noising.shape[1], 2000])
  rounds = noising @ draws
  independent = plan.independent(list(rounds[:40]))
  assert len(independent) == 40
  assert is_gaussian(np.ravel(independent, order='F'), 1.0)
  assert not is_gaussian(np.ravel(rounds[:40], order='F'), 1.0)
  # Rounds do not share it, and before they did.
  shared = abs(np.corrcoef(independent) - np.eye(40)).max()
  assert shared < 6 / np.sqrt(2000) < abs(np.corrcoef(rounds) - np.eye(60)).max()


@pytest.mark.parametrize('kind', ['blt', 'banded', 'tree'])
def test_the_card_says_who_the_neighbours_are_and_names_the_theorem(kind):
  plan = _plan(ftrl_noise=kind)
  ledger = _charged(plan, 60)
  made = card.privacy_card(ledger, plan, task='t', algo='dp_ftrl', facts={})
  assert made['formal_guarantee']
  assert made['plan']['neighbouring_relation'] == 'ADD_OR_REMOVE_ONE'
  assert made['plan']['participations'] == 4
  page = card_page.render(made)
  for words in (
    'everybody else takes part in the same rounds',
    'Denisov et al., 2022',
    'Nobody is drawn',
    'least rounds between participations | 15',
    plan.strategy.reference,
  ):
    assert words in page
  bytes_per_weight = made['plan']['state_bytes_per_weight']
  assert bytes_per_weight == 8 * {'blt': 3, 'banded': 14, 'tree': 4}[kind]


def test_without_noise_nothing_is_promised():
  plan = _plan(noise_multiplier=0.0)
  assert 'no noise' in plan.no_guarantee_reason
  assert _charged(plan, 3).epsilon() == np.inf
