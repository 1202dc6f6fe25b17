"""Builders and factories in TFF's own world: a Keras model, tf.data clients, `next`.

Nothing here is ours but what is tested, and TFF's own builders say what is right.
"""

import collections
import math

import algorithm_rounds
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from sample_plan import NO_MECHANISM, of_everybody

from tff_textpriv import aggregators
from tff_textpriv.aggregators import count_mean_sketch as sketch_aggregator
from tff_textpriv.iterative_processes import (
  contract,
  dp_fed_avg,
  dp_ftrl,
  fed_att,
  fed_avg,
  fed_prox,
  fed_recon,
  fed_sgd,
  lg_fedavg,
  rr_ldp,
  scaffold,
  subword_resample,
)
from tff_textpriv.privacy import ftrl_settings
from tff_textpriv.privacy.count_mean_sketch import SketchParameters
from tff_textpriv.privacy.local_gaussian import LocalGaussian
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.privacy.randomized_bits import RandomizedBits
from tff_textpriv.runtime import device_store

_WORDS, _WIDTH, _CLASSES, _LENGTH = 9, 4, 3, 5
_NUM_WEIGHTS = _WORDS * _WIDTH + _WIDTH * _CLASSES + _CLASSES
_STEP = 0.5
_SGD = {'server_optimizer': 'sgd', 'server_learning_rate': 1.0}
_LOCAL = _SGD | {'client_optimizer': 'sgd', 'client_learning_rate': _STEP}
_RANGE = 0.25


def _model():
  """A classifier of texts in Keras, which has no metrics at all."""
  keras_model = tf.keras.Sequential(
    [
      tf.keras.layers.Embedding(
        _WORDS,
        _WIDTH,
        input_length=_LENGTH,
        embeddings_initializer=tf.keras.initializers.RandomNormal(seed=1),
      ),
      tf.keras.layers.GlobalAveragePooling1D(),
      tf.keras.layers.Dense(
        _CLASSES, kernel_initializer=tf.keras.initializers.RandomNormal(seed=2)
      ),
    ]
  )
  return tff.learning.models.functional_model_from_keras(
    keras_model,
    tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    (tf.TensorSpec([None, _LENGTH], tf.int32), tf.TensorSpec([None], tf.int32)),
  )


@pytest.fixture(scope='module')
def model():
  return _model()


def _clients():
  """Data sets of three clients, of different sizes."""
  rng = np.random.default_rng(0)
  return [
    tf.data.Dataset.from_tensor_slices(
      (
        rng.integers(0, _WORDS, [size, _LENGTH], np.int32),
        rng.integers(0, _CLASSES, size, np.int32),
      )
    ).batch(4)
    for size in (3, 8, 13)
  ]


def _with_seeds(clients):
  return [
    collections.OrderedDict(
      batches=batches,
      seed=tf.data.Dataset.from_tensors(np.array([7, number], np.int64)),
    )
    for number, batches in enumerate(clients)
  ]


def _after_a_round(process, clients):
  """Returns the trainable weights after a round."""
  output = process.next(process.initialize(), clients)
  weights = process.get_model_weights(output.state).trainable
  return [np.asarray(weight) for weight in weights]


def _sgd(step):
  return tff.learning.optimizers.build_sgdm(step)


@pytest.fixture(scope='module', name='weighted')
def _weighted(tff_runtime, model):
  """The weights after a round of TFF's own federated averaging."""
  process = tff.learning.algorithms.build_weighted_fed_avg(
    model, client_optimizer_fn=_sgd(_STEP), server_optimizer_fn=_sgd(1.0)
  )
  return _after_a_round(process, _clients())


@pytest.fixture(scope='module', name='unweighted')
def _unweighted(tff_runtime, model):
  """The same where clients count alike."""
  process = tff.learning.algorithms.build_unweighted_fed_avg(
    model, client_optimizer_fn=_sgd(_STEP), server_optimizer_fn=_sgd(1.0)
  )
  return _after_a_round(process, _clients())


def _distance(some, others):
  return max(np.abs(a - b).max() for a, b in zip(some, others, strict=True))


def _moves(model, weights):
  return [
    after - before
    for after, before in zip(weights, model.initial_weights[0], strict=True)
  ]


def _bits(noise_source='seeded', epsilon=1.0):
  return RandomizedBits(epsilon, _NUM_WEIGHTS, bound=_RANGE, noise_source=noise_source)


def _are_single_bits(model, weights, epsilon=1.0, num_clients=3):
  """Tells whether weights have moved by a mean of so many signs, q / (2p - 1) each."""
  unit = _RANGE * (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1) / num_clients
  signs = np.concatenate([np.ravel(move) / unit for move in _moves(model, weights)])
  return np.allclose(signs, np.rint(signs), atol=1e-3) and set(
    np.rint(np.abs(signs))
  ) == {1.0, 3.0}


