"""SCAFFOLD on linear regression, round by round against NumPy."""

import algorithm_rounds
import numpy as np
import pytest
import small_models

from tff_textpriv.iterative_processes import fed_avg, scaffold
from tff_textpriv.privacy.no_mechanism import NoMechanism

_STEP = 0.05
_SERVER_STEP = 0.75
# Users in all, of whom two are ever asked.
_POPULATION = 5
_START = 0.5


def _batches(seed, sizes):
  """Batches of which each has its own slope, so that users pull in different ways."""
  rng = np.random.default_rng(seed)
  return [
    (
      rng.normal(size=[size, 3]).astype(np.float32),
      rng.normal(size=[size, 1]).astype(np.float32) + seed,
    )
    for size in sizes
  ]


_DATA = {'ann': _batches(1, [3, 3]), 'bob': _batches(2, [2, 2, 2])}


class _ByHand:
  """Algorithm 1 of the paper, option II, with K steps of plain gradient descent.

  Attributes:
    x: The server's weights.
    c: The server's variate.
    own: The variates c_i of the users.
  """

  def __init__(self, population=_POPULATION):
    self.x = np.full([3, 1], _START)
    self.c = np.zeros([3, 1])
    self.own = {user: np.zeros([3, 1]) for user in _DATA}
    self._population = population

  def round(self, users):
    moved, changes = [], []
    for user in users:
      y = self.x
      for features, labels in _DATA[user]:
        # Of the mean of (features . y - label)^2.
        gradient = 2 * features.T @ (features @ y - labels) / len(labels)
        y = y - _STEP * (gradient - self.own[user] + self.c)
      path = len(_DATA[user]) * _STEP
      new = self.own[user] - self.c + (self.x - y) / path
      changes.append(new - self.own[user])
      self.own[user] = new
      moved.append(self.x - y)
    self.x = self.x - _SERVER_STEP * np.mean(moved, axis=0)
    self.c = self.c + np.sum(changes, axis=0) / self._population


class _Run(algorithm_rounds.Rounds):
  """The process on its devices."""

  def __init__(self, folder, population=_POPULATION):
    settings = scaffold.ScaffoldSettings(
      client_learning_rate=_STEP, server_learning_rate=_SERVER_STEP
    )
    super().__init__(
      scaffold.ALGORITHM,
      small_models.linear(_START),
      settings,
      NoMechanism('a test', population=population),
      folder,
    )
    self.state = self.process.initialize()

  def round(self, users=('ann', 'bob'), **others):
    data = {user: _DATA[user] for user in users} | others
    self.state = super().round(self.state, data).state

  def is_like(self, expected, users=('ann', 'bob')):
    """Tells whether weights and all variates are those that were worked out by hand."""
    pairs = [
      (self.weights(self.state)[0], expected.x),
      (self.state.client_work[0], expected.c),
      *((self.kept(user)[0], expected.own[user]) for user in users),
    ]
    return all(np.allclose(ours, theirs, atol=1e-5) for ours, theirs in pairs)


@pytest.fixture(name='run')
def _run(tff_runtime, tmp_path):
  del tff_runtime  # Runs the process.
  return _Run(tmp_path)


def test_two_rounds_are_those_of_the_paper(run):
  expected, without_own, one_user = _ByHand(), _ByHand(), _ByHand(population=1)
  for hand in (expected, without_own, one_user):
    hand.round(['ann', 'bob'])
  run.round()
  assert run.is_like(expected) and not run.is_like(one_user)
  without_own.own = dict.fromkeys(_DATA, np.zeros([3, 1]))
  for hand in (expected, without_own, one_user):
    hand.round(['ann', 'bob'])
  run.round()
  assert run.is_like(expected)
  # The broken twins: a sum divided by one, and devices that forget.
  assert not run.is_like(one_user) and not run.is_like(without_own)
  # The numbers are large enough to tell.
  assert np.abs(expected.c).min() > 0.01
  assert np.abs(expected.own['ann'] - expected.own['bob']).max() > 0.1


def test_a_process_that_takes_all_users_for_one_is_caught(tff_runtime, tmp_path):
  del tff_runtime  # Runs the process.
  run, expected = _Run(tmp_path, population=1), _ByHand()
  run.round()
  expected.round(['ann', 'bob'])
  # Only the server's variate tells in the first round, and the weights afterwards.
  np.testing.assert_allclose(run.weights(run.state)[0], expected.x, atol=1e-5)
  np.testing.assert_allclose(
    run.state.client_work[0], _POPULATION * expected.c, atol=1e-5
  )
  run.round()
  expected.round(['ann', 'bob'])
  assert np.abs(run.weights(run.state)[0] - expected.x).max() > 1e-3


def test_who_stays_away_keeps_its_variate(run):
  expected = _ByHand()
  for users in (['ann', 'bob'], ['ann'], ['ann', 'bob']):
    before = expected.own['bob']
    run.round(users)
    expected.round(users)
    assert run.is_like(expected)
    assert (expected.own['bob'] is before) == ('bob' not in users)


def test_the_server_s_variate_is_the_mean_of_all_users(tff_runtime, tmp_path):
  del tff_runtime  # Runs the process.
  run = _Run(tmp_path, population=2)
  for users in (['ann', 'bob'], ['bob'], ['ann']):
    run.round(users)
    variates = [run.kept(user)[0] for user in _DATA]
    np.testing.assert_allclose(
      run.state.client_work[0], np.mean(variates, axis=0), atol=1e-5
    )


def _spoilt(value):
  features, labels = _DATA['ann'][0]
  return [(np.full_like(features, value), labels), *_DATA['ann'][1:]]


@pytest.mark.parametrize(
  'batches', [[], _spoilt(np.nan), _spoilt(1e30)], ids=['none', 'nan', 'huge']
)
def test_a_client_without_usable_data_changes_nothing(run, batches):
  expected = _ByHand()
  run.round()
  expected.round(['ann', 'bob'])
  anns = run.kept('ann')[0]
  run.round(['bob'], ann=batches)
  expected.round(['bob'])
  assert run.is_like(expected)
  np.testing.assert_array_equal(run.kept('ann')[0], anns)
  # A newcomer without data has a variate of zeros, and goes on having it.
  run.round(['bob'], cem=batches)
  expected.round(['bob'])
  assert run.is_like(expected)
  np.testing.assert_array_equal(run.kept('cem')[0], 0)


def test_the_first_round_is_federated_averaging_and_the_second_is_not(run, tmp_path):
  settings = fed_avg.FedAvgSettings(
    client_learning_rate=_STEP,
    client_weighting='uniform',
    server_optimizer='sgd',
    server_learning_rate=_SERVER_STEP,
  )
  plain = algorithm_rounds.Rounds(
    fed_avg.ALGORITHM,
    small_models.linear(_START),
    settings,
    NoMechanism('a test'),
    tmp_path / 'plain',
  )
  state, distances = plain.process.initialize(), []
  for _ in range(2):
    state = plain.round(state, _DATA).state
    run.round()
    (ours,), (theirs,) = run.weights(run.state), plain.weights(state)
    distances.append(np.abs(ours - theirs).max())
  assert distances[0] < 1e-5 and distances[1] > 1e-3
