"""The law of PrivUnitG: its privacy ratio, its moments and what its parts are worth."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import integrate, stats

from tff_textpriv.privacy import errors, spherical_cap

_EPSILONS = (0.1, 1.0, 4.0, 8.0)


def _density(law, component):
  return stats.norm.pdf(component) * np.exp(law.log_weight(component))


def _integral(law, function):
  parts = ((-40.0, law.edge), (law.edge, 40.0))
  return sum(
    integrate.quad(lambda a: function(a) * _density(law, a), *part, limit=200)[0]
    for part in parts
  )


@dataclasses.dataclass(frozen=True)
class _WrongTail(spherical_cap.CapResponse):
  """A broken twin: draws from a tail of half the size, at the same price."""

  @property
  def tail_share(self) -> float:
    return super().tail_share / 2


def _largest_ratio(law):
  weights = law.log_weight(np.array([law.edge + 1e-9, law.edge - 1e-9]))
  return float(np.ptp(weights))


@pytest.mark.parametrize('epsilon', _EPSILONS)
@pytest.mark.parametrize('dimension', [2, 51, 5002])
def test_densities_of_two_directions_differ_by_e_to_the_epsilon_and_no_more(
  epsilon, dimension
):
  law = spherical_cap.least_noise(epsilon, dimension)
  # Wherever a vector lies, each of two directions has it in its tail or has not.
  assert _largest_ratio(law) <= epsilon * (1 + 1e-12)
  assert _largest_ratio(law) == pytest.approx(epsilon, abs=1e-5)
  broken = _WrongTail(law.coin_epsilon, law.tail_epsilon)
  assert _largest_ratio(broken) > epsilon + 0.3


@pytest.mark.parametrize('epsilon', _EPSILONS)
def test_the_moments_are_those_of_the_density(epsilon):
  law = spherical_cap.least_noise(epsilon, 51)
  assert _integral(law, lambda a: 1.0) == pytest.approx(1, abs=1e-7)
  assert _integral(law, lambda a: a) == pytest.approx(law.gain, rel=1e-6)
  assert _integral(law, lambda a: a * a) == pytest.approx(law.mean_square, rel=1e-6)


@pytest.mark.parametrize('epsilon', _EPSILONS)
def test_no_other_division_of_epsilon_has_less_noise(epsilon):
  dimension = 51
  law = spherical_cap.least_noise(epsilon, dimension)

  def variance(other):
    # Of an estimate of a direction, summed over coordinates: two of u's, the rest zero.
    u = np.array([0.6, 0.8] + [0.0] * (dimension - 2))
    return other.variance(u).sum()

  best = variance(law)
  assert law.coin_epsilon + law.tail_epsilon == pytest.approx(epsilon)
  for share in np.linspace(0.05, 0.95, 19):
    other = spherical_cap.CapResponse((1 - share) * epsilon, share * epsilon)
    assert variance(other) >= best * (1 - 1e-6)


def test_noise_does_not_grow_with_the_dimension():
  gains = [spherical_cap.least_noise(4.0, d).gain for d in (50, 5000, 10**6)]
  assert max(gains) < 1.01 * min(gains)
  # Nothing can be better than sending the direction among vectors of noise 1: the gain
  # that the epsilon allows, sqrt(2 epsilon), and at 8 three quarters of it are reached.
  gain = spherical_cap.least_noise(8.0, 5000).gain
  assert 0.6 * math.sqrt(16) < gain < math.sqrt(16)


def test_an_epsilon_next_to_nothing_is_refused():
  with pytest.raises(errors.PrivacyError, match='epsilon 0.0001'):
    spherical_cap.least_noise(1e-4, 50)
