"""Bad clients in a cohort, for every algorithm: training goes on, and they are counted.

A third of the cohort sends NaN, infinity, numbers near the end of float32 or nothing. They
do so by real training: the model passes gradients back multiplied by what a client's data
say. In place of its dropout seed, which is not used, a batch has the kind of its client.
"""

import collections

import algorithm_rounds
import numpy as np
import pytest
import sample_plan
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv import randomness
from tff_textpriv.aggregators import clipping, dp_mean, sound_updates
from tff_textpriv.aggregators import count_mean_sketch as sketch_aggregator
from tff_textpriv.iterative_processes import (
  classification_model,
  contract,
  registry,
)
from tff_textpriv.iterative_processes.algorithm import OWN_MECHANISM
from tff_textpriv.models import classifiers
from tff_textpriv.privacy import count_mean_sketch
from tff_textpriv.privacy.central_settings import NoisySumSettings

_ROWS, _WIDTH = 6, 4
_GOOD, _NAN, _INFINITE, _HUGE, _EMPTY = range(5)
_KINDS = {'nan': _NAN, 'infinite': _INFINITE, 'huge': _HUGE, 'empty': _EMPTY}
_FACTORS = (1.0, np.nan, np.inf, 3e38, 1.0)
_NUM_CLIENTS, _NUM_BAD = 6, 2


@tf.custom_gradient
def _multiply_gradient(values, factor):
  return tf.identity(values), lambda gradient: (
    gradient * factor,
    tf.zeros_like(factor),
  )


def _model():
  """A small classifier whose gradients are multiplied by a factor of the client."""
  classifier = classifiers.build(
    'logistic', num_ids=_ROWS, width=0, num_classes=2, embedding_size=_WIDTH
  )
  model = classification_model.from_classifier(
    classifier, classifier.initial_weights(0)
  )

  @tf.function(autograph=False)
  def predict(weights, inputs, training):
    logits = model.predict_on_batch(weights, inputs, training)
    factor = tf.gather(tf.constant(_FACTORS, tf.float32), inputs['dropout_seed'][0])
    return _multiply_gradient(logits, factor)

  return tff.learning.models.FunctionalModel(
    initial_weights=model.initial_weights,
    predict_on_batch_fn=predict,
    loss_fn=model.loss,
    metrics_fns=(
      model.initialize_metrics_state,
      model.update_metrics_state,
      model.finalize_metrics,
    ),
    input_spec=model.input_spec,
  )


def _batches(client, kind):
  """The data of a client; a second huge step would be infinite."""
  if kind == _EMPTY:
    return []
  rng = np.random.default_rng(client)
  return [
    (
      collections.OrderedDict(
        dense=np.zeros((3, 0), np.float32),
        dropout_seed=np.array([kind, 0], np.int32),
        ids=rng.integers(0, _ROWS, (3, 4)).astype(np.int32),
        num_examples=np.array(3, np.int32),
      ),
      rng.integers(0, 2, 3).astype(np.int32),
    )
    for _ in range(1 if kind == _HUGE else 2)
  ]


def _start(name, folder, mechanism=OWN_MECHANISM, **settings):
  """Returns the rounds of an algorithm, without noise where that can be."""
  algorithm = registry.ALGORITHMS[name].choices[mechanism]
  flags = {}
  if issubclass(algorithm.privacy, NoisySumSettings):
    flags = {'noise_multiplier': 0.0}
  model = _model()
  return algorithm_rounds.Rounds(
    algorithm,
    model,
    algorithm.settings(**settings),
    algorithm_rounds.mechanism(algorithm, model, _NUM_CLIENTS, **flags),
    folder,
  )


def _round(rounds, state, kinds):
  """Runs a round of clients of some kinds."""
  cohort = [_batches(client, kind) for client, kind in enumerate(kinds)]
  if contract.sends(rounds.process) == []:  # All data are in one place, as in a run.
    cohort = [[], [batch for batches in cohort for batch in batches]]
  return rounds.round(state, {str(i): batches for i, batches in enumerate(cohort)})


