"""Noise that clients add to secure sums: its law, what it costs, and its card."""

import dataclasses
import math

import numpy as np
import pytest
from dp_accounting import rdp
from scipy import special, stats

from tff_textpriv import randomness
from tff_textpriv.privacy import card, device_noise, secure_sum
from tff_textpriv.privacy.costs import Cost
from tff_textpriv.privacy.device_noise import DISCRETE_GAUSSIAN, SKELLAM
from tff_textpriv.privacy.distributed_settings import DistributedPrivacySettings
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.ledger import Ledger
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.privacy.secure_sum_cost import SecureSumRounds
from tff_textpriv.settings import SettingsError

_DEPLOYMENT = Deployment(
  'separated',
  population=1_000_000,
  cohort=5_000,
  rounds=300,
  separation=200,
  stream=randomness.Stream.of_seed(0),
  num_coordinates=365_588,
)


def _plan(deployment=_DEPLOYMENT, **flags):
  return DistributedPrivacySettings(**{'target_epsilon': 2.0, **flags}).mechanism(
    deployment
  )


def _law(name, variance, clients=1):
  """Returns the numbers and probabilities of a sum of clients' noise, in double precision."""
  reach = math.ceil(16 * math.sqrt(clients * variance) + 40)
  numbers = np.arange(-reach, reach + 1)
  if name == SKELLAM:
    return numbers, special.ive(np.abs(numbers), clients * variance)
  weights = np.exp(-(numbers**2) / (2 * variance))
  one = total = weights / weights.sum()
  for _ in range(clients - 1):
    total = np.convolve(total, one, mode='same')
  return numbers, total


def _divergence(law, shift, order):
  """Returns the Renyi divergence of a law from itself, moved."""
  moved, fixed = law[shift:], law[:-shift]
  there = (moved > 1e-250) & (fixed > 1e-250)
  logs = order * np.log(moved[there]) + (1 - order) * np.log(fixed[there])
  return special.logsumexp(logs) / (order - 1)


def _bound(lines, order):
  return min(line.slope * order + line.constant for line in lines)


@pytest.mark.parametrize('name', device_noise.LAWS)
@pytest.mark.parametrize('variance', [0.1, 0.5, 2.0, 30.0])
@pytest.mark.parametrize('clients', [1, 2, 7])
def test_divergences_are_never_above_their_bounds(name, variance, clients):
  _, law = _law(name, variance, clients)
  for shift in (1, 2, 5):
    lines = device_noise.lines(name, variance, clients, shift, shift, 1)
    for order in (2, 3, 8):
      exact = _divergence(law, shift, order)
      assert exact <= _bound(lines, order) * (1 + 1e-9)


def test_bounds_that_are_too_low_would_be_exceeded():
  # A sum of discrete Gaussians tells more than one of the same variance does.
  _, law = _law(DISCRETE_GAUSSIAN, 0.1, clients=7)
  assert _divergence(law, shift=2, order=8) > 1.1 * 8 * 2**2 / (2 * 7 * 0.1)
  # With a twentieth more noise than there is, Skellam sums would be thought to tell less.
  _, law = _law(SKELLAM, 3000.0)
  lines = device_noise.lines(SKELLAM, 1.05 * 3000.0, 1, 20, 20, 1)
  assert _divergence(law, shift=20, order=8) > _bound(lines, 8)


