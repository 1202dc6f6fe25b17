"""From the total of a user to reports: nothing is exceeded, and little is left."""

import math

import pytest

from tff_textpriv.privacy import errors, local_planning, randomized_response

_DELTA = 1e-6


def _told(bits, epsilon):
  """One over the variance of an estimate, in units of q^2 / d."""
  return bits * math.tanh(epsilon / 2) ** 2


@pytest.mark.parametrize('total', [0.1, 1.0, 4.0, 8.0, 300.0])
@pytest.mark.parametrize('number', [1, 2, 25, 5000])
def test_reports_spend_their_total_and_no_more(total, number):
  epsilon = local_planning.epsilon_of_each(number, total, _DELTA)
  if epsilon == 100:  # Nobody can say more than all.
    assert total / number >= 100
    return
  spent = randomized_response.composed_epsilon(epsilon, number, _DELTA)
  assert spent <= total
  # A thousandth more each would be too much.
  more = randomized_response.composed_epsilon(1.001 * epsilon, number, _DELTA)
  assert more > total


def test_many_reports_get_more_than_their_share_at_a_delta():
  # By advanced composition, about sqrt(2 ln(1 / delta) n) of epsilon n.
  assert local_planning.epsilon_of_each(5000, 4.0, _DELTA) > 10 * 4 / 5000
  assert local_planning.epsilon_of_each(5000, 4.0, 0.0) == pytest.approx(4 / 5000)


@pytest.mark.parametrize(('total', 'bits'), [(1.0, 1), (4.0, 2), (8.0, 4), (20.0, 9)])
def test_few_bits_with_a_large_epsilon_each_make_the_least_noise(total, bits):
  found = local_planning.bits_for_total(total, _DELTA, 1, 5001)
  assert abs(found - bits) <= (total > 8)
  best = _told(found, local_planning.epsilon_of_each(found, total, _DELTA))
  for other in (*range(1, 30), 100, 500, 5001):
    each = local_planning.epsilon_of_each(other, total, _DELTA)
    assert _told(other, each) <= 1.01 * best
  # Five hundred bits, with as little each as is left for them, are far noisier.
  many = local_planning.epsilon_of_each(500, total, _DELTA)
  assert _told(500, many) < 0.5 * best


def test_where_the_total_is_enormous_all_coordinates_are_reported():
  assert local_planning.bits_for_total(1e6, _DELTA, 1, 40) == 40


def test_who_takes_part_often_has_fewer_bits_each_time():
  assert local_planning.bits_for_total(8.0, _DELTA, 4, 5001) == 1
  once = local_planning.epsilon_of_each(1, 8.0, _DELTA)
  often = local_planning.epsilon_of_each(25, 8.0, _DELTA)
  assert often < once / 10


@pytest.mark.parametrize(('number', 'total'), [(0, 1.0), (1, 0.0), (1, math.inf)])
def test_what_cannot_be_planned_is_refused(number, total):
  with pytest.raises(errors.PrivacyError, match='cannot be planned'):
    local_planning.epsilon_of_each(number, total, _DELTA)
