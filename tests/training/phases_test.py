import dataclasses

import numpy as np
import pytest

from tff_textpriv import settings
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.tasks import base, stackoverflow
from tff_textpriv.training import phases

_USERS = [f'user_{i}' for i in range(40)]


def _phases(*argv):
  return phases.lay_out(_chosen(*argv), _USERS)


def _chosen(*argv):
  return base.parse(
    stackoverflow.TASK, ['--total_rounds=10', '--clients_per_round=5', *argv]
  )


def _mechanisms(*argv):
  chosen = _chosen(*argv)
  return [phase.mechanism(chosen, 100) for phase in phases.lay_out(chosen, _USERS)]


def _rounds(phase):
  return phase.leg.rounds_before, phase.leg.last_round


def _users(phase):
  return list(phase.sampler.client_ids)


def test_most_algorithms_have_one_phase():
  (phase,) = _phases('--algo=fed_avg')
  assert _rounds(phase) == (0, 10)
  assert _users(phase) == _USERS
  (mechanism,) = _mechanisms('--algo=fed_avg')
  assert 'without clipping' in mechanism.no_guarantee_reason


def test_a_switch_goes_on_with_the_same_users_model_and_plan():
  first, second = _phases('--algo=subword_resample')
  assert (_rounds(first), _rounds(second)) == ((0, 5), (5, 10))
  assert second.leg.continues and not first.leg.continues
  assert _users(first) == _users(second) == _USERS
  one, other = _mechanisms('--algo=subword_resample')
  # But for its noise, which no two phases share.
  assert dataclasses.replace(one, stream=other.stream) == other and one.rounds == 10
  assert one.stream != other.stream


def test_several_switches_make_several_phases():
  made = _phases('--algo=subword_resample', '--resample_rounds=2,7')
  assert [_rounds(phase) for phase in made] == [(0, 2), (2, 7), (7, 10)]


def test_halves_have_nobody_in_common_and_their_own_mechanisms():
  argv = ('--algo=subword_resample', '--phase_plan=half_split', '--resample_rounds=4')
  first, second = _phases(*argv)
  assert not set(_users(first)) & set(_users(second))
  assert set(_users(first)) | set(_users(second)) == set(_USERS)
  assert (_rounds(first), _rounds(second)) == ((0, 4), (4, 14))
  assert not second.leg.continues
  assert first.leg.users != second.leg.users
  one, other = _mechanisms(*argv)
  assert (one.rounds, other.rounds) == (4, 10)
  # Half of the accounted ten million each.
  assert one.population == other.population == 5_000_000


def test_the_second_half_is_the_same_for_every_algorithm():
  (alone,) = _phases(
    '--algo=dp_fed_avg', '--target_epsilon=2', '--train_users=second_half'
  )
  _, second = _phases('--algo=subword_resample', '--phase_plan=half_split')
  assert _users(alone) == _users(second) and alone.leg.users == second.leg.users


@pytest.mark.parametrize(
  ('flags', 'message'),
  [
    (['--resample_rounds=10'], 'must be increasing rounds from 1 to 9'),
    (['--resample_rounds=12'], 'must be increasing rounds from 1 to 9'),
    (['--resample_rounds=5,3'], 'must be increasing'),
    (['--phase_plan=half_split', '--resample_rounds=3,4'], 'one number'),
  ],
)
def test_switches_outside_the_run_are_refused(flags, message):
  with pytest.raises(settings.SettingsError, match=f'--resample_rounds=.*{message}'):
    _phases('--algo=subword_resample', *flags)


def test_resampling_leaves_the_privacy_figure_as_it_is():
  (plain,) = _mechanisms(
    '--algo=dp_fed_avg',
    '--target_epsilon=2',
    '--accounted_population=10000000',
    '--accounted_cohort=20000',
  )
  for mechanism in _mechanisms('--algo=subword_resample', '--resample_rounds=3,6'):
    assert dataclasses.replace(mechanism, stream=plain.stream) == plain


def test_users_of_dp_ftrl_come_in_their_turns_and_others_may():
  (phase,) = _phases('--algo=dp_ftrl', '--noise_multiplier=1')
  assert (phase.sampler.sampling, phase.sampler.separation) == ('separated', 8)
  (mechanism,) = _mechanisms('--algo=dp_ftrl', '--noise_multiplier=1')
  assert (mechanism.separation, mechanism.participations) == (8, 2)
  mechanism.check_sampling(phase.sampler.sampling, phase.sampler.separation)
  (plain,) = _phases('--algo=fed_avg', '--cohort_sampling=separated')
  assert plain.sampler.cohort(3) == phase.sampler.cohort(3)


def test_turns_and_chance_are_not_taken_for_each_other():
  with pytest.raises(settings.SettingsError, match='separated'):
    _chosen('--algo=dp_ftrl', '--noise_multiplier=1', '--cohort_sampling=poisson')
  given = ('--algo=dp_fed_avg', '--noise_multiplier=1', '--cohort_sampling=separated')
  with pytest.raises(PrivacyError, match="'separated' has no accounting"):
    _mechanisms(*given)


_TURNS = ('--algo=subword_resample', '--mechanism=dp_ftrl', '--accounted_cohort=5',
          '--accounted_population=40')  # fmt: skip


