"""Reports behind a shuffler, against every crowd of a few users, counted out."""

import dataclasses
import itertools
import json
import math
import pathlib
import re
import time

import numpy as np
import pytest
from scipy import stats

from tff_textpriv.privacy import (
  card,
  card_blocks,
  card_page,
  errors,
  ledger,
  randomized_bits,
  randomized_response,
  shuffling,
)
from tff_textpriv.privacy.mechanism import Deployment

_DELTAS = (0.2, 0.05, 0.01, 1e-3, 1e-5)
_EPSILONS = (0.3, 1.0, 2.0)


# Local randomizers, [inputs, outputs]: each of a pure local epsilon as a whole.


def _response(epsilon, num_values):
  """Returns randomized response over some values."""
  laws = 1 + (math.exp(epsilon) - 1) * np.eye(num_values)
  return laws / laws.sum(axis=1, keepdims=True)


def _sampled_bit(epsilon, num_coordinates):
  """Returns one randomized bit of a coordinate that is drawn, and which one it is."""
  keep = math.exp(epsilon) / (1 + math.exp(epsilon))
  inputs = itertools.product((0, 1), repeat=num_coordinates)
  return np.array(
    [
      [
        (keep if bit == value else 1 - keep) / num_coordinates
        for bit in data
        for value in (0, 1)
      ]
      for data in inputs
    ]
  )


def _two_bits(epsilon):
  """Returns two bits that share the epsilon."""
  bit = _response(epsilon / 2, 2)
  return np.kron(bit, bit)


def _mostly_the_same(epsilon):
  """Returns reports that seldom tell the first two inputs apart.

  What these two report most often, the third reports as seldom as it may.
  """
  p = math.exp(epsilon)
  telling, same = 0.3 / (p + 2), 0.7 / (p + 1)
  rest = telling + same
  return np.array(
    [
      [p * telling, telling, p * same, rest],
      [telling, p * telling, p * same, rest],
      [telling, telling, same, p * rest],
    ]
  )


def _local_epsilon(laws):
  """Returns the local epsilon of a randomizer."""
  return float(np.max(np.log(laws[:, None, :] / laws[None, :, :])))


def _shuffled(laws, inputs):
  """Returns the law of a histogram of reports, by its counts."""
  law = {(0,) * laws.shape[1]: 1.0}
  for value in inputs:
    grown = {}
    for counts, mass in law.items():
      for output, probability in enumerate(laws[value]):
        key = (*counts[:output], counts[output] + 1, *counts[output + 1 :])
        grown[key] = grown.get(key, 0.0) + mass * probability
    law = grown
  return law


def _pairs(laws, reports):
  """Yields the two laws of what is seen, for all data of the others and of the user."""
  inputs = range(len(laws))
  for others in itertools.combinations_with_replacement(inputs, reports - 1):
    seen = [_shuffled(laws, (*others, value)) for value in inputs]
    keys = list(seen[0])
    tables = [np.array([law[key] for key in keys]) for law in seen]
    yield from itertools.permutations(tables, 2)


def _delta(pair, epsilon):
  """Returns the delta of two laws at an epsilon."""
  return float(np.sum(np.maximum(pair[0] - math.exp(epsilon) * pair[1], 0.0)))


def _is_broken(bound, laws, reports, participations=1):
  """Tells whether some crowd tells more about a user than the bound says."""
  local = _local_epsilon(laws)
  for pair in _pairs(laws, reports):
    composed = pair
    for _ in range(participations - 1):
      composed = [
        np.outer(so_far, again).ravel()
        for so_far, again in zip(composed, pair, strict=True)
      ]
    for delta in _DELTAS:
      epsilon = bound(local, reports, participations, delta)
      if _delta(composed, epsilon) > delta * (1 + 1e-9):
        return True
  return False


def _twin(hiding):
  """Returns a bound with another probability that a report hides another one."""

  def bound(local_epsilon, reports, participations, delta):
    probability = min(1.0, hiding(local_epsilon))
    return shuffling._epsilon(
      local_epsilon, reports, participations, delta, probability
    )

  return bound


_REPORTS = {
  'one bit': lambda epsilon: _response(epsilon, 2),
  'one of three values': lambda epsilon: _response(epsilon, 3),
  'one of four values': lambda epsilon: _response(epsilon, 4),
  'one of two coordinates': lambda epsilon: _sampled_bit(epsilon, 2),
  'two bits': _two_bits,
  'mostly the same': _mostly_the_same,
}


