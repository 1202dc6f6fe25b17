"""Banded noise with users drawn from one slot after the other: its cost and refusals."""

import dataclasses

import dp_accounting
import numpy as np
import pytest

from tff_textpriv.privacy import accountants, card, card_page, planning
from tff_textpriv.privacy.banded_noise import BandedNoise
from tff_textpriv.privacy.buffered_noise import BufferedNoise
from tff_textpriv.privacy.central_settings import CentralPrivacySettings
from tff_textpriv.privacy.correlated_cost import BandedRounds
from tff_textpriv.privacy.costs import ADD_OR_REMOVE_ONE
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.ftrl_settings import FtrlPrivacySettings
from tff_textpriv.privacy.ledger import Ledger
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.privacy.tree_noise import TreeNoise
from tff_textpriv.settings import SettingsError

_DELTA = 1e-5
_DEPLOYMENT = Deployment(
  'banded_poisson', 300, 10, rounds=50, num_coordinates=1000, separation=8
)


def _plan(deployment=_DEPLOYMENT, **flags):
  flags = {'noise_multiplier': 2.0, 'ftrl_bands': 8} | flags
  return FtrlPrivacySettings(
    cohort_sampling='banded_poisson', ftrl_noise='banded', delta=_DELTA, **flags
  ).mechanism(deployment)


def _charged(plan, rounds):
  ledger = Ledger.of(plan)
  for _ in range(rounds):
    ledger.charge(plan)
  return ledger


