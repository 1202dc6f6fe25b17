import itertools

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


def _gaps_and_counts(sampler, rounds: int) -> tuple[int, int]:
  """Returns the least gap between a user's rounds, and the most rounds of a user."""
  rounds_of = {user: [] for user in sampler.client_ids}
  for number in range(1, rounds + 1):
    for user in sampler.cohort(number):
      rounds_of[user].append(number)
  gaps = [b - a for own in rounds_of.values() for a, b in itertools.pairwise(own)]
  return min(gaps), max(map(len, rounds_of.values()))


def _separated(users, cohort_size, seed=0):
  stream = randomness.Stream.of_seed(seed)
  return cohorts.CohortSampler(users, cohort_size, 'separated', stream)


@pytest.mark.parametrize('cohort_size', [1, 7, 10, 12, 13, 24, 26, 49, 50])
def test_separated_users_come_back_no_sooner_and_no_more_often(cohort_size):
  sampler = _separated(_USERS, cohort_size)
  separation = 50 // cohort_size
  assert sampler.separation == separation
  least, most = _gaps_and_counts(sampler, 200)
  assert least >= separation
  assert most <= -(-200 // separation)
  # Those who are drawn by chance do come back sooner.
  fixed = cohorts.CohortSampler(
    _USERS, cohort_size, 'fixed', randomness.Stream.of_seed(0)
  )
  assert fixed.separation == 1
  assert separation == 1 or _gaps_and_counts(fixed, 200)[0] < separation


def test_separated_cohorts_have_the_planned_size_on_average():
  users = [f'user_{i}' for i in range(2000)]
  sampler = _separated(users, 30)
  sizes = [len(sampler.cohort(number)) for number in range(1, 401)]
  # All phases have had their turn 6 times, of 400 * 30 / 2000; the size varies with how
  # many users have a phase, like that of a Poisson cohort.
  assert sum(sizes) == 400 * 30
  assert np.std(sizes) < 5 * np.sqrt(30)


def test_a_users_turn_does_not_depend_on_who_else_is_there():
  users = [f'user_{i}' for i in range(50)]
  others = [*users[:20], 'somebody else', *users[21:]]
  one, other = _separated(users, 7), _separated(others, 7)
  for number in range(1, 30):
    here = set(one.cohort(number)) - {'user_20'}
    assert here == set(other.cohort(number)) - {'somebody else'}


def test_a_device_can_tell_its_own_turn():
  sampler = _separated(_USERS, 7)
  phase = int(sampler.stream.shares('turn', ['user_3'])[0] * 50)
  turns = [
    number
    for number in range(1, 100)
    if cohorts.is_turn(np.array([phase]), number, 50, 7).all()
  ]
  assert turns == [n for n in range(1, 100) if 'user_3' in sampler.cohort(n)]


def _slotted(users, cohort_size, slots, seed=0):
  stream = randomness.Stream.of_seed(seed)
  return cohorts.CohortSampler(
    users, cohort_size, 'banded_poisson', stream, slots=slots
  )


_SLOTS = 4


def _looks_slotted(cohort, q: float) -> bool:
  """Tells whether users come in rounds of one slot only, there by Poisson sampling.

  Marginals and pairs of each slot are within 5 standard errors of independent inclusion.
  """
  position = {user: i for i, user in enumerate(_USERS)}
  included = np.zeros((_DRAWS, len(_USERS)), bool)
  for draw in range(_DRAWS):
    included[draw, [position[user] for user in cohort(draw + 1)]] = True
  by_slot = included.reshape(-1, _SLOTS, len(_USERS))
  draws = len(by_slot)
  own = by_slot.mean(0)
  # Every user is in one slot, and there with that probability.
  if not (np.count_nonzero(own, axis=0) == 1).all():
    return False
  if np.abs(own.max(0) - q).max() > 5 * np.sqrt(q * (1 - q) / draws):
    return False
  for slot in range(_SLOTS):
    members = by_slot[:, slot, own[slot] > 0].astype(float)
    pairs = (members.T @ members / draws)[~np.eye(members.shape[1], dtype=bool)]
    if np.abs(pairs - q**2).max() > 5 * np.sqrt(q**2 * (1 - q**2) / draws):
      return False
    later = (members[:-1].T @ members[1:]) / (draws - 1)
    if np.abs(later - q**2).max() > 5 * np.sqrt(q**2 * (1 - q**2) / draws):
      return False
  return True


def test_users_are_drawn_independently_from_one_slot_after_the_other():
  sampler = _slotted(_USERS, 5, _SLOTS)
  assert sampler.separation == _SLOTS
  assert _looks_slotted(sampler.cohort, _SLOTS * 5 / 50)


@pytest.mark.parametrize(
  'wrong',
  [
    _slotted(_USERS, 6, _SLOTS).cohort,
    _slotted(_USERS, 5, 5).cohort,
    cohorts.CohortSampler(_USERS, 5, 'poisson', randomness.Stream.of_seed(0)).cohort,
    _separated(_USERS, 12).cohort,
    # The same users whenever their slot comes twice in a row.
    lambda n: _KEPT.cohort(n if (n - 1) // _SLOTS % 2 == 0 else n - _SLOTS),
  ],
  ids=['too many', 'other slots', 'no slots', 'no chance', 'kept'],
)
def test_other_draws_from_slots_are_caught(wrong):
  assert not _looks_slotted(wrong, _SLOTS * 5 / 50)


_KEPT = _slotted(_USERS, 5, _SLOTS)


def test_a_users_slot_does_not_depend_on_who_else_is_there():
  others = [*_USERS[:20], 'somebody else', *_USERS[21:]]
  one, other = _slotted(_USERS, 5, 4), _slotted(others, 5, 4)
  for number in range(1, 30):
    here = set(one.cohort(number)) - {'user_20'}
    assert here == set(other.cohort(number)) - {'somebody else'}


def test_slots_that_are_smaller_than_a_cohort_are_refused():
  with pytest.raises(cohorts.CohortError, match='each of 6 slots'):
    _slotted(_USERS, 10, 6)