@pytest.mark.parametrize('kind', _REPORTS)
@pytest.mark.parametrize('epsilon', _EPSILONS)
def test_no_crowd_of_a_few_users_tells_more_than_the_bound(kind, epsilon):
  laws = _REPORTS[kind](epsilon)
  assert _local_epsilon(laws) <= epsilon + 1e-12
  for reports in range(1, 7 if len(laws) < 4 else 5):
    assert not _is_broken(shuffling.epsilon_of_reports, laws, reports)


@pytest.mark.parametrize('epsilon', _EPSILONS)
def test_no_crowd_tells_more_about_one_bit_than_its_own_bound(epsilon):
  for reports in range(1, 8):
    bit = _response(epsilon, 2)
    assert not _is_broken(shuffling.epsilon_of_bits, bit, reports)
  # The user's two data may differ in all coordinates, or in some.
  for coordinates, most in ((2, 5), (3, 3)):
    for reports in range(1, most + 1):
      bits = _sampled_bit(epsilon, coordinates)
      assert not _is_broken(shuffling.epsilon_of_bits, bits, reports)


@pytest.mark.parametrize(
  'kind', ['one bit', 'one of three values', 'one of two coordinates']
)
@pytest.mark.parametrize(
  'hiding',
  [
    lambda epsilon: 2 * math.exp(-epsilon),
    lambda epsilon: math.exp(epsilon),
    lambda epsilon: 3 / (math.exp(epsilon) + 1),
  ],
  ids=['twice as many clones', 'e^+epsilon', 'half as much blanket again'],
)
def test_a_bound_that_counts_on_too_many_is_caught(kind, hiding):
  for reports in (3, 4, 5):
    assert any(
      _is_broken(_twin(hiding), _REPORTS[kind](epsilon), reports)
      for epsilon in _EPSILONS
    )


def _of_one_round(local_epsilon, reports, participations, delta):
  del participations
  return shuffling.epsilon_of_reports(local_epsilon, reports, 1, delta)


@pytest.mark.parametrize('kind', ['one bit', 'one of three values'])
def test_no_crowd_tells_more_in_two_rounds_than_the_bound(kind):
  for epsilon in _EPSILONS:
    laws = _REPORTS[kind](epsilon)
    for reports in (2, 3, 4):
      assert not _is_broken(shuffling.epsilon_of_reports, laws, reports, 2)
  # One round's figure is not that of two.
  assert _is_broken(_of_one_round, _response(1.0, 2), 3, 2)


def _direct_delta(local_epsilon, reports, hiding, epsilon):
  """Sums the two laws outcome by outcome, without crowds, tails or a grid."""
  p = math.exp(local_epsilon)
  total = 0.0
  for crowd in range(reports):
    zeros = np.arange(crowd + 2)
    zero, one = (stats.binom.pmf(zeros - own, crowd, 0.5) for own in (1, 0))
    pair = ((p * zero + one) / (p + 1), (zero + p * one) / (p + 1))
    total += stats.binom.pmf(crowd, reports - 1, hiding) * _delta(pair, epsilon)
  return total


@pytest.mark.parametrize('local_epsilon', [0.5, 2.0, 4.0])
@pytest.mark.parametrize('reports', [2, 30, 1000])
def test_one_round_is_what_direct_summation_gives(local_epsilon, reports):
  for delta in (1e-2, 1e-6):
    for bound, hiding in (
      (shuffling.epsilon_of_reports, math.exp(-local_epsilon)),
      (shuffling.epsilon_of_bits, 2 / (1 + math.exp(local_epsilon))),
    ):
      found = bound(local_epsilon, reports, 1, delta)
      direct = _direct_delta(local_epsilon, reports, hiding, found)
      assert direct <= delta * (1 + 1e-9)
      if found > 0:  # And a figure a hundredth smaller would be wrong.
        assert _direct_delta(local_epsilon, reports, hiding, 0.99 * found) > delta


def test_the_figure_is_that_of_the_authors_own_program():
  # README of apple/ml-shuffling-amplification, at 3fde493: lower and upper bound.
  found = shuffling.epsilon_of_reports(4.0, 10**5, 1, 1e-6)
  assert 0.1675385583317841 < found < 0.172790550755978


