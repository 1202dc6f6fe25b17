"""No two releases of a run share their noise: not over phases, halves or rounds."""

import dataclasses
import itertools

import numpy as np
import pytest
import small_models

from tff_textpriv.iterative_processes import dp_fed_avg
from tff_textpriv.tasks import base, stackoverflow
from tff_textpriv.training import phases

_USERS = [f'user {i}' for i in range(40)]
_SIZE = 4000


def _chosen(*given):
  argv = ['--total_rounds=4', '--clients_per_round=5', '--server_optimizer=sgd']
  return base.parse(stackoverflow.TASK, [*argv, *given])


def _mechanisms(*given):
  chosen = _chosen(*given)
  return [
    phase.mechanism(chosen, 2 * _SIZE) for phase in phases.lay_out(chosen, _USERS)
  ]


def _noise(mechanisms, rounds=2):
  """Returns all that is released of nobody's data: two rows for each round."""
  model = small_models.linear(0.0, 2 * _SIZE)
  found = []
  for mechanism in mechanisms:
    settings = dp_fed_avg.DpFedAvgSettings(server_optimizer='sgd')
    process = dp_fed_avg.build_dp_fed_avg(model, settings, mechanism)
    state = process.initialize()
    (before,) = process.get_model_weights(state).trainable
    for _ in range(rounds):
      state = process.next(state, []).state
      (after,) = process.get_model_weights(state).trainable
      found += np.split(np.ravel(before - after), 2)
      before = after
  return np.array(found)


def _are_independent(rows):
  """Tells whether no two rows are correlated, to 5 standard errors."""
  correlations = np.corrcoef(rows)[~np.eye(len(rows), dtype=bool)]
  return bool(np.abs(correlations).max() < 5 / np.sqrt(rows.shape[1]))


@pytest.mark.parametrize(
  'given',
  [
    ('--phase_plan=half_split', '--resample_rounds=2'),
    ('--phase_plan=switch', '--resample_rounds=1,2', '--noise_source=system'),
  ],
  ids=['halves', 'switches'],
)
def test_phases_and_rounds_have_noise_of_their_own(tff_runtime, given):
  mechanisms = _mechanisms('--algo=subword_resample', *given)
  assert len(mechanisms) > 1
  assert _are_independent(_noise(mechanisms))


def test_halves_with_the_same_noise_are_caught(tff_runtime):
  first, second = _mechanisms(
    '--algo=subword_resample', '--phase_plan=half_split', '--resample_rounds=2'
  )
  shared = dataclasses.replace(second, stream=first.stream)
  assert not _are_independent(_noise([first, shared]))


def test_a_run_that_is_made_again_releases_the_same_noise(tff_runtime):
  mechanisms = _mechanisms('--algo=dp_fed_avg', '--noise_multiplier=1')
  np.testing.assert_array_equal(_noise(mechanisms), _noise(mechanisms))


def test_no_two_clients_rounds_or_phases_share_a_seed():
  chosen = _chosen('--algo=subword_resample')
  made = phases.lay_out(chosen, _USERS)
  words = [
    tuple(phase.stream.words('client', number, user))
    for phase, number, user in itertools.product(made, range(1, 5), _USERS)
  ]
  assert len(set(words)) == len(words)
  noise = [tuple(phase.stream.words('noise', n)) for phase in made for n in range(4)]
  assert not set(noise) & set(words)


def test_cohorts_are_as_secret_as_the_noise():
  """Two runs of one seed draw the same users, unless their source is the system."""

  def cohorts(source):
    chosen = _chosen(
      '--algo=dp_fed_avg', '--noise_multiplier=1', f'--noise_source={source}'
    )
    (phase,) = phases.lay_out(chosen, _USERS)
    return [phase.sampler.cohort(number) for number in range(1, 9)]

  assert cohorts('seeded') == cohorts('seeded')
  assert cohorts('system') != cohorts('system') != cohorts('seeded')
