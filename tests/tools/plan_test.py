"""The planning tool solves for what is left out."""

import json
import subprocess
import sys

import dp_accounting
import pytest

from tff_textpriv.privacy import comparison
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.settings import IncompatibleSettingsError, SettingsError
from tff_textpriv.tools import plan

SMALL = {'population': 10_000, 'delta': 1e-5}


def answer(capsys, **settings):
  assert plan.main(plan.PlanSettings(**SMALL, format='json', **settings)) == 0
  return json.loads(capsys.readouterr().out)


def test_each_quantity_is_solved_from_the_other_three(capsys):
  known = answer(capsys, noise_multiplier=1.5, cohort=100, rounds=50)
  assert known['solved_for'] == 'epsilon'
  rdp = known['solutions']['rdp']
  assert 0 < known['solutions']['pld']['epsilon'] < rdp['epsilon']
  for unknown, tolerance in (('noise_multiplier', 1e-4), ('cohort', 1), ('rounds', 1)):
    given = {name: value for name, value in rdp.items() if name != unknown}
    solved = answer(capsys, sampling='poisson', **given)
    assert solved['solved_for'] == unknown
    assert solved['solutions']['rdp'][unknown] == pytest.approx(
      rdp[unknown], abs=tolerance
    )
    assert solved['solutions']['rdp']['epsilon'] <= rdp['epsilon']


def test_fixed_cohorts_are_solved_by_rdp_alone_and_cost_more(capsys):
  given = {'noise_multiplier': 1.5, 'cohort': 100, 'rounds': 50}
  fixed = answer(capsys, sampling='fixed', **given)['solutions']
  assert set(fixed) == {'rdp'}
  poisson = answer(capsys, **given)['solutions']
  assert fixed['rdp']['epsilon'] > poisson['rdp']['epsilon']


def test_users_who_take_turns_are_planned_without_amplification(capsys):
  given = {'noise_multiplier': 4.0, 'cohort': 100, 'rounds': 250}
  known = answer(capsys, algo='dp_ftrl', **given)
  assert known['sampling'] == 'separated'
  chance = answer(capsys, **given)['solutions']
  rdp = known['solutions']['rdp']
  assert rdp['epsilon'] > 2 * chance['rdp']['epsilon']
  for unknown in ('noise_multiplier', 'cohort', 'rounds'):
    kept = {name: value for name, value in rdp.items() if name != unknown}
    solved = answer(capsys, algo='dp_ftrl', **kept)['solutions']['rdp']
    # Buffers are optimized for the rounds, so that a few more may cost as much.
    assert solved[unknown] == pytest.approx(rdp[unknown], rel=0.02)
    assert solved['epsilon'] <= rdp['epsilon'] * (1 + 1e-6)


def test_what_cannot_be_drawn_or_solved_is_refused_for_turns():
  few = {'noise_multiplier': 0.01, 'epsilon': 0.1}
  with pytest.raises(PrivacyError, match='not even one fits'):
    plan.main(plan.PlanSettings(**SMALL, **few, cohort=100, algo='dp_ftrl'))


def test_sums_with_noise_of_devices_are_planned(capsys):
  given = {'noise_multiplier': 8.0, 'cohort': 100, 'rounds': 250}
  given |= {'algo': 'dp_fed_avg', 'mechanism': 'distributed', 'num_coordinates': 1000}
  known = answer(capsys, **given)
  assert known['sampling'] == 'separated'
  rdp = known['solutions']['rdp']
  # No chance helps: three participations at noise 8 are no better than a Gaussian of
  # 8 / sqrt(3), but for what coarse numbers cost hardly worse.
  theirs = dp_accounting.rdp.RdpAccountant()
  theirs.compose(dp_accounting.GaussianDpEvent(8 / 3**0.5))
  assert 0 < rdp['epsilon'] - theirs.get_epsilon(1e-5) < 0.02
  # A trifle more, since how finely updates are rounded depends on the cohort.
  target = 1.001 * rdp['epsilon']
  # With cohorts of 119 users come back after 84 rounds, and still three times in 250;
  # cohorts of 100 come back after 100, so that 300 rounds cost what 250 do.
  for unknown, found in (('noise_multiplier', 8.0), ('cohort', 119), ('rounds', 300)):
    kept = {**given, 'epsilon': target, unknown: None}
    solved = answer(capsys, **kept)['solutions']['rdp']
    assert solved['epsilon'] <= target
    assert solved[unknown] == pytest.approx(found, rel=2e-3)


def test_reports_behind_a_shuffler_are_planned(capsys):
  given = {'algo': 'rr_ldp', 'cohort': 2000, 'rounds': 10}
  known = answer(capsys, **given, report_epsilon=2.0)
  found = known['solutions']['shuffling']
  # Two reports of each user.
  assert found['epsilon'] < 1 < found['local_epsilon'] <= 4
  solved = answer(capsys, **given, epsilon=found['epsilon'])['solutions']['shuffling']
  assert solved['report_epsilon'] == pytest.approx(2.0, rel=2e-3)
  longer = answer(
    capsys, algo='rr_ldp', cohort=2000, report_epsilon=2.0, epsilon=found['epsilon']
  )
  assert longer['solutions']['shuffling']['rounds'] == 10