def _cohort(kind):
  return [kind] * _NUM_BAD + [_GOOD] * (_NUM_CLIENTS - _NUM_BAD)


def _check(name, folder, **settings):
  """Trains with bad clients of each kind; fails if the model or a count is wrong."""
  training = _start(name, folder, **settings)
  first = training.process.initialize()
  start = training.weights(first)
  for title, kind in _KINDS.items():
    output = _round(training, first, _cohort(kind))
    after = training.weights(output.state)
    assert all(np.isfinite(weight).all() for weight in after), title
    assert all(np.abs(weight).max() < 100 for weight in after), title
    # Without the bad ones it goes on from there, and learns.
    again = training.weights(_round(training, output.state, [_GOOD] * 4).state)
    assert all(np.isfinite(weight).all() for weight in again), title
    if start:
      assert any((a != b).any() for a, b in zip(start, after, strict=True)), title
      assert any((a != b).any() for a, b in zip(after, again, strict=True)), title
    measured = output.metrics['aggregator']
    if name == 'central':
      number = {_EMPTY: 0, _HUGE: 1}.get(kind, 2)
      assert measured['left_out_batches'] == number * _NUM_BAD, title
    elif name == 'rr_ldp':  # Under a local promise nobody is told from others.
      assert 'left_out_clients' not in measured, title
    else:
      assert measured['left_out_clients'] == _NUM_BAD, title
    if training.store is not None:
      for user in range(_NUM_CLIENTS):
        kept = [
          leaf
          for leaf in training.kept(str(user))
          if np.issubdtype(leaf.dtype, np.floating)
        ]
        assert all(np.isfinite(numbers).all() for numbers in kept), title
        assert all(np.abs(numbers).max(initial=0) < 100 for numbers in kept), title


@pytest.mark.parametrize(
  'name', algorithm_rounds.with_variants_on_request(registry.ALGORITHMS)
)
def test_a_third_of_bad_clients_does_not_spoil_the_model(tff_runtime, name, tmp_path):
  _check(name, tmp_path)


@pytest.mark.parametrize(
  'mechanism', ['priv_unit', pytest.param('sqkr', marks=pytest.mark.slow)]
)
def test_nor_does_it_where_clients_send_private_vectors(
  tff_runtime, tmp_path, mechanism
):
  _check('rr_ldp', tmp_path, mechanism=mechanism)


@pytest.mark.parametrize(
  'name', ['fede_vocab', pytest.param('central', marks=pytest.mark.slow)]
)
def test_an_optimizer_that_a_bad_client_would_paralyse_is_kept_too(
  tff_runtime, name, tmp_path
):
  # The square of a huge gradient is infinite in Adam's state, and every later step 0.
  _check(name, tmp_path, client_optimizer='adam')


@pytest.mark.parametrize(
  'name',
  [
    'fed_avg',
    pytest.param('dp_fed_avg', marks=pytest.mark.slow),
    pytest.param('fede_vocab', marks=pytest.mark.slow),
  ],
)
def test_without_the_check_of_updates_the_model_would_be_spoilt(
  tff_runtime, name, tmp_path, monkeypatch
):
  monkeypatch.setattr(sound_updates, 'are_sound', lambda _: tf.constant(True))
  monkeypatch.setattr(
    clipping,
    'clip_update',
    # Here nothing is noised, so that updates stay real numbers.
    lambda update, _, points: collections.OrderedDict(
      update=update,
      unclipped_half=tf.constant(1),
      left_out=tf.constant(0),
    ),
  )
  with pytest.raises(AssertionError):
    _check(name, tmp_path, client_optimizer='sgd')