@pytest.mark.parametrize('accountant', ['rdp', 'pld'])
@pytest.mark.parametrize('rounds', [1, 8, 9, 50])
def test_rounds_cost_what_so_many_sampled_rounds_do(accountant, rounds):
  sampled = dp_accounting.PoissonSampledDpEvent(
    8 * 10 / 300, dp_accounting.GaussianDpEvent(2.0)
  )
  event = dp_accounting.SelfComposedDpEvent(sampled, -(-rounds // 8))
  found = _charged(_plan(), rounds).epsilon(accountant)
  theirs = accountants.epsilon(event, _DELTA, ADD_OR_REMOVE_ONE, accountant)
  assert found == pytest.approx(theirs, rel=1e-6)
  # A share that is that of all users, or as many rounds as are done, would be others.
  for wrong in (
    dp_accounting.SelfComposedDpEvent(
      dp_accounting.PoissonSampledDpEvent(10 / 300, sampled.event), event.count
    ),
    dp_accounting.SelfComposedDpEvent(sampled, 2 * event.count),
  ):
    other = accountants.epsilon(wrong, _DELTA, ADD_OR_REMOVE_ONE, accountant)
    assert found != pytest.approx(other, rel=0.05)


@pytest.mark.parametrize('accountant', ['rdp', 'pld'])
def test_one_band_is_dp_fed_avg_with_poisson_cohorts_to_the_last_bit(accountant):
  flags = {'target_epsilon': 4.0, 'accountant': accountant, 'delta': _DELTA}
  central = CentralPrivacySettings(**flags).mechanism(
    dataclasses.replace(_DEPLOYMENT, sampling='poisson', separation=1)
  )
  del flags['delta']
  ours = _plan(noise_multiplier=None, ftrl_bands=1, **flags)
  assert ours.noise_multiplier == central.noise_multiplier
  assert ours.cost.composed(50) == central.cost.composed(50)
  for rounds in (1, 7, 50):
    one, other = _charged(ours, rounds), _charged(central, rounds)
    assert one.epsilon() == other.epsilon()
  np.testing.assert_array_equal(ours.strategy.noising(), np.eye(50))


def test_chance_is_worth_something_and_bands_are_too():
  drawn = _plan(noise_multiplier=None, target_epsilon=4.0)
  turns = FtrlPrivacySettings(
    ftrl_noise='banded', ftrl_bands=8, delta=_DELTA, target_epsilon=4.0
  ).mechanism(dataclasses.replace(_DEPLOYMENT, sampling='separated', separation=8))
  assert drawn.noise_multiplier < 0.9 * turns.noise_multiplier
  assert 3.99 < _charged(drawn, 50).epsilon() <= 4.0


@pytest.mark.parametrize('bands', [1, 2, 8, 16])
def test_columns_are_banded_and_no_longer_than_one(bands):
  matrix = BandedNoise(50, bands).matrix()
  assert np.sum(matrix**2, axis=0).max() <= 1
  for column in range(50):
    (rows,) = matrix[:, column].nonzero()
    assert rows.min() == column and rows.max() < column + bands


class _Longer(BandedNoise):
  """Columns that are a trifle too long."""

  def weights(self):
    return super().weights() + 1


@pytest.mark.parametrize(
  'strategy',
  [BandedNoise(50, 9), _Longer(50, 8), TreeNoise(50, 8), BufferedNoise(50, 3, 8)],
  ids=['too many bands', 'too long', 'tree', 'blt'],
)
def test_strategies_for_which_the_theorem_does_not_hold_are_refused(strategy):
  plan = _plan()
  with pytest.raises(PrivacyError, match='at most 8 bands, with columns of norm 1'):
    dataclasses.replace(plan, strategy=strategy)


@pytest.mark.parametrize(
  ('flags', 'match'),
  [
    ({'ftrl_noise': 'blt'}, '--cohort_sampling=banded_poisson: needs --ftrl_noise'),
    ({'ftrl_bands': 31}, 'must be at most 30'),
  ],
)
def test_flags_that_do_not_go_together_are_refused(flags, match):
  flags = {'noise_multiplier': 1.0, 'ftrl_noise': 'banded'} | flags
  settings = FtrlPrivacySettings(cohort_sampling='banded_poisson', **flags)
  with pytest.raises(SettingsError, match=match):
    settings.mechanism(_DEPLOYMENT)


def test_several_phases_and_other_cohorts_are_refused():
  with pytest.raises(SettingsError, match='several phases'):
    _plan(dataclasses.replace(_DEPLOYMENT, stages=(20, 30)))
  with pytest.raises(PrivacyError, match='are for separated cohorts'):
    FtrlPrivacySettings(noise_multiplier=1.0).mechanism(_DEPLOYMENT)
  plan = _plan()
  plan.check_sampling('banded_poisson', 8)
  for sampling, slots in (('banded_poisson', 7), ('banded_poisson', 9), ('poisson', 8)):
    with pytest.raises(PrivacyError, match='its figure would be false'):
      plan.check_sampling(sampling, slots)


def test_rounds_that_were_not_planned_and_slots_that_are_too_small_promise_nothing():
  assert _charged(_plan(), 51).epsilon() == np.inf
  with pytest.raises(PrivacyError, match='cannot be drawn'):
    BandedRounds(1.0, 300, 10, 31, 50)
  with pytest.raises(PrivacyError, match='number of bands'):
    BandedRounds(1.0, 300, 10, 0, 50)


def test_a_ledger_is_read_back_as_it_was():
  ledger = _charged(_plan(), 20)
  assert Ledger.from_json(ledger.to_json()).entries == ledger.entries


def test_a_simulation_with_fewer_slots_than_bands_claims_nothing_for_chance():
  plan = _plan(accounted_population=50_000, accounted_cohort=100, ftrl_bands=40)
  assert (plan.separation, plan.simulated_separation) == (40, 30)
  own = plan.of_simulation()
  assert (own.sampling, own.separation) == ('separated', 30)


def test_the_card_says_that_it_needs_chance_and_its_secrecy():
  plan = _plan()
  ledger = _charged(plan, 50)
  made = card.privacy_card(ledger, plan, task='t', algo='dp_ftrl', facts={})
  assert made['plan']['rounds_done'] == 50 and made['plan']['participations'] == 7
  page = card_page.render(made)
  for words in (
    'dealt into 8 slots',
    'probability 0.2667',
    'nobody may know',
    '7 rounds',
  ):
    assert words in page, words
  assert 'nothing is claimed for chance' not in page


def test_a_deployment_is_planned():
  question = planning.Question(
    2.0, None, 20_000, 2000, 10_000_000, 1e-8, 'banded_poisson'
  )
  rdp, pld = FtrlPrivacySettings.solve(question)
  sixteen = BandedRounds(pld.noise_multiplier, 10_000_000, 20_000, 16, 2000)
  assert pld.epsilon == accountants.epsilon_of_rounds(sixteen, 2000, 1e-8, 'pld')
  assert pld.noise_multiplier < rdp.noise_multiplier
  assert 1.99 < pld.epsilon <= 2.0