def test_a_lone_report_costs_what_it_costs_locally():
  for participations in (1, 7):
    local = randomized_response.composed_epsilon(2.0, participations, 1e-6)
    for bound in (shuffling.epsilon_of_reports, shuffling.epsilon_of_bits):
      assert bound(2.0, 1, participations, 1e-6) == local
  assert shuffling.epsilon_of_reports(2.0, 1, 1, 0.0) == 2.0
  assert shuffling.epsilon_of_reports(2.0, 100, 0, 1e-6) == 0
  assert shuffling.epsilon_of_reports(0.0, 100, 5, 1e-6) == 0


def test_more_reports_smaller_epsilons_and_fewer_rounds_cost_less():
  crowds = [
    shuffling.epsilon_of_reports(3.0, n, 1, 1e-6)
    for n in (1, 2, 10, 100, 300, 1000, 3000, 10**4, 10**5, 10**6, 10**7)
  ]
  assert crowds == sorted(crowds, reverse=True) and crowds[-1] < crowds[0] / 100
  for n in (5, 1000, 10**6):
    by_epsilon = [
      shuffling.epsilon_of_reports(epsilon, n, 1, 1e-6)
      for epsilon in (0.01, 0.1, 0.5, 1, 2, 4, 8, 16, 32)
    ]
    assert by_epsilon == sorted(by_epsilon)
    by_rounds = [shuffling.epsilon_of_reports(1.0, n, k, 1e-6) for k in (1, 2, 10, 100)]
    assert by_rounds == sorted(by_rounds)


def test_one_bit_hides_better_than_any_report_of_its_epsilon():
  of_bits = shuffling.epsilon_of_bits(4.0, 10**5, 10, 1e-6)
  of_any = shuffling.epsilon_of_reports(4.0, 10**5, 10, 1e-6)
  # Nearly twice as many reports hide another: a factor of about the root of 2.
  assert of_any / of_bits == pytest.approx(math.sqrt(2), abs=0.05)


def test_a_report_that_tells_too_much_gains_nothing_and_takes_no_time():
  start = time.monotonic()
  for epsilon in (40.0, 5001.0, 1e6):
    local = randomized_response.composed_epsilon(epsilon, 25, 1e-6)
    assert shuffling.epsilon_of_reports(epsilon, 10**6, 25, 1e-6) == local
  assert time.monotonic() - start < 1


def test_the_local_epsilon_of_a_central_one_is_the_largest():
  for reports, participations in ((1, 1), (50, 3), (10**4, 1), (10**5, 100)):
    found = shuffling.local_epsilon_for(1.0, reports, participations, 1e-6)
    reached = shuffling.epsilon_of_reports(found, reports, participations, 1e-6)
    assert reached <= 1
    more = shuffling.epsilon_of_reports(1.002 * found, reports, participations, 1e-6)
    assert more > 1
  with pytest.raises(errors.PrivacyError, match='epsilon 0'):
    shuffling.local_epsilon_for(0, 10, 1, 1e-6)


@pytest.mark.parametrize(
  ('epsilon', 'reports'), [(-1.0, 5), (math.nan, 5), (math.inf, 5), (1.0, 0)]
)
def test_what_is_no_epsilon_or_crowd_is_refused(epsilon, reports):
  for bound in (shuffling.epsilon_of_reports, shuffling.epsilon_of_bits):
    with pytest.raises(errors.PrivacyError):
      bound(epsilon, reports, 1, 1e-6)


def test_a_crowd_that_comes_by_chance_is_counted_with_care():
  fixed = shuffling.Crowd('fixed', population=1000, cohort=100)
  assert fixed.counted_on(5, 1e-6) == (100, 1e-6)
  for sampling in ('poisson', 'separated'):
    crowd = shuffling.Crowd(sampling, population=1000, cohort=100)
    reports, left = crowd.counted_on(5, 1e-6)
    # Fewer others than that are so unlikely, in five rounds, as what is taken of delta.
    fewer = stats.binom.cdf(reports - 2, 999, 0.1)
    assert 5 * fewer <= 1e-6 - left <= 1e-9 * (1 + 1e-6)
    assert 20 < reports < 100
    assert 5 * stats.binom.cdf(reports - 1, 999, 0.1) > 1e-9
  drops = dataclasses.replace(fixed, device_failure_rate=0.2)
  reports, left = drops.counted_on(1, 1e-6)
  assert stats.binom.cdf(reports - 2, 99, 0.8) <= 1e-6 - left and 40 < reports < 80


