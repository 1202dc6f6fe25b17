"""Plans: arithmetic of noise, and promises that are refused."""

import dataclasses
import math

import dp_accounting
import numpy as np
import pytest
import sample_plan
import tensorflow as tf

from tff_textpriv import randomness
from tff_textpriv.privacy import accountants
from tff_textpriv.privacy.adaptive_clipping import AdaptiveClipping
from tff_textpriv.privacy.central import CentralGaussian
from tff_textpriv.privacy.central_settings import CentralPrivacySettings
from tff_textpriv.privacy.costs import ADD_OR_REMOVE_ONE, REPLACE_ONE
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.settings import SettingsError


def plan_of(*, sampling='poisson', population=300, cohort=20, rounds=50, **flags):
  return CentralPrivacySettings(**flags).mechanism(
    Deployment(
      sampling, population, cohort, rounds, stream=randomness.Stream.of_seed(3)
    )
  )


def test_target_epsilon_alone_calibrates_noise_for_the_planned_rounds():
  plan = plan_of(target_epsilon=2.0, delta=1e-4)
  spent = accountants.epsilon_of_rounds(plan.cost, 50, 1e-4, 'pld')
  assert 1.999 < spent <= 2.0
  by_rdp = plan_of(target_epsilon=2.0, delta=1e-4, accountant='rdp')
  assert by_rdp.noise_multiplier > plan.noise_multiplier
  assert plan.budget_epsilon == 2.0


def test_noise_alone_is_kept_and_has_no_budget():
  plan = plan_of(noise_multiplier=0.7)
  assert plan.noise_multiplier == 0.7
  assert plan.budget_epsilon is None


def test_noise_and_epsilon_together_keep_the_noise_and_make_a_budget():
  plan = plan_of(noise_multiplier=0.7, target_epsilon=3.0)
  assert plan.noise_multiplier == 0.7
  assert plan.budget_epsilon == 3.0


def test_poisson_plan_samples_under_add_or_remove():
  plan = plan_of(noise_multiplier=1.2)
  assert plan.cost.relation is ADD_OR_REMOVE_ONE
  assert plan.cost.event() == dp_accounting.PoissonSampledDpEvent(
    20 / 300, dp_accounting.GaussianDpEvent(1.2)
  )


def test_fixed_plan_samples_under_replacement_with_half_the_noise():
  plan = plan_of(noise_multiplier=1.2, sampling='fixed')
  assert plan.cost.relation is REPLACE_ONE
  assert plan.cost.event() == dp_accounting.SampledWithoutReplacementDpEvent(
    300, 20, dp_accounting.GaussianDpEvent(0.6)
  )


def test_noise_on_the_simulated_sum_is_scaled_to_the_accounted_mean():
  plan = plan_of(
    noise_multiplier=0.8,
    clip=0.5,
    accounted_population=10_000_000,
    accounted_cohort=20_000,
  )
  assert plan.is_scaled
  # 0.8 * 0.5 = 0.4 on a sum over 20,000, so 0.4 * 20 / 20,000 on a sum over 20.
  assert plan.sum_stddev(plan.clip) == pytest.approx(0.0004)
  assert plan.mean_denominator == 20
  accounted = 0.8 * 0.5 / 20_000
  assert plan.sum_stddev(0.5) / plan.mean_denominator == pytest.approx(accounted)
  assert plan.cost.cohort / plan.cost.population == 0.002


def test_without_accounted_sizes_the_noise_is_that_of_the_run():
  plan = plan_of(noise_multiplier=0.8, clip=0.5)
  assert not plan.is_scaled
  assert plan.sum_stddev(0.5) == pytest.approx(0.4)
  assert plan.count_stddev == 0


def test_adaptive_clipping_takes_its_share_of_the_noise():
  plan = plan_of(noise_multiplier=1.0, adaptive_clipping=True)
  # The count noise is 20 / 20 = 1 on bits of sensitivity 0.5: multiplier 2.
  assert plan.adaptive == AdaptiveClipping(0.5, 0.2, 1.0)
  assert plan.update_noise_multiplier == pytest.approx((1 - 1 / 4) ** -0.5)
  assert plan.sum_stddev(3.0) == pytest.approx(3 * (4 / 3) ** 0.5)
  assert plan.count_stddev == pytest.approx(1.0)


def test_update_and_count_together_cost_what_the_plan_charges():
  plan = plan_of(noise_multiplier=1.0, adaptive_clipping=True)
  parts = (plan.update_noise_multiplier, plan.adaptive.count_noise_multiplier)

  def epsilon(event):
    return accountants.epsilon(event, 1e-6, ADD_OR_REMOVE_ONE, 'rdp')

  both = dp_accounting.PoissonSampledDpEvent(
    20 / 300,
    dp_accounting.ComposedDpEvent(
      tuple(dp_accounting.GaussianDpEvent(noise) for noise in parts)
    ),
  )
  assert epsilon(both) == pytest.approx(epsilon(plan.cost.event()), rel=1e-9)
  assert sum(noise**-2 for noise in parts) == pytest.approx(1.0)