def test_what_a_mechanism_is_not_planned_by_is_refused():
  with pytest.raises(IncompatibleSettingsError, match='planned by --report_epsilon'):
    plan.main(plan.PlanSettings(**SMALL, algo='rr_ldp', noise_multiplier=1.0))
  with pytest.raises(IncompatibleSettingsError, match='planned by --noise_multiplier'):
    plan.main(plan.PlanSettings(**SMALL, report_epsilon=1.0))
  with pytest.raises(IncompatibleSettingsError, match='for a given --cohort'):
    plan.main(
      plan.PlanSettings(
        **SMALL, algo='rr_ldp', report_epsilon=1.0, epsilon=1.0, rounds=9
      )
    )
  with pytest.raises(SettingsError, match='--algo=fed_att has default'):
    plan.main(plan.PlanSettings(**SMALL, algo='fed_att', mechanism='distributed'))


def test_the_table_marks_the_solution_and_names_the_missing_accountant(capsys):
  settings = plan.PlanSettings(
    **SMALL, noise_multiplier=1.5, cohort=100, rounds=50, sampling='fixed'
  )
  assert plan.main(settings) == 0
  lines = capsys.readouterr().out.splitlines()
  (marked,) = [line for line in lines if 'solved for' in line]
  assert marked.startswith('epsilon')
  assert 'PLD: not available' in lines[-1]


@pytest.mark.parametrize(
  ('given', 'left_out'),
  [
    ({'epsilon': 2.0}, '--noise_multiplier, --cohort, --rounds'),
    ({'epsilon': 2.0, 'noise_multiplier': 1.0, 'cohort': 9, 'rounds': 9}, 'none'),
  ],
)
def test_anything_but_one_unknown_is_refused(given, left_out):
  with pytest.raises(IncompatibleSettingsError, match=f'left out: {left_out}$'):
    plan.main(plan.PlanSettings(**SMALL, **given))


def test_a_cohort_larger_than_the_population_is_refused():
  with pytest.raises(IncompatibleSettingsError, match='--cohort=20000'):
    plan.main(plan.PlanSettings(**SMALL, cohort=20_000, rounds=1, epsilon=1.0))


def test_a_mechanism_without_these_quantities_is_not_planned_as_another():
  given = {'noise_multiplier': 1.5, 'cohort': 100, 'rounds': 50}
  with pytest.raises(PrivacyError, match='to solve for'):
    plan.main(plan.PlanSettings(**SMALL, **given, algo='fed_avg'))


@pytest.mark.parametrize(
  'asked',
  [
    {'noise_multiplier': 2.0},
    {'noise_multiplier': 4.0, 'algo': 'dp_ftrl'},
    {'noise_multiplier': 8.0, 'mechanism': 'distributed', 'num_coordinates': 1000},
    {'report_epsilon': 1.0, 'algo': 'rr_ldp'},
  ],
)
def test_the_trade_off_is_drawn(tmp_path, capsys, asked):
  picture = tmp_path / 'plan.png'
  plan.main(
    plan.PlanSettings(**SMALL, **asked, cohort=100, rounds=20, plot=str(picture))
  )
  assert picture.read_bytes().startswith(b'\x89PNG')
  assert str(picture) in capsys.readouterr().err


def test_a_plot_with_an_unknown_ending_is_refused():
  with pytest.raises(ValueError, match='--plot=plan.doc'):
    plan.PlanSettings(plot='plan.doc')


def test_the_command_line_answers_without_tensorflow():
  script = (
    'import sys; sys.modules["tensorflow"] = None\n'
    'sys.argv = ["plan", "--epsilon=2"]\n'
    'import runpy; runpy.run_module("tff_textpriv.tools.plan", run_name="__main__")'
  )
  done = subprocess.run(
    [sys.executable, '-c', script], capture_output=True, text=True, check=False
  )
  assert done.returncode == 2
  assert done.stderr.startswith('error: give three of --epsilon')


@pytest.mark.parametrize(('delta', 'refused'), [(1e-4, True), (0.9e-4, False)])
def test_a_delta_that_no_run_would_claim_is_named(capsys, delta, refused):
  settings = plan.PlanSettings(
    population=10_000, delta=delta, noise_multiplier=1.5, cohort=100, rounds=50
  )
  assert plan.main(settings) == 0
  assert ('must be below 1/10,000' in capsys.readouterr().out) == refused


def test_trust_models_are_compared_at_a_delta_that_a_run_would_claim(
  capsys, monkeypatch
):
  models = {model.name: model for model in comparison.TRUST_MODELS}
  chosen = tuple(models[name] for name in ('local PrivUnitG', 'local bits'))
  monkeypatch.setattr(comparison, 'TRUST_MODELS', chosen)
  place = {'population': 1_000_000, 'cohort': 5_000, 'rounds': 300}
  assert plan.main(plan.PlanSettings(**place, compare=True)) == 0
  out = capsys.readouterr().out
  assert 'delta 1e-07' in out
  assert 'local PrivUnitG' in out
  with pytest.raises(SettingsError, match='must be below 1/1,000,000'):
    plan.main(plan.PlanSettings(**place, compare=True, delta=1e-6))
