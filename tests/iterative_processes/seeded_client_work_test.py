"""Local training beside which a seed passes: same updates, the right seed with each."""

import numpy as np
import pytest
import small_models
import tensorflow_federated as tff
from sample_plan import NO_MECHANISM

from tff_textpriv import randomness
from tff_textpriv.iterative_processes import fed_avg, optimizers, seeded_client_work

_WEIGHTING = tff.learning.ClientWeighting.NUM_EXAMPLES


def _batches(num_clients: int) -> list[list[tuple[np.ndarray, np.ndarray]]]:
  rng = np.random.default_rng(0)
  return [
    [
      (
        rng.normal(size=[client + 1, 3]).astype(np.float32),
        rng.normal(size=[client + 1, 1]).astype(np.float32),
      )
      for _ in range(2)
    ]
    for client in range(num_clients)
  ]


def _with_seeds(batches):
  seeds = [
    randomness.Stream.of_seed(5).words('client', 1, f'user {i}')
    for i in range(len(batches))
  ]
  return [(each, [seed]) for each, seed in zip(batches, seeds, strict=True)], seeds


def _run(work: tff.learning.templates.ClientWorkProcess, clients):
  weights = tff.learning.models.ModelWeights((np.ones([3, 1], np.float32),), ())
  return work.next(work.initialize(), [weights] * len(clients), clients)


@pytest.fixture(scope='module')
def optimizer():
  return tff.learning.optimizers.build_sgdm(0.1)


@pytest.fixture(scope='module')
def work(optimizer):
  return seeded_client_work.build(
    small_models.linear(1), optimizer, _WEIGHTING, NO_MECHANISM
  )


def test_each_update_is_that_of_tffs_own_client_work_and_carries_its_clients_seed(
  tff_runtime, work, optimizer
):
  plain = tff.learning.templates.build_functional_model_delta_client_work(
    model=small_models.linear(1), optimizer=optimizer, client_weighting=_WEIGHTING
  )
  batches = _batches(3)
  clients, seeds = _with_seeds(batches)
  expected, seeded = _run(plain, batches), _run(work, clients)
  for client in range(3):
    ours, theirs = seeded.result[client], expected.result[client]
    np.testing.assert_array_equal(ours.update['delta'][0], theirs.update[0])
    np.testing.assert_array_equal(ours.update['seed'], seeds[client])
    assert ours.update_weight == theirs.update_weight == 2 * (client + 1)
  assert seeded.measurements == expected.measurements
  assert np.abs(expected.result[0].update[0]).max() > 0.01


def test_an_update_that_is_not_finite_arrives_as_zero_without_weight(tff_runtime, work):
  batches = _batches(2)
  batches[1][0][0][0, 0] = np.nan
  clients, seeds = _with_seeds(batches)
  good, bad = _run(work, clients).result
  assert np.abs(good.update['delta'][0]).max() > 0 and good.update_weight == 2
  np.testing.assert_array_equal(bad.update['delta'][0], 0)
  np.testing.assert_array_equal(bad.update['seed'], seeds[1])
  assert bad.update_weight == 0


def test_the_types_show_a_pair_of_sequences_in_and_a_pair_out(work):
  data_type = work.next.type_signature.parameter[2].member
  assert data_type[1] == tff.SequenceType(tff.TensorType(np.int64, [2]))
  assert isinstance(data_type[0], tff.SequenceType)
  update_type = work.next.type_signature.result.result.member.update
  assert update_type['seed'] == seeded_client_work.SEED_TYPE
  assert update_type['delta'][0] == tff.TensorType(np.float32, [3, 1])


def test_client_seeds_differ_by_client_and_round_and_repeat_with_the_runs_seed():
  seeds = {
    (seed, number, user): tuple(
      randomness.Stream.of_seed(seed).words('client', number, user)
    )
    for seed in (0, 1)
    for number in (1, 2)
    for user in ('a', 'b')
  }
  assert len(set(seeds.values())) == len(seeds)
  for key, value in seeds.items():
    seed, *indices = key
    assert tuple(randomness.Stream.of_seed(seed).words('client', *indices)) == value
  assert randomness.Stream.of_seed(0).words('client', 1, 'a').dtype == np.int64


def test_the_client_optimizer_is_the_one_that_the_flag_names(tff_runtime):
  clients, _ = _with_seeds(_batches(1))
  first_batch = [(clients[0][0][:1], clients[0][1])]

  def step(**settings) -> np.ndarray:
    chosen = fed_avg.FedAvgSettings(client_learning_rate=0.01, **settings)
    work = seeded_client_work.build(
      small_models.linear(1),
      optimizers.client_optimizer(chosen),
      _WEIGHTING,
      NO_MECHANISM,
    )
    return _run(work, first_batch).result[0].update['delta'][0]

  # The first step of Adam is the learning rate, whatever the gradient.
  np.testing.assert_allclose(np.abs(step(client_optimizer='adam')), 0.01, rtol=1e-3)
  assert np.ptp(np.abs(step())) > 1e-3
  np.testing.assert_array_equal(step(), step(client_optimizer='sgd'))