def test_count_noise_is_scaled_like_the_update_noise():
  plan = plan_of(
    noise_multiplier=1.0,
    adaptive_clipping=True,
    accounted_population=10_000,
    accounted_cohort=400,
  )
  # 400 / 20 on the accounted cohort, times 20 / 400.
  assert plan.count_stddev == pytest.approx(1.0)


def test_no_noise_is_a_plan_that_promises_nothing():
  plan = plan_of(noise_multiplier=0.0, clip=math.inf)
  assert 'no noise' in plan.no_guarantee_reason
  assert plan.sum_stddev(plan.clip) == 0
  assert plan.cost.event() == dp_accounting.NonPrivateDpEvent()
  assert any('No formal privacy guarantee' in w for w in plan.warnings)


def test_a_comparison_keeps_the_mechanism_and_drops_the_claim():
  plan = plan_of(target_epsilon=2.0, privacy_claim=False)
  assert plan.noise_multiplier > 0
  assert '--privacy_claim=false' in plan.no_guarantee_reason


@pytest.mark.parametrize('delta', [1 / 300, 0.01, 0.1])
def test_a_delta_too_large_for_the_population_is_not_claimed(delta):
  with pytest.raises(
    SettingsError, match='must be below one over the population, 1/30'
  ):
    plan_of(noise_multiplier=1, delta=delta)
  plan = plan_of(noise_multiplier=1, delta=delta, privacy_claim=False)
  assert plan.no_guarantee_reason is not None
  assert plan_of(noise_multiplier=1, delta=1e-3).warnings == ()


@pytest.mark.parametrize(
  ('population', 'delta'),
  [(300, 1e-6), (100_000, 1e-6), (1_000_000, 1e-7), (10_000_000, 1e-8)],
)
def test_delta_is_by_default_a_tenth_of_one_over_the_population_at_most(
  population, delta
):
  plan = plan_of(noise_multiplier=1, accounted_population=population)
  assert plan.delta == pytest.approx(delta) and plan.delta <= 0.1 / population


def test_what_users_report_before_is_part_of_the_target():
  deployment = Deployment('poisson', 300, 20, 50, spent_besides=3.0)
  left = CentralPrivacySettings(target_epsilon=5.0).mechanism(deployment)
  alone = plan_of(target_epsilon=2.0)
  assert left.noise_multiplier == pytest.approx(alone.noise_multiplier, rel=1e-6)
  assert left.budget_epsilon == 5.0
  others = dataclasses.replace(deployment, spent_besides=0, spent_elsewhere=3.0)
  apart = CentralPrivacySettings(target_epsilon=5.0).mechanism(others)
  assert apart.noise_multiplier < left.noise_multiplier
  for spent in (deployment, others):
    with pytest.raises(SettingsError, match='of which users spend 3 before the first'):
      CentralPrivacySettings(target_epsilon=2.0).mechanism(spent)


def test_a_scaled_plan_says_so():
  (warning,) = plan_of(noise_multiplier=1, accounted_population=1000).warnings
  assert 'does not itself carry the guarantee' in warning


@pytest.mark.parametrize(
  ('flags', 'words'),
  [
    ({}, ('--target_epsilon', '--noise_multiplier')),
    (
      {'noise_multiplier': 1.0, 'client_weighting': 'examples'},
      ('--client_weighting=examples', 'sensitivity'),
    ),
    (
      {'noise_multiplier': 1.0, 'accounted_cohort': 301},
      ('--accounted_cohort=301', '--accounted_population', '300'),
    ),
    ({'noise_multiplier': 1.0, 'clip': math.inf}, ('--clip', 'not clipped')),
    ({'target_epsilon': 1.0, 'clip': math.inf}, ('--clip', 'not clipped')),
    (
      {'noise_multiplier': 0.0, 'target_epsilon': 1.0},
      ('--noise_multiplier=0.0', '--target_epsilon=1'),
    ),
    (
      {'noise_multiplier': 1.0, 'accountant': 'pld', 'sampling': 'fixed'},
      ('--accountant=pld', '--accountant=rdp', 'Poisson'),
    ),
    (
      {'noise_multiplier': 1.0, 'cohort': 301},
      ('--clients_per_round=301', '300'),
    ),
    (
      {'noise_multiplier': 2.0, 'adaptive_clipping': True},
      ('--adaptive_clipping', 'larger (accounted) cohort'),
    ),
    (
      {'noise_multiplier': 0.0, 'adaptive_clipping': True, 'clip': math.inf},
      ('--adaptive_clipping', 'finite --clip'),
    ),
    ({'noise_multiplier': 1.0, 'rounds': 0}, ('--total_rounds=0',)),
    ({'noise_multiplier': 1.0, 'sampling': 'shuffled'}, ("'shuffled'", 'poisson')),
  ],
)
def test_a_false_promise_is_refused_with_the_flag_to_change(flags, words):
  with pytest.raises((SettingsError, PrivacyError)) as caught:
    plan_of(**flags)
  for word in words:
    assert word in str(caught.value)


