"""Canaries send what they should, through the algorithms as they are; users as ever."""

import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.attacks import audited_algorithm, canaries
from tff_textpriv.iterative_processes import registry
from tff_textpriv.privacy import plans

_CANARIES = canaries.Canaries(20, seed=3)
_PLAN = plans.CentralDpPlan(
  sampling='poisson',
  population=10,
  cohort=2,
  simulated_population=10,
  simulated_cohort=2,
  rounds=3,
  clip=0.5,
  noise_multiplier=0.0,
  delta=1e-5,
)


def _model() -> tff.learning.models.FunctionalModel:
  """Linear regression, with a bias and an input of no width."""

  @tf.function
  def predict(weights, x, training):
    del training
    return tf.matmul(x['features'], weights[0][0]) + weights[0][1]

  @tf.function
  def loss(output, label, sample_weight=None):
    del sample_weight
    return tf.reduce_mean(tf.square(output - label))

  return tff.learning.models.FunctionalModel(
    initial_weights=((np.ones([30, 1], np.float32), np.zeros([1], np.float32)), ()),
    predict_on_batch_fn=predict,
    loss_fn=loss,
    input_spec=(
      {
        'features': tf.TensorSpec([None, 30], tf.float32),
        'nothing': tf.TensorSpec([None, 0], tf.float32),
      },
      tf.TensorSpec([None, 1], tf.float32),
    ),
  )


def _users():
  rng = np.random.default_rng(0)
  return [
    [
      (
        {
          'features': rng.normal(size=[4, 30]).astype(np.float32),
          'nothing': np.zeros([4, 0], np.float32),
        },
        rng.normal(size=[4, 1]).astype(np.float32),
      )
    ]
    * 2
    for _ in range(3)
  ]


def _build(algorithm, **settings):
  chosen = registry.DpFedAvgSettings(**settings)
  return algorithm.build(_model(), chosen, _PLAN, 0), chosen


def _canary(process, settings, index, round_number):
  size = audited_algorithm.num_weights(process)
  strength = audited_algorithm.strength(settings, _PLAN, size)
  return canaries.canary_batches(
    audited_algorithm.batch_type(process),
    strength,
    _CANARIES.mark(index, round_number),
  )


def test_users_train_as_they_do_without_canaries(tff_runtime):
  plain = registry.ALGORITHMS['dp_fed_avg']
  process, _ = _build(plain)
  audited, _ = _build(audited_algorithm.AuditedAlgorithm.of(plain))
  expected = process.next(process.initialize(), _users()).state
  marked = [canaries.unmarked(batches) for batches in _users()]
  actual = audited.next(audited.initialize(), marked).state
  for one, other in zip(
    process.get_model_weights(expected).trainable,
    audited.get_model_weights(actual).trainable,
    strict=True,
  ):
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
  'settings',
  [
    {'server_optimizer': 'adam'},
    {'server_optimizer': 'adam', 'server_decay_rounds': 4, 'client_optimizer': 'adam'},
    {'server_optimizer': 'sgd', 'server_momentum': 0.9},
    {'server_optimizer': 'sgd', 'server_decay_rounds': 4, 'client_learning_rate': 0.01},
  ],
  ids=lambda settings: '-'.join(map(str, settings.values())),
)
def test_what_is_released_of_a_canary_is_its_direction_as_long_as_the_clip(
  tff_runtime, settings
):
  algorithm = audited_algorithm.AuditedAlgorithm.of(registry.ALGORITHMS['dp_fed_avg'])
  process, chosen = _build(algorithm, **settings)
  state = process.initialize()
  for round_number in (1, 2, 3):
    output = process.next(state, [_canary(process, chosen, 5, round_number)])
    released = canaries.released_update(state, output.state)
    mark = _CANARIES.mark(5, round_number)
    direction = canaries.signs(mark[1:], 31).numpy() / math.sqrt(31)
    # Divided by the planned cohort of 2.
    np.testing.assert_allclose(
      released, mark[0] * 0.5 * direction / 2, rtol=2e-4, atol=1e-6
    )
    seeds = np.stack([_CANARIES.direction_seed(i, round_number) for i in (5, 6)])
    own, others = canaries.projections(released, seeds).numpy()
    assert own == pytest.approx(mark[0] * 0.25, rel=1e-4)
    assert abs(others) < 0.2
    state = output.state


def test_coins_are_fair_and_directions_change_with_round_and_canary():
  many = canaries.Canaries(4000, 0)
  assert abs(many.coins.mean() - 0.5) < 4 * 0.5 / math.sqrt(4000)
  seeds = {tuple(many.direction_seed(i, r)) for i in range(50) for r in range(3)}
  assert len(seeds) == 150
  vectors = np.stack([canaries.signs(seed, 5000).numpy() for seed in list(seeds)[:20]])
  products = vectors @ vectors.T / 5000
  assert np.abs(products - np.eye(20)).max() < 5 / math.sqrt(5000)


def test_adam_takes_as_many_steps_as_the_bound_is_long():
  settings = registry.RrLdpSettings(quantization_range=0.0045)
  assert canaries.Strength.beyond(settings, 0.0045).num_steps == 9
  assert canaries.Strength.beyond(registry.FedSgdSettings(), 0.1).num_steps == 1
