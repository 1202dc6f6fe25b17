"""Classifiers: they equal their Keras twins, and read sparse input as dense vectors."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv.models import classifiers

_NUM_IDS = 30
_WIDTH = 4


def _model(name, *, num_ids=_NUM_IDS, width=_WIDTH, num_classes=2, **options):
  return classifiers.build(
    name, num_ids=num_ids, width=width, num_classes=num_classes, **options
  )


def _inputs(rows=6, length=7, num_ids=_NUM_IDS, width=_WIDTH):
  """Rows of ids of different lengths, the first one as long as can be."""
  rng = np.random.default_rng(1)
  ids = np.full((rows, length), num_ids, np.int32)
  for row in range(rows):
    used = min(length, max(1, length - row))
    ids[row, :used] = rng.permutation(num_ids)[:used]
  dense = rng.normal(size=(rows, width)).astype(np.float32)
  return classifiers.Inputs(tf.constant(ids), tf.constant(dense))


def _weights(model, seed=3):
  """Weights none of which is zero, so that each has a part in the result."""
  rng = np.random.default_rng(seed)
  return [
    rng.normal(scale=0.3, size=weight.shape).astype(np.float32)
    for weight in model.initial_weights(0)
  ]


def _keras_inputs(model, inputs):
  given = {'ids': inputs.ids} if model.num_ids else {}
  return given | ({'dense': inputs.dense} if model.width else {})


_SLOW_TO_SAVE = [
  pytest.param('lstm_network', 6, 0, 2, marks=pytest.mark.slow),
  pytest.param('lstm_network', 6, 0, 5, marks=pytest.mark.slow),
  pytest.param('lstm_network', 6, _WIDTH, 5, marks=pytest.mark.slow),
]
_ALL_MODELS = itertools.product(classifiers.NAMES, [0, 6], [0, _WIDTH], [2, 5])


@pytest.mark.parametrize(
  ('name', 'embedding_size', 'width', 'num_classes'),
  [
    *(
      each for each in _ALL_MODELS if each not in [one.values for one in _SLOW_TO_SAVE]
    ),
    *_SLOW_TO_SAVE,
  ],
)
def test_a_model_equals_its_keras_twin_also_after_saving(
  name, embedding_size, width, num_classes, tmp_path
):
  model = _model(
    name,
    width=width,
    embedding_size=embedding_size,
    num_classes=num_classes,
    dropout=0.5,
  )
  inputs, weights = _inputs(width=width), _weights(model)
  logits = model.logits(weights, inputs)
  assert logits.shape == (6, 1 if num_classes == 2 else num_classes)
  twin = model.to_keras(weights)
  np.testing.assert_allclose(
    twin(_keras_inputs(model, inputs)), logits, rtol=1e-4, atol=1e-5
  )
  twin.save(tmp_path / 'model.keras')
  loaded = tf.keras.models.load_model(tmp_path / 'model.keras')
  np.testing.assert_allclose(
    loaded(_keras_inputs(model, inputs)), logits, rtol=1e-4, atol=1e-5
  )


def test_a_model_of_dense_numbers_alone_equals_its_keras_twin():
  model = _model('network', num_ids=0)
  inputs, weights = _inputs(num_ids=0, length=0), _weights(model)
  twin = model.to_keras(weights)
  np.testing.assert_allclose(
    twin({'dense': inputs.dense}), model.logits(weights, inputs), rtol=1e-4, atol=1e-5
  )


def test_a_bag_is_the_product_of_a_count_vector_with_the_kernel():
  model = _model('logistic')
  ids = tf.constant([[3, 3, 7, _NUM_IDS], [_NUM_IDS] * 4], tf.int32)
  inputs = classifiers.Inputs(ids, tf.zeros([2, _WIDTH]))
  id_kernel, dense_kernel, bias = _weights(model)
  assert id_kernel.shape == (_NUM_IDS, 1) and dense_kernel.shape == (_WIDTH, 1)
  expected = [2 * id_kernel[3] + id_kernel[7] + bias, bias]
  np.testing.assert_allclose(
    model.logits([id_kernel, dense_kernel, bias], inputs), expected, rtol=1e-5
  )


@pytest.mark.parametrize('embedding_size', [0, 6])
@pytest.mark.parametrize('name', classifiers.NAMES)
def test_padding_changes_neither_logits_nor_gradients(name, embedding_size):
  model = _model(name, embedding_size=embedding_size)
  inputs, weights = _inputs(), [tf.constant(weight) for weight in _weights(model)]
  longer = classifiers.Inputs(
    tf.pad(inputs.ids, [[0, 0], [0, 5]], constant_values=_NUM_IDS), inputs.dense
  )

  def gradients(given):
    with tf.GradientTape() as tape:
      tape.watch(weights)
      loss = tf.reduce_sum(model.logits(weights, given) ** 2)
    return [tf.convert_to_tensor(each) for each in tape.gradient(loss, weights)]

  for ours, padded in zip(gradients(inputs), gradients(longer), strict=True):
    np.testing.assert_allclose(ours, padded, rtol=1e-4, atol=1e-5)
    assert np.abs(ours).max() > 0


@pytest.mark.parametrize('embedding_size', [0, 6])
def test_dropout_follows_its_seed_and_is_off_without_one(embedding_size):
  model = _model('network', embedding_size=embedding_size, dropout=0.5)
  inputs, weights = _inputs(), _weights(model)
  seeds = [tf.constant(seed, tf.int32) for seed in ([1, 2], [1, 2], [1, 3])]
  first, again, other = (model.logits(weights, inputs, seed) for seed in seeds)
  np.testing.assert_array_equal(first, again)
  assert np.abs(first - other).max() > 1e-3
  assert np.abs(first - model.logits(weights, inputs)).max() > 1e-3


def test_initial_weights_are_a_function_of_the_seed():
  model = _model('lstm_network', embedding_size=6)
  first, again, other = (model.initial_weights(seed) for seed in (0, 0, 1))
  for a, b in zip(first, again, strict=True):
    np.testing.assert_array_equal(a, b)
  assert np.abs(first[0] - other[0]).max() > 0
  assert sum(weight.size for weight in first) == model.num_parameters


def test_logistic_regression_starts_at_zero_and_with_an_embedding_it_does_not():
  assert not any(weight.any() for weight in _model('logistic').initial_weights(0))
  embedded = _model('logistic', embedding_size=6).initial_weights(0)
  assert all(weight.any() for weight in embedded[:2])


def test_the_paper_s_network_has_its_sizes():
  shapes = [weight.shape for weight in _model('network', width=0).initial_weights(0)]
  assert shapes == [
    (_NUM_IDS, 100), (100,), (100, 50), (50,), (50, 25), (25,), (25, 1), (1,)
  ]  # fmt: skip
  lstm = _model('lstm_network', width=0, embedding_size=8).initial_weights(0)
  assert [weight.shape for weight in lstm[:4]] == [
    (_NUM_IDS, 8), (8, 200), (50, 200), (200,)
  ]  # fmt: skip


def test_one_logit_and_two_give_the_same_loss_and_prediction():
  logit = tf.constant([[2.0], [-1.0], [0.5]])
  labels = tf.constant([1, 1, 0])
  both = tf.concat([tf.zeros_like(logit), logit], axis=1)
  np.testing.assert_allclose(
    classifiers.losses(logit, labels), classifiers.losses(both, labels), rtol=1e-6
  )
  np.testing.assert_allclose(
    classifiers.losses(logit, labels), np.log1p(np.exp([-2.0, 1.0, 0.5])), rtol=1e-6
  )
  assert classifiers.predictions(logit).numpy().tolist() == [1, 0, 1]
  assert classifiers.predictions(both).numpy().tolist() == [1, 0, 1]