def test_clients_that_are_left_out_change_nothing_at_all(tff_runtime, tmp_path):
  training = _start('fed_avg', tmp_path)
  first = training.process.initialize()
  others = _cohort(_HUGE)
  with_bad = training.weights(_round(training, first, others).state)
  # The same clients, without data in the place of the bad ones.
  without = training.weights(_round(training, first, _cohort(_EMPTY)).state)
  for one, other in zip(with_bad, without, strict=True):
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize('kind', ['nan', 'infinite', 'huge', 'nothing'])
def test_the_mean_leaves_bad_updates_out_whoever_sends_them(tff_runtime, kind):
  value = {'nan': np.nan, 'infinite': -np.inf, 'huge': 3e38, 'nothing': 0.0}[kind]
  update_type = tff.to_type([(np.float32, [2]), (np.float32, [1])])
  process = sound_updates.SoundMeanFactory().create(
    update_type, tff.TensorType(np.float32)
  )
  good = [np.array([1, 2], np.float32), np.array([3], np.float32)]
  bad = [np.array([value, 0], np.float32), np.array([0], np.float32)]
  output = process.next(process.initialize(), [good, bad, good], [1.0, 5.0, 1.0])
  expected = 2 / 7 if kind == 'nothing' else 1.0
  np.testing.assert_allclose(output.result[0], np.multiply([1, 2], expected), rtol=1e-6)
  assert output.measurements['left_out_clients'] == 1


@pytest.mark.parametrize(
  'factory',
  [
    sound_updates.SoundMeanFactory(),
    dp_mean.DpMeanFactory(sample_plan.PLAN),
  ],
  ids=['mean', 'private mean'],
)
def test_an_update_of_another_shape_is_refused_by_its_type(tff_runtime, factory):
  update_type = tff.to_type((np.float32, [3]))
  is_weighted = isinstance(factory, tff.aggregators.WeightedAggregationFactory)
  types = [update_type, tff.TensorType(np.float32)][: 1 + is_weighted]
  process = factory.create(*types)
  state = process.initialize()
  good, wrong = np.ones(3, np.float32), np.ones(4, np.float32)
  weights = [[1.0, 1.0]][:is_weighted]
  with pytest.raises(TypeError, match=r'shape \(4,\) to shape \(3,\)'):
    process.next(state, [good, wrong], *weights)
  assert process.next(state, [good, good], *weights).result.shape == (3,)


def test_data_of_another_shape_never_reach_a_model(tff_runtime, tmp_path):
  training = _start('fed_avg', tmp_path)
  state = training.process.initialize()
  wrong = _batches(0, _GOOD)
  for inputs, _ in wrong:
    inputs['ids'] = inputs['ids'][0]
  with pytest.raises(TypeError):
    training.process.next(state, [wrong])


@pytest.mark.parametrize('words', [[-7, -1], [2**31 - 1, 5], [10**6, -(2**31)]])
def test_devices_that_report_words_that_there_are_not_add_noise_alone(
  tff_runtime, words
):
  parameters = count_mean_sketch.HeavyHittersSettings(
    heavy_hitters_words_per_user=2
  ).sketch(randomness.Stream.of_seed(0))
  value_type = sketch_aggregator.client_value_type(2)
  process = sketch_aggregator.CountMeanSketchFactory(parameters).create(value_type)

  def client(number, reported):
    return collections.OrderedDict(
      words=np.array(reported, np.int32), seed=np.array([number, 1], np.int32)
    )

  cohort = [client(i, words if i < _NUM_BAD else [0, 1]) for i in range(_NUM_CLIENTS)]
  sketch = process.next(process.initialize(), cohort).result
  assert sketch['row_counts'].sum() == 2 * _NUM_CLIENTS
  assert sketch['bit_sums'].min() >= 0
  assert sketch['bit_sums'].max() <= sketch['row_counts'].max()
  with pytest.raises(TypeError):
    process.next(process.initialize(), [client(0, [1, 2, 3])])