@pytest.mark.parametrize(
  ('name', 'value'),
  [
    ('clip', 0.0),
    ('clip', math.nan),
    ('noise_multiplier', -1.0),
    ('noise_multiplier', math.inf),
    ('target_epsilon', 0.0),
    ('delta', 1.0),
    ('accountant', 'moments'),
    ('clip_quantile', 1.0),
    ('noise_source', 'dice'),
  ],
)
def test_a_value_out_of_range_names_its_flag(name, value):
  with pytest.raises(SettingsError, match=f'--{name}='):
    CentralPrivacySettings(**{name: value})


def test_pld_accounts_a_fixed_cohort_of_everybody():
  plan = plan_of(noise_multiplier=1.0, accountant='pld', sampling='fixed', cohort=300)
  assert plan.cost.event() == dp_accounting.GaussianDpEvent(0.5)


def test_a_plan_made_by_hand_is_checked_too():
  plan = plan_of(noise_multiplier=1.0)
  with pytest.raises(PrivacyError, match='not clipped'):
    dataclasses.replace(plan, clip=math.inf)
  assert isinstance(dataclasses.replace(plan, clip=1.0), CentralGaussian)


def test_the_seed_of_the_run_is_that_of_the_noise():
  assert plan_of(noise_multiplier=1.0).stream == randomness.Stream.of_seed(3)


def test_without_a_stream_seeded_noise_is_that_of_seed_0_and_system_noise_is_new():
  deployment = Deployment('poisson', 100, 10, 5)
  seeded, system, another = (
    CentralPrivacySettings(noise_multiplier=1.0, noise_source=source)
    .mechanism(deployment)
    .stream
    for source in ('seeded', 'system', 'system')
  )
  assert seeded == randomness.Stream.of_seed(0)
  assert system != another and seeded not in (system, another)


def test_no_two_rounds_have_the_same_noise_and_a_plan_knows_no_more_of_them():
  plan = dataclasses.replace(sample_plan.PLAN, rounds=2000)
  seeds = plan.round_seeds()
  assert seeds.shape == (2000, 2) and seeds.dtype == np.int64
  assert len(np.unique(seeds, axis=0)) == 2000


def test_rounds_that_shared_their_noise_by_32_bits_do_not_any_more():
  def folded(number):
    seed = tf.constant([0, number], tf.int32)
    return tuple(tf.random.experimental.stateless_fold_in(seed, 0).numpy())

  assert folded(8026) == folded(122985)  # How it was done.
  stream = sample_plan.PLAN.stream
  assert (stream.words('noise', 8026) != stream.words('noise', 122985)).all()


def test_noise_that_hides_nobody_is_no_guarantee():
  assert (
    dataclasses.replace(sample_plan.PLAN, noise_multiplier=0.01).no_guarantee_reason
    is None
  )
  reason = dataclasses.replace(
    sample_plan.PLAN, noise_multiplier=1e-3
  ).no_guarantee_reason
  assert reason == 'noise multiplier 0.001 hides nobody'


def test_of_users_dealt_into_halves_a_half_is_accounted():
  settings = CentralPrivacySettings(
    noise_multiplier=1.0, accounted_population=1001, accounted_cohort=40
  )
  plan = settings.mechanism(Deployment('poisson', 150, 20, 50, parts=2))
  assert (plan.population, plan.cohort) == (500, 40)
  # Those of the simulation have been dealt already.
  assert plan.simulated_population == 150


def test_cohorts_that_are_drawn_otherwise_than_accounted_are_refused():
  plan = plan_of(noise_multiplier=1.0)
  plan.check_sampling('poisson')
  with pytest.raises(PrivacyError, match='fixed sampling.*poisson sampling'):
    plan.check_sampling('fixed')


def test_the_plan_of_the_simulation_has_its_own_sizes_and_noise():
  adaptive = AdaptiveClipping(0.5, 0.2, count_stddev=1000.0)
  plan = dataclasses.replace(
    sample_plan.PLAN,
    population=10**7,
    cohort=20_000,
    adaptive=adaptive,
    budget_epsilon=2.0,
  )
  own = plan.of_simulation()
  assert (own.population, own.cohort, own.is_scaled) == (1000, 20, False)
  # The noise that is added is the same.
  assert own.sum_stddev(0.5) == pytest.approx(plan.sum_stddev(0.5))
  assert own.count_stddev == pytest.approx(plan.count_stddev)
  assert dataclasses.replace(own, budget_epsilon=2.0).of_simulation() == own
