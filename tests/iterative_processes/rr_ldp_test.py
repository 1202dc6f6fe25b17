"""The process of randomized bits: its defaults, its seeds, its workers, its learning."""

import numpy as np
import pytest
import small_models

from tff_textpriv import randomness
from tff_textpriv.iterative_processes import contract, registry, rr_ldp
from tff_textpriv.privacy import priv_unit, randomized_bits
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.runtime.execution import execution

_FEATURES = 40
_SLOPE = np.linspace(-1, 1, _FEATURES).astype(np.float32)[:, np.newaxis]


def _build_directions(total, **settings):
  chosen = rr_ldp.RrLdpSettings(client_optimizer='sgd', **settings)
  deployment = Deployment(
    'fixed', 10, 10, rounds=20, num_coordinates=_FEATURES, client_step=1.0
  )
  mechanism = priv_unit.PrivUnitSettings(target_epsilon=total).mechanism(deployment)
  return rr_ldp.build_rr_ldp(small_models.linear(0, _FEATURES), chosen, mechanism)


def _build(epsilon=1.0, reported=None, quantization_range=None, **settings):
  chosen = rr_ldp.RrLdpSettings(**settings)
  privacy = randomized_bits.LocalPrivacySettings(
    epsilon_per_coordinate=epsilon,
    coordinates_per_client=reported,
    quantization_range=quantization_range,
  )
  deployment = Deployment(
    'fixed',
    population=10,
    cohort=10,
    rounds=20,
    num_coordinates=_FEATURES,
    client_step=chosen.client_step,
  )
  return rr_ldp.build_rr_ldp(
    small_models.linear(0, _FEATURES), chosen, privacy.mechanism(deployment)
  )


def _clients(count: int, round_number: int = 1, size: int = 32):
  rng = np.random.default_rng(0)
  clients = []
  for client in range(count):
    x = rng.normal(size=[size, _FEATURES]).astype(np.float32)
    seed = randomness.Stream.of_seed(3).words('client', round_number, f'user {client}')
    clients.append(([(x, x @ _SLOPE)], [seed]))
  return clients


def _train(process, count: int, rounds: int = 1, **arguments) -> np.ndarray:
  state = process.initialize()
  for number in range(1, rounds + 1):
    state = process.next(state, _clients(count, number, **arguments)).state
  (weights,) = process.get_model_weights(state).trainable
  return np.ravel(weights)


def test_the_defaults_are_the_papers():
  settings = rr_ldp.RrLdpSettings()
  assert (settings.client_optimizer, settings.client_learning_rate) == ('adam', 0.001)
  assert (settings.server_optimizer, settings.server_learning_rate) == ('sgd', 1.0)
  # The paper weighs by examples, which would tell how many a user has.
  assert settings.client_weighting == 'uniform'
  privacy = randomized_bits.LocalPrivacySettings()
  assert privacy.quantization_range is None
  everybody = Deployment('fixed', 10, 10, rounds=20, num_coordinates=_FEATURES)
  plan = privacy.mechanism(everybody)
  assert (plan.epsilon, plan.num_reported) == (1, _FEATURES)
  assert contract.reads(_build()) == ('batches', 'seed')
  kinds = registry.ALGORITHMS['rr_ldp'].kinds
  assert set(kinds) == {'classification', 'language_model'}


@pytest.mark.parametrize(
  ('settings', 'bound'),
  [
    ({}, 0.02),
    ({'quantization_range': 0.5}, 0.5),
    ({'client_weighting': 'uniform'}, 0.02),
  ],
)
def test_a_step_from_one_client_is_one_bit_wide_of_q_or_else_the_learning_rate(
  tff_runtime, settings, bound
):
  process = _build(client_learning_rate=0.02, **settings)
  step = bound * (np.e + 1) / (np.e - 1)
  np.testing.assert_allclose(np.abs(_train(process, 1)), step, rtol=1e-5)


def test_as_many_coordinates_move_as_the_client_reports(tff_runtime):
  process = _build(reported=7, client_learning_rate=0.02)
  moved = _train(process, 1)
  assert (moved != 0).sum() == 7
  step = 0.02 * (np.e + 1) / (np.e - 1) * _FEATURES / 7
  np.testing.assert_allclose(np.abs(moved[moved != 0]), step, rtol=1e-5)


def test_clients_seeds_decide_the_bits(tff_runtime):
  process = _build()
  state = process.initialize()

  def step(round_number):
    output = process.next(state, _clients(3, round_number))
    return np.ravel(process.get_model_weights(output.state).trainable[0])

  np.testing.assert_array_equal(step(1), step(1))
  assert (step(1) != step(2)).any()


def test_a_client_whose_training_blows_up_does_no_harm(tff_runtime):
  process = _build(client_optimizer='sgd')
  clients = _clients(4)
  clients[2][0][0][0][0, 0] = np.nan
  state = process.next(process.initialize(), clients).state
  (weights,) = process.get_model_weights(state).trainable
  # It is not told from others: it reports bits of an update of zero, as one does whose
  # training changed nothing.
  still = [*clients[:2], ([], clients[2][1]), clients[3]]
  others = process.next(process.initialize(), still).state
  np.testing.assert_array_equal(weights, process.get_model_weights(others).trainable[0])
  assert np.isfinite(weights).all()


def test_two_workers_train_the_very_same_model_as_one(tmp_path):
  process = _build(reported=20)
  trained = []
  for num_workers in (1, 2):
    with execution(num_workers=num_workers, log_dir=tmp_path):
      trained.append(_train(process, 5, rounds=2))
  assert (trained[0] != 0).any()
  np.testing.assert_array_equal(*trained)


def test_it_learns_although_every_bit_is_randomized(tff_runtime):
  process = _build(epsilon=3.0, client_learning_rate=0.1)
  found = _train(process, 10, rounds=20)
  # Each round moves a weight by up to 0.1, with noise of 0.1 / 0.9 / sqrt(10).
  error = np.sqrt(np.mean((found - np.ravel(_SLOPE)) ** 2))
  assert error < 0.25 < np.sqrt(np.mean(_SLOPE**2)) / 2


def test_it_learns_from_private_vectors_and_less_at_a_smaller_total(tff_runtime):
  errors = []
  for total in (2000.0, 20.0):
    found = _train(_build_directions(total, client_learning_rate=0.1), 10, rounds=20)
    errors.append(np.sqrt(np.mean((found - np.ravel(_SLOPE)) ** 2)))
  assert (
    errors[0] < 0.25 < np.sqrt(np.mean(_SLOPE**2)) / 2 and 2 * errors[0] < errors[1]
  )