def test_the_model_lacks_what_ours_have(model, weighted, unweighted):
  assert not model.initialize_metrics_state()
  assert _distance(weighted, model.initial_weights[0]) > 0.01
  assert _distance(weighted, unweighted) > 1e-3


@pytest.mark.parametrize(
  'settings',
  [
    {},
    # Local training of our own, which counts the examples by itself.
    {'client_decay_rounds': 10},
  ],
  ids=['TFF’s training', 'ours'],
)
def test_fed_avg_is_tff_s(model, weighted, unweighted, settings):
  for weighting, expected in (('examples', weighted), ('uniform', unweighted)):
    process = fed_avg.build_fed_avg(
      model,
      fed_avg.FedAvgSettings(**_LOCAL, client_weighting=weighting, **settings),
      NO_MECHANISM,
    )
    assert _distance(_after_a_round(process, _clients()), expected) < 1e-5


def test_fed_prox_without_a_pull_is_fed_avg(model, weighted):
  for strength, is_same in ((0.0, True), (5.0, False)):
    settings = fed_prox.FedProxSettings(**_LOCAL, proximal_strength=strength)
    process = fed_prox.build_fed_prox(model, settings, NO_MECHANISM)
    distance = _distance(_after_a_round(process, _clients()), weighted)
    assert (distance < 1e-5) == is_same


def test_fed_sgd_is_tff_s(tff_runtime, model):
  theirs = tff.learning.algorithms.build_fed_sgd(model, server_optimizer_fn=_sgd(1.0))
  ours = fed_sgd.build_fed_sgd(model, fed_sgd.FedSgdSettings(**_SGD), NO_MECHANISM)
  expected = _after_a_round(theirs, _clients())
  assert _distance(_after_a_round(ours, _clients()), expected) < 1e-5


@pytest.mark.parametrize(
  'module', [dp_fed_avg, pytest.param(subword_resample, marks=pytest.mark.slow)]
)
def test_private_averaging_is_tff_s_but_for_the_noise(model, unweighted, module):
  def train(mechanism):
    settings = module.ALGORITHM.settings(**_LOCAL)
    process = module.ALGORITHM.build(model, settings, mechanism)
    return _after_a_round(process, _clients())

  assert _distance(train(of_everybody(3)), unweighted) < 1e-5
  moves = _moves(model, train(of_everybody(3, clip=0.01)))
  assert np.sqrt(sum(np.square(move).sum() for move in moves)) <= 0.01 * (1 + 1e-5)
  assert (
    _distance(
      train(of_everybody(3, clip=0.01, noise_multiplier=1.0)),
      train(of_everybody(3, clip=0.01)),
    )
    > 1e-3
  )


def test_dp_ftrl_is_tff_s_mean_of_clipped_updates_but_for_the_noise(model, unweighted):
  def train(clip, noise_multiplier):
    settings = dp_ftrl.DpFtrlSettings(**_LOCAL)
    private = ftrl_settings.FtrlPrivacySettings(
      clip=clip, noise_multiplier=noise_multiplier
    )
    mechanism = private.mechanism(Deployment('separated', 3, 3, rounds=2))
    process = dp_ftrl.build_dp_ftrl(model, settings, mechanism)
    return _after_a_round(process, _clients())

  assert _distance(train(np.inf, 0.0), unweighted) < 1e-5
  moves = _moves(model, train(0.01, 0.0))
  assert np.sqrt(sum(np.square(move).sum() for move in moves)) <= 0.01 * (1 + 1e-5)
  assert _distance(train(0.01, 1.0), train(0.01, 0.0)) > 1e-3


def test_rr_ldp_moves_by_signs(tff_runtime, model):
  settings = rr_ldp.RrLdpSettings(**_LOCAL, client_weighting='uniform')
  process = rr_ldp.build_rr_ldp(model, settings, _bits())
  weights = _after_a_round(process, _with_seeds(_clients()))
  assert _are_single_bits(model, weights)


def test_fed_att_that_attends_to_all_alike_is_fed_avg(model, unweighted):
  settings = fed_att.FedAttSettings(**_LOCAL, attention='uniform')
  silent = LocalGaussian(None, 0.0, 1e-5)
  process = fed_att.build_fed_att(model, settings, silent)
  weights = _after_a_round(process, _with_seeds(_clients()))
  assert _distance(weights, unweighted) < 1e-5
  noisy = fed_att.build_fed_att(model, settings, LocalGaussian(1.0, 0.1, 1e-5))
  weights = _after_a_round(noisy, _with_seeds(_clients()))
  assert _distance(weights, unweighted) > 0.01


def test_fed_recon_trains_all_but_the_first_weight(tff_runtime, model):
  settings = fed_recon.FedReconSettings(**_LOCAL)
  process = fed_recon.build_fed_recon(model, settings, NO_MECHANISM)
  before = list(model.initial_weights[0][1:])
  weights = _after_a_round(process, _clients())
  assert [weight.shape for weight in weights] == [weight.shape for weight in before]
  assert _distance(weights, before) > 1e-3
  output = process.next(process.initialize(), _clients())
  assert output.metrics['client_work']['train']['num_examples'] == 24


