"""Canaries send what they should, through the algorithms as they are; users as ever."""

import collections
import dataclasses
import math

import numpy as np
import pytest
import sample_plan
import small_models
import tensorflow_federated as tff

from tff_textpriv.audits import audited_algorithm, canaries
from tff_textpriv.iterative_processes import (
  contract,
  dp_fed_avg,
  fed_sgd,
  registry,
  rr_ldp,
)

_CANARIES = canaries.Canaries(20, seed=3)
_PLAN = dataclasses.replace(sample_plan.PLAN, noise_multiplier=0.0)


def _users():
  rng = np.random.default_rng(0)
  features, labels = rng.normal(size=[3, 4, 3]), rng.normal(size=[3, 4, 1])
  return [
    [(x.astype(np.float32), y.astype(np.float32))] * 2
    for x, y in zip(features, labels, strict=True)
  ]


def _build(algorithm, **settings):
  chosen = dp_fed_avg.DpFedAvgSettings(**settings)
  return algorithm.build(small_models.linear(1.0), chosen, _PLAN), chosen


def _canary(process, settings, index, round_number):
  size = audited_algorithm.num_weights(process)
  strength = audited_algorithm.strength(settings, _PLAN, size)
  return canaries.canary_batches(
    contract.batch_type(process),
    strength,
    _CANARIES.mark(index, round_number),
  )


def test_users_train_as_they_do_without_canaries(tff_runtime):
  plain = registry.ALGORITHMS['dp_fed_avg']
  process, _ = _build(plain)
  audited, _ = _build(audited_algorithm.audited(plain))
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
  algorithm = audited_algorithm.audited(registry.ALGORITHMS['dp_fed_avg'])
  process, chosen = _build(algorithm, **settings)
  state = process.initialize()
  for round_number in (1, 2, 3):
    output = process.next(state, [_canary(process, chosen, 5, round_number)])
    released = canaries.released_update(state, output.state)
    mark = _CANARIES.mark(5, round_number)
    direction = canaries.signs(mark[1:], 3).numpy() / math.sqrt(3)
    # Divided by the planned cohort of 20.
    np.testing.assert_allclose(released, mark[0] * 0.5 / 20 * direction, rtol=1e-3)
    along = canaries.projections(released, mark[np.newaxis, 1:]).numpy()
    assert along == pytest.approx([mark[0] * 0.5 / 20], rel=1e-3)
    state = output.state


def test_coins_are_fair_and_directions_change_with_round_and_canary():
  many = canaries.Canaries(4000, 0)
  assert abs(many.coins.mean() - 0.5) < 4 * 0.5 / math.sqrt(4000)
  seeds = {tuple(many.direction_seed(i, r)) for i in range(50) for r in range(3)}
  assert len(seeds) == 150
  vectors = np.stack([canaries.signs(seed, 5000).numpy() for seed in list(seeds)[:20]])
  products = vectors @ vectors.T / 5000
  assert np.abs(products - np.eye(20)).max() < 5 / math.sqrt(5000)


def test_the_batches_of_a_canary_are_as_small_as_their_type_allows():
  batch_type = tff.to_type(
    (
      collections.OrderedDict(
        inputs=collections.OrderedDict(
          dense=(np.float32, [None, 0]), ids=(np.int32, [None, None])
        ),
        mark=(np.int32, [3]),
      ),
      (np.int32, [None]),
    )
  )
  mark = _CANARIES.mark(0, 1)
  ((inputs, labels),) = canaries.canary_batches(
    batch_type, canaries.Strength(1.0, 1), mark
  )
  shapes = {name: part.shape for name, part in inputs['inputs'].items()}
  assert shapes == {'dense': (1, 0), 'ids': (1, 1)}
  assert labels.shape == (1,)
  np.testing.assert_array_equal(inputs['mark'], mark)


def test_adam_takes_as_many_steps_as_the_bound_is_long():
  settings = rr_ldp.RrLdpSettings()
  assert canaries.Strength.beyond(settings, 0.0045).num_steps == 9
  assert canaries.Strength.beyond(fed_sgd.FedSgdSettings(), 0.1).num_steps == 1