@pytest.mark.parametrize('name', device_noise.LAWS)
@pytest.mark.parametrize('variance', [0.01, 0.3, 4.0, 900.0, 40_000.0])
def test_tables_have_the_probabilities_of_the_law(name, variance):
  tables = device_noise.DeviceNoise(name, variance).tables()
  width = 1 << tables.strip_bits
  numbers = (tables.starts[:, None] + np.arange(width)).ravel()
  keeps = np.exp(
    np.repeat(tables.log_keeps, width) - tables.curvature * numbers.astype(float) ** 2
  )
  assert keeps.max() <= 1 + 1e-12
  found = np.zeros(numbers.max() - numbers.min() + 1)
  np.add.at(found, numbers - numbers.min(), keeps / (2**16 * width))
  # The share of draws that are kept, and the law of those.
  assert found.sum() == pytest.approx(tables.kept, rel=1e-9)
  found /= found.sum()
  wanted = _law(name, variance)
  near = np.abs(wanted[0]) <= min(6 * math.sqrt(variance) + 2, found.size // 2)
  places = wanted[0][near] - numbers.min()
  assert found[places] == pytest.approx(wanted[1][near], rel=1e-9, abs=1e-30)


@pytest.mark.parametrize('name', device_noise.LAWS)
@pytest.mark.parametrize('bits', ['16', '32'])
def test_the_least_noise_keeps_within_the_target(name, bits):
  plan = _plan(device_noise=name, modular_bits=bits)
  assert plan.participations == 2
  assert plan.cost.epsilon(300, plan.delta) <= 2.0
  less = dataclasses.replace(plan, noise_multiplier=plan.noise_multiplier * 0.999)
  assert less.cost.epsilon(300, plan.delta) > 2.0


def test_with_fine_whole_numbers_it_costs_what_a_gaussian_does():
  plan = _plan(missing_share=0.0)
  orders = np.arange(2, 257)
  gaussian = rdp.compute_epsilon(
    orders, 2 * orders / (2 * plan.noise_multiplier**2), plan.delta
  )[0]
  # The clip norm is a little less than what is accounted for, see `loss`.
  assert plan.cost.epsilon(300, plan.delta) == pytest.approx(gaussian, rel=0.002)
  assert plan.code.loss < 0.001


def test_a_user_pays_for_the_rounds_in_which_it_can_take_part():
  cost = _plan().cost
  assert cost.epsilon(0, 1e-7) == 0
  assert cost.epsilon(1, 1e-7) == cost.epsilon(200, 1e-7)
  assert cost.epsilon(201, 1e-7) > cost.epsilon(200, 1e-7)
  assert cost.epsilon(300, 1e-30) == math.inf  # The draws are not that precise.


def test_noise_that_may_be_missing_is_added_by_the_others():
  all_there, some_missing = _plan(missing_share=0.0), _plan(missing_share=0.5)
  assert some_missing.counted_clients == 2_500
  # The figure needs as much, of half as many.
  assert some_missing.noise_multiplier == pytest.approx(
    all_there.noise_multiplier, rel=1e-3
  )
  for plan in (all_there, some_missing):
    counted = plan.counted_clients * plan.client_noise().variance
    assert counted == pytest.approx((plan.noise_multiplier * plan.code.clip) ** 2)


def test_small_cohorts_count_on_fewer_by_default():
  small = dataclasses.replace(_DEPLOYMENT, population=3_000, cohort=100, separation=30)
  assert _plan(small).missing_share == pytest.approx(0.3)
  assert _plan().missing_share == pytest.approx(0.1)


def test_a_sum_leaves_its_range_less_often_than_is_said():
  # Against exact tails of Skellam noise alone, whatever the clip norm.
  code = secure_sum.fitting(1, 16, cohort=1, noise=50.0)
  variance = (50.0 * code.clip) ** 2
  beyond = 2 * stats.skellam.sf(2**15 - 1 - code.clip, variance / 2, variance / 2)
  assert beyond <= secure_sum.OVERFLOW
  # A clip norm that is twice as large would be caught.
  beyond = 2 * stats.skellam.sf(2**15 - 1, 2 * variance, 2 * variance)
  assert beyond > secure_sum.OVERFLOW


def test_too_few_bits_are_refused_with_the_numbers():
  many = dataclasses.replace(
    _DEPLOYMENT, population=10**9, cohort=10**8, num_coordinates=1_000
  )
  with pytest.raises(
    PrivacyError, match='--modular_bits=16 cannot hold the sum of 100,000,000'
  ):
    _plan(many, modular_bits='16')


def test_what_cannot_be_promised_is_refused():
  with pytest.raises(SettingsError, match='noise_multiplier'):
    _plan(target_epsilon=None, noise_multiplier=0.0)
  with pytest.raises(PrivacyError, match='separated'):
    _plan(dataclasses.replace(_DEPLOYMENT, sampling='poisson'))
  plan = _plan()
  plan.check_sampling('separated', 200)
  with pytest.raises(PrivacyError, match='come back after 199'):
    plan.check_sampling('separated', 199)
  with pytest.raises(PrivacyError, match='poisson'):
    plan.check_sampling('poisson')


def test_costs_are_read_back_and_broken_ones_refused():
  cost = _plan().cost
  assert Cost.from_json(cost.to_json()) == cost
  with pytest.raises(PrivacyError):
    dataclasses.replace(cost, clients=0)
  with pytest.raises(PrivacyError):
    SecureSumRounds(SKELLAM, math.nan, 1, 1, 1, 1)


def test_the_simulation_adds_noise_to_scale():
  small = dataclasses.replace(_DEPLOYMENT, population=400, cohort=20, separation=20)
  plan = _plan(small, accounted_population=1_000_000, accounted_cohort=5_000)
  assert plan.is_scaled and plan.fewest_clients == 0
  assert plan.noise_multiplier == pytest.approx(_plan().noise_multiplier)
  counted = 18 * plan.client_noise().variance  # 20 clients less a tenth.
  wanted = plan.noise_multiplier * plan.code.clip * 20 / 5_000
  assert math.sqrt(counted) == pytest.approx(wanted)
  own = plan.of_simulation()
  assert own.cost.epsilon(300, plan.delta) > 10


def _card(plan, rounds=300):
  ledger = Ledger.of(plan)
  for _ in range(rounds):
    ledger.charge(plan)
  sent = [('update', 4), ('present', 4)]
  return card.privacy_card(ledger, plan, task='t', algo='a', facts={}, sent=sent)


def test_the_card_says_what_is_trusted_and_what_is_simulated():
  plan = _plan(noise_source='system')
  made = _card(plan)
  assert made['epsilon'] == pytest.approx(2.0, abs=1e-5)
  assert made['formal_guarantee'] and made['of_this_model']
  assert all(item['covered'] for item in made['leaves_device'])
  text = str(made['blocks'])
  assert 'Secure aggregation is simulated by a plain sum' in text
  assert 'Proposition 14' in text
  assert 'against the server' in made['threat_model']
  assert made['plan']['counted_clients'] == 4_500
  # Its training metrics would tell the server more than sums of updates.
  assert not any('Training metrics' in line for line in made['not_covered'])


def test_the_ledger_refuses_a_round_beyond_the_budget():
  plan = _plan()
  ledger = Ledger.of(plan)
  for _ in range(400):  # Two participations of 200 rounds each.
    ledger.charge(plan)
  with pytest.raises(PrivacyError, match='exceed the budget'):
    ledger.charge(plan)


def test_a_comparison_claims_nothing():
  made = _card(_plan(privacy_claim=False), rounds=3)
  assert not made['formal_guarantee']
  assert made['epsilon'] is None
  assert made['threat_model'].startswith('None')
