import numpy as np
import pytest

from tff_textpriv import randomness
from tff_textpriv.runtime import cohorts

_USERS = [f'user_{i}' for i in range(50)]
_DRAWS = 10_000


def _inclusion(sampler) -> np.ndarray:
  """Which users are in which cohort: boolean [draws, users]."""
  position = {user: i for i, user in enumerate(_USERS)}
  included = np.zeros((_DRAWS, len(_USERS)), bool)
  for draw in range(_DRAWS):
    included[draw, [position[user] for user in sampler.cohort(draw)]] = True
  return included


def _looks_poisson(included: np.ndarray, q: float) -> bool:
  """Marginals and pairs within 5 standard errors of independent inclusion."""
  marginal_error = 5 * np.sqrt(q * (1 - q) / _DRAWS)
  pairs = (included.T.astype(float) @ included) / _DRAWS
  off_diagonal = pairs[~np.eye(len(_USERS), dtype=bool)]
  pair_error = 5 * np.sqrt(q**2 * (1 - q**2) / _DRAWS)
  sizes = included.sum(1)
  variance = len(_USERS) * q * (1 - q)
  # The variance of a sample variance is about 2 sigma^4 / n.
  variance_error = 5 * variance * np.sqrt(2 / _DRAWS)
  return bool(
    np.abs(included.mean(0) - q).max() < marginal_error
    and np.abs(off_diagonal - q**2).max() < pair_error
    and abs(sizes.var() - variance) < variance_error
  )


class _Twin:
  """A sampler with a mistake: its cohorts are a function of Poisson ones."""

  def __init__(self, change):
    self._sampler = cohorts.CohortSampler(
      _USERS, 10, 'poisson', randomness.Stream.of_seed(0)
    )
    self._change = change

  def cohort(self, number: int) -> list[str]:
    return self._change(self._sampler.cohort, number)


def _in_pairs(cohort, number: int) -> list[str]:
  """A user comes with the next one: marginals are right, pairs are not."""
  chosen = set(cohort(number)) & set(_USERS[::2])
  return [user for i, user in enumerate(_USERS) if _USERS[i - i % 2] in chosen]


def test_poisson_cohorts_include_users_independently():
  sampler = cohorts.CohortSampler(_USERS, 10, 'poisson', randomness.Stream.of_seed(0))
  assert _looks_poisson(_inclusion(sampler), 0.2)


@pytest.mark.parametrize(
  'wrong',
  [
    cohorts.CohortSampler(_USERS, 10, 'fixed', randomness.Stream.of_seed(0)),
    cohorts.CohortSampler(_USERS, 11, 'poisson', randomness.Stream.of_seed(0)),
    _Twin(lambda cohort, number: cohort(number // 4)),
    _Twin(_in_pairs),
  ],
  ids=['of one size', 'too many', 'kept for four rounds', 'in pairs'],
)
def test_other_cohorts_are_caught(wrong):
  assert not _looks_poisson(_inclusion(wrong), 0.2)


def test_fixed_cohorts_have_their_size_and_no_user_twice():
  sampler = cohorts.CohortSampler(_USERS, 10, 'fixed', randomness.Stream.of_seed(0))
  for number in range(100):
    cohort = sampler.cohort(number)
    assert len(set(cohort)) == len(cohort) == 10


@pytest.mark.parametrize('sampling', ['poisson', 'fixed'])
def test_a_cohort_is_a_function_of_seed_and_round(sampling):
  sampler, twin, other = (
    cohorts.CohortSampler(_USERS, 10, sampling, randomness.Stream.of_seed(seed))
    for seed in (1, 1, 2)
  )
  assert sampler.cohort(7) == twin.cohort(7) != sampler.cohort(8)
  assert sampler.cohort(7) != other.cohort(7)


def test_a_cohort_larger_than_the_population_is_refused():
  with pytest.raises(cohorts.CohortError, match='--clients_per_round=51.*only 50'):
    cohorts.CohortSampler(_USERS, 51, 'fixed', randomness.Stream.of_seed(0))
