import dataclasses

import pytest

from tff_textpriv import settings
from tff_textpriv.tasks import base, stackoverflow
from tff_textpriv.training import phases

_USERS = [f'user_{i}' for i in range(40)]


def _phases(*argv):
  chosen = base.parse(
    stackoverflow.TASK, ['--total_rounds=10', '--clients_per_round=5', *argv]
  )
  return phases.plan_phases(chosen, _USERS)


def test_most_algorithms_have_one_phase():
  (phase,) = _phases('--algo=fed_avg')
  assert (phase.rounds_before, phase.last_round) == (0, 10)
  assert phase.plan is None and phase.users == _USERS


def test_a_switch_goes_on_with_the_same_users_model_and_plan():
  first, second = _phases('--algo=subword_resample')
  assert (first.last_round, second.rounds_before, second.last_round) == (5, 5, 10)
  assert second.continues and not first.continues
  assert first.plan is second.plan and first.plan.rounds == 10
  assert first.users == second.users == _USERS


def test_several_switches_make_several_phases():
  made = _phases('--algo=subword_resample', '--resample_rounds=2,7')
  assert [(p.rounds_before, p.last_round) for p in made] == [(0, 2), (2, 7), (7, 10)]


def test_halves_have_nobody_in_common_and_their_own_plans():
  first, second = _phases(
    '--algo=subword_resample', '--phase_plan=half_split', '--resample_rounds=4'
  )
  assert not set(first.users) & set(second.users)
  assert set(first.users) | set(second.users) == set(_USERS)
  assert (first.last_round, second.rounds_before, second.last_round) == (4, 4, 14)
  assert not second.continues
  assert (first.plan.rounds, second.plan.rounds) == (4, 10)
  # Half of the accounted ten million each.
  assert first.plan.population == second.plan.population == 5_000_000
  assert first.group != second.group


def test_the_second_half_is_the_same_for_every_algorithm():
  (alone,) = _phases(
    '--algo=dp_fed_avg', '--target_epsilon=2', '--train_users=second_half'
  )
  _, second = _phases('--algo=subword_resample', '--phase_plan=half_split')
  assert alone.users == second.users and alone.group == second.group


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
  (plain,) = _phases(
    '--algo=dp_fed_avg',
    '--target_epsilon=2',
    '--accounted_population=10000000',
    '--accounted_cohort=20000',
  )
  for phase in _phases('--algo=subword_resample', '--resample_rounds=3,6'):
    assert dataclasses.asdict(phase.plan) == dataclasses.asdict(plain.plan)
