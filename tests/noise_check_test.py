"""The check of noise accepts what is Gaussian, and each of its four lines catches."""

import numpy as np
import pytest
from noise_check import is_gaussian

_N = 40_000


@pytest.mark.parametrize('seed', range(20))
def test_gaussian_noise_passes(seed):
  values = np.random.default_rng(seed).normal(scale=0.3, size=_N)
  assert is_gaussian(values, 0.3)


def _normal():
  return np.random.default_rng(0).normal(size=_N)


@pytest.mark.parametrize(
  'wrong',
  [
    lambda rng: _normal() + 0.05,
    lambda rng: _normal() * 0.95,
    lambda rng: np.repeat(_normal()[: _N // 2], 2),
    # Of the right mean and variance, and of another shape.
    lambda rng: rng.uniform(-np.sqrt(3), np.sqrt(3), _N),
    lambda rng: rng.laplace(scale=np.sqrt(0.5), size=_N),
  ],
  ids=['shifted', '5% too small', 'repeated', 'uniform', 'laplace'],
)
def test_other_noise_is_caught(wrong):
  assert not is_gaussian(wrong(np.random.default_rng(1)), 1.0)