def test_scaffold_begins_as_fed_avg_with_files_of_one_s_own(
  model, unweighted, tmp_path
):
  settings = scaffold.ScaffoldSettings(**_SGD, client_learning_rate=_STEP)
  process = scaffold.build_scaffold(model, settings, NO_MECHANISM)
  assert contract.reads(process) == ('batches', 'state')
  first = scaffold.client(model, settings).first_state(())
  store = device_store.DeviceStore(tmp_path, lambda _: {'state': first})
  files = store.begin(['a', 'b', 'c'], 1)
  clients = [
    collections.OrderedDict(
      batches=batches, state=tf.data.Dataset.from_tensors(np.array(pair))
    )
    for batches, pair in zip(_clients(), files, strict=True)
  ]
  assert _distance(_after_a_round(process, clients), unweighted) < 1e-5
  store.commit(1)


@pytest.mark.parametrize('name', ['sound', 'bits', 'private', 'unweighted bits'])
def test_a_factory_is_the_aggregator_of_tff_s_builder(
  model, weighted, unweighted, name
):
  weighted_factories = {
    'sound': aggregators.SoundMeanFactory(),
    'bits': aggregators.BitMeanFactory(_bits('system')),
  }
  unweighted_factories = {
    'private': aggregators.DpMeanFactory(of_everybody(3)),
    'unweighted bits': aggregators.UnweightedBitMeanFactory(_bits('system')),
  }
  if name in weighted_factories:
    build = tff.learning.algorithms.build_weighted_fed_avg
    factory, expected = weighted_factories[name], weighted
  else:
    build = tff.learning.algorithms.build_unweighted_fed_avg
    factory, expected = unweighted_factories[name], unweighted
  process = build(
    model,
    client_optimizer_fn=_sgd(_STEP),
    server_optimizer_fn=_sgd(1.0),
    model_aggregator=factory,
  )
  weights = _after_a_round(process, _clients())
  if name == 'unweighted bits':
    assert _are_single_bits(model, weights)
  elif name == 'bits':
    # The mean of signs weighted by 3, 8 and 13 of 24 examples.
    unit = _RANGE * (math.e + 1) / (math.e - 1) / 24
    steps = np.concatenate([np.ravel(move) / unit for move in _moves(model, weights)])
    assert set(np.rint(np.abs(steps))) <= {2, 8, 18, 24}
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-3)
  else:
    assert _distance(weights, expected) < 1e-5


def test_attention_aggregates_in_a_program_of_one_s_own(tff_runtime):
  value_type = tff.to_type(
    collections.OrderedDict(update=[(np.float32, [2])], products=(np.float32, [1]))
  )
  process = aggregators.AttentiveFactory('uniform').create(
    value_type, tff.TensorType(np.float32)
  )
  values = [
    collections.OrderedDict(
      update=[np.array(update, np.float32)], products=np.zeros(1, np.float32)
    )
    for update in ([1.0, 2.0], [3.0, 6.0])
  ]
  output = process.next(process.initialize(), values, [1.0, 1.0])
  np.testing.assert_allclose(output.result['gradient'][0], [2.0, 4.0], rtol=1e-6)


def test_a_sketch_sums_in_a_program_of_one_s_own(tff_runtime):
  # So large an epsilon flips nothing.
  parameters = SketchParameters(
    num_hashes=2, width=16, epsilon_per_word=100.0, words_per_user=2
  )
  value_type = sketch_aggregator.client_value_type(2)
  process = aggregators.CountMeanSketchFactory(parameters).create(value_type)

  @tff.federated_computation(tff.FederatedType(value_type, tff.CLIENTS))
  def count_words(values):
    return process.next(process.initialize(), values).result

  sketch = count_words(
    [
      collections.OrderedDict(
        words=np.array([1, 4], np.int32), seed=np.array([3, number], np.int64)
      )
      for number in range(10)
    ]
  )
  assert sketch['row_counts'].sum() == 20
  assert sketch['bit_sums'].sum() == 20


def test_lg_fedavg_trains_the_output_layer_of_a_model_without_metrics(
  tff_runtime, model, tmp_path
):
  rounds = algorithm_rounds.Rounds(
    lg_fedavg.ALGORITHM,
    model,
    lg_fedavg.LgFedAvgSettings(**_LOCAL),
    NO_MECHANISM,
    tmp_path,
  )
  batches = [list(client.take(1).as_numpy_iterator()) for client in _clients()]
  users = dict(zip('abc', batches, strict=True))
  state = rounds.round(rounds.process.initialize(), users).state
  assert _distance(rounds.weights(state), model.initial_weights[0][1:]) > 1e-3