def test_the_page_has_these_figures():
  page = pathlib.Path(__file__).parents[2] / 'docs' / 'rr_ldp.md'
  section = page.read_text().split('## Behind a shuffler')[1].split('\n## ')[0]
  rows = re.findall(r'^\| ([\d.]+) \| ([\d,]+) \| (\S+) \| (\S+) \|$', section, re.M)
  assert len(rows) == 7
  for local_epsilon, reports, *figures in rows:
    epsilon, crowd = float(local_epsilon), int(reports.replace(',', ''))
    assert figures == [
      card_blocks.figure(shuffling.epsilon_of_reports(epsilon, crowd, rounds, 1e-6))
      for rounds in (1, 25)
    ]


# The card.


def _made_card(settings, deployment, rounds=3):
  plan = settings.mechanism(deployment)
  spent = ledger.Ledger.of(plan)
  for _ in range(rounds):
    spent.charge(plan, ['ann'])
  made = card.privacy_card(spent, plan, task='imdb', algo='rr_ldp', facts={})
  json.dumps(made, allow_nan=False)
  return made, card_page.render(made)


_FEW_BITS = randomized_bits.LocalPrivacySettings(
  epsilon_per_coordinate=0.2, coordinates_per_client=20
)
_MANY_USERS = Deployment(
  'fixed', population=10**6, cohort=10**5, rounds=25, num_coordinates=5001
)


def test_the_card_has_the_central_figure_beside_the_local_one():
  made, page = _made_card(_FEW_BITS, _MANY_USERS)
  numbers = made['plan']['shuffled']
  delta = made['delta']
  # A report is 20 bits of 0.2 each.
  assert numbers['report_epsilon'] == pytest.approx(4)
  assert numbers['epsilon'] == shuffling.epsilon_of_reports(
    numbers['report_epsilon'], 10**5, 3, delta
  )
  assert numbers['local_epsilon'] == made['epsilon'] > 5 * numbers['epsilon']
  assert (numbers['reports_per_round'], numbers['rounds']) == (10**5, 3)
  # The headline stays local.
  assert 'local differential privacy' in made['headline']
  assert '## Behind a shuffler' in page
  shown = card_blocks.figure(numbers['epsilon'])
  assert f'shuffled reports of each round: epsilon **{shown}**' in page
  assert 'shuffles nothing' in page and '100,000 per round' in page


def test_one_bit_per_report_has_the_figure_of_bits():
  settings = dataclasses.replace(
    _FEW_BITS, epsilon_per_coordinate=2.0, coordinates_per_client=1
  )
  numbers = _made_card(settings, _MANY_USERS)[0]['plan']['shuffled']
  assert numbers['epsilon'] == shuffling.epsilon_of_bits(
    2.0, 10**5, 3, numbers['delta']
  )


def test_the_card_counts_on_few_reports_where_they_come_by_chance():
  poisson = dataclasses.replace(_MANY_USERS, sampling='poisson')
  made, page = _made_card(_FEW_BITS, poisson)
  counted = made['plan']['shuffled']['reports_per_round']
  assert 98_000 < counted < 10**5
  assert f'{counted:,} per round' in page and 'planned with 100,000' in page
  drops = dataclasses.replace(_MANY_USERS, device_failure_rate=0.5)
  fewer = _made_card(_FEW_BITS, drops)[0]['plan']['shuffled']['reports_per_round']
  assert 48_000 < fewer < 50_000


def test_the_card_says_plainly_that_a_shuffler_adds_nothing():
  settings = randomized_bits.LocalPrivacySettings()
  start = time.monotonic()
  made, page = _made_card(settings, _MANY_USERS)
  assert time.monotonic() - start < 1
  numbers = made['plan']['shuffled']
  assert not numbers['gains'] and numbers['epsilon'] == made['epsilon']
  assert 'A shuffler would add nothing' in page
  assert 'a report has local epsilon 5,001.000' in page


def test_nothing_is_said_of_a_shuffler_where_nothing_is_promised_or_sent():
  unclaimed = dataclasses.replace(_FEW_BITS, privacy_claim=False)
  for settings, rounds in ((unclaimed, 3), (_FEW_BITS, 0)):
    made, page = _made_card(settings, _MANY_USERS, rounds)
    assert made['plan']['shuffled'] is None
    assert 'shuffle' not in page