@pytest.mark.parametrize('noise', ['blt', 'banded', 'tree'])
def test_no_user_moves_a_phase_of_correlated_noise_further_than_is_charged(noise):
  """Over the cohorts that are really drawn, whose rounds are counted over all phases."""
  argv = (*_TURNS, f'--ftrl_noise={noise}', '--total_rounds=30', '--resample_rounds=11')
  made, mechanisms = _phases(*argv), _mechanisms(*argv)
  turns = {user: [] for user in _USERS}
  for phase, mechanism in zip(made, mechanisms, strict=True):
    assert (mechanism.separation, mechanism.simulated_separation) == (8, 8)
    strategy = mechanism.strategy
    before, last = _rounds(phase)
    assert strategy.rounds == last - before
    rows = np.zeros([len(_USERS), strategy.rounds])
    for number in range(before + 1, last + 1):
      for user in phase.sampler.cohort(number):
        rows[_USERS.index(user), number - before - 1] = 1
        turns[user].append(number)
    moved = np.sum((rows @ np.linalg.pinv(strategy.noising()).T) ** 2, axis=1).max()
    charged = mechanism.cost.squares[-1]
    assert 0.3 * charged < moved <= charged * (1 + 1e-9)
  # Turns go on over phases, though no figure needs it.
  assert all(np.diff(rounds).min() >= 8 for rounds in turns.values())


def test_phases_of_correlated_noise_are_of_one_run_and_halves_are_not():
  one, two = _mechanisms(*_TURNS)
  assert (one.stage, two.stage) == (0, 1) and one.rounds == two.rounds == 10
  assert one.cost != two.cost and one.stream != two.stream
  halves = _mechanisms(*_TURNS, '--phase_plan=half_split', '--resample_rounds=4')
  assert [half.rounds for half in halves] == [4, 10]
  assert all(not half.other_strategies and half.stage == 0 for half in halves)
  # Half of the accounted forty users each, five of them in a round.
  assert [half.separation for half in halves] == [4, 4]


_SCALED = ('--accounted_population=1000000', '--accounted_cohort=5000')


def _samplings(*argv):
  chosen = _chosen('--algo=dp_fed_avg', '--target_epsilon=2', *argv)
  (phase,) = phases.lay_out(chosen, _USERS)
  plan = phase.mechanism(chosen, 100)
  plan.check_sampling(phase.sampler.sampling)
  return phase.sampler.sampling, plan.sampling, plan


@pytest.mark.parametrize(
  ('argv', 'drawn'),
  [
    (_SCALED, 'fixed'),
    (_SCALED[:1], 'fixed'),
    ((*_SCALED, '--simulated_cohorts=as_accounted'), 'poisson'),
    ((*_SCALED, '--simulated_cohorts=separated'), 'separated'),
    ((), 'poisson'),
    (('--accounted_population=40', '--accounted_cohort=5'), 'poisson'),
  ],
)
def test_only_a_simulation_of_another_deployment_has_other_cohorts_than_accounted(
  argv, drawn
):
  simulated, accounted, plan = _samplings(*argv)
  assert (simulated, accounted) == (drawn, 'poisson')
  # The noise, and what it costs, are those of the accounted deployment all the same.
  as_accounted = _samplings(*argv, '--simulated_cohorts=as_accounted')[2]
  assert plan.noise_multiplier == as_accounted.noise_multiplier
  assert plan.cost == as_accounted.cost and plan.accountant == 'pld'


def test_a_run_that_promises_something_itself_refuses_fixed_cohorts():
  for other in ('fixed', 'separated'):
    with pytest.raises(settings.SettingsError, match='5 of 40 users.*is accounted'):
      _samplings(f'--simulated_cohorts={other}')
  plan = _samplings()[2]
  with pytest.raises(PrivacyError, match='accounts for poisson'):
    plan.check_sampling('fixed')
  with pytest.raises(PrivacyError, match='figure would be false'):
    dataclasses.replace(plan, simulated_sampling='fixed')


def test_the_simulation_of_a_deployment_is_accounted_as_it_draws():
  plan = _samplings(*_SCALED)[2]
  own = plan.of_simulation()
  assert (own.sampling, own.accountant, own.is_scaled) == ('fixed', 'rdp', False)
  assert (own.population, own.cohort) == (40, 5)


def test_users_are_drawn_by_the_rounds_of_their_own():
  halves = _phases('--algo=subword_resample', '--phase_plan=half_split')
  assert [phase.others_rounds for phase in halves] == [0, 10]
  switched = _phases('--algo=subword_resample', '--resample_rounds=2,7')
  assert [phase.others_rounds for phase in switched] == [0, 0, 0]


@pytest.mark.parametrize(
  ('argv', 'rounds'),
  [
    (('--algo=fed_avg', '--server_decay_rounds=9'), 10),
    (('--algo=subword_resample', '--server_decay_rounds=9'), 10),
    (
      (
        '--algo=subword_resample',
        '--phase_plan=half_split',
        '--resample_rounds=12',
        '--server_decay_rounds=11',
      ),
      12,
    ),
  ],
)
def test_a_step_size_that_ends_before_the_training_is_refused(argv, rounds):
  with pytest.raises(
    settings.SettingsError, match=f'--server_decay_rounds=.*{rounds} rounds'
  ):
    _phases(*argv)
  _phases(*argv[:-1], f'--server_decay_rounds={rounds}')
