"""Keras models as pure functions of their weights."""

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import own_models
from tff_textpriv.models import classifiers

layers = tf.keras.layers


def _language_model(*, cell=layers.LSTM, last=None):
  tokens = tf.keras.Input([None], dtype=tf.int32)
  hidden = cell(5, return_sequences=True)(layers.Embedding(9, 4)(tokens))
  return tf.keras.Model(tokens, (last or layers.Dense(9))(hidden))


def _classifier(*more):
  return tf.keras.Sequential(
    [tf.keras.Input([None], dtype=tf.int32), layers.Embedding(8, 3), *more]
  )


def _others(weights):
  rng = np.random.default_rng(0)
  return [rng.normal(size=weight.shape).astype(np.float32) for weight in weights]


@pytest.mark.parametrize('cell', [layers.LSTM, layers.GRU])
def test_a_language_model_computes_what_keras_does_with_any_weights(cell):
  keras = _language_model(cell=cell)
  model = own_models.language_model(keras, 9)
  weights = _others(model.initial_weights(0))
  tokens = np.array([[1, 5, 8], [2, 3, 4]], np.int32)
  first = keras.get_weights()
  logits = tf.function(model.logits)(weights, tokens)
  np.testing.assert_allclose(logits, model.to_keras(weights)(tokens), atol=1e-5)
  for weight, before in zip(keras.get_weights(), first, strict=True):
    np.testing.assert_array_equal(weight, before)


def test_gradients_reach_all_weights():
  model = own_models.language_model(_language_model(), 9)
  weights = [tf.constant(weight) for weight in model.initial_weights(0)]
  with tf.GradientTape() as tape:
    tape.watch(weights)
    loss = tf.reduce_sum(model.logits(weights, tf.constant([[1, 2]])) ** 2)
  for gradient in tape.gradient(loss, weights):
    assert np.any(tf.convert_to_tensor(gradient))


def test_a_classifier_reads_a_dictionary_or_its_only_feature():
  pooled = _classifier(layers.GlobalAveragePooling1D(), layers.Dense(1))
  named = tf.keras.Input([None], dtype=tf.int32, name='ids')
  ids = np.array([[0, 7]], np.int32)
  inputs = classifiers.Inputs(ids, np.zeros((1, 0), np.float32))
  for keras in (pooled, tf.keras.Model({'ids': named}, pooled(named))):
    model = own_models.classifier(keras, 7, 0, 2)
    logits = model.logits(model.initial_weights(0), inputs)
    np.testing.assert_allclose(logits, pooled(ids), atol=1e-6)


def test_dropout_is_at_work_in_training_only():
  keras = _classifier(
    layers.Dropout(0.5), layers.GlobalAveragePooling1D(), layers.Dense(1)
  )
  model = own_models.classifier(keras, 7, 0, 2)
  inputs = classifiers.Inputs(np.arange(7)[np.newaxis], np.zeros((1, 0)))
  weights = model.initial_weights(0)
  seed = tf.zeros([2], tf.int32)
  trained = {float(model.logits(weights, inputs, seed)) for _ in range(5)}
  assert len(trained) > 1
  assert len({float(model.logits(weights, inputs)) for _ in range(5)}) == 1


@pytest.mark.parametrize(
  ('make', 'message'),
  [
    (
      lambda: own_models.language_model(_language_model(), 8),
      'must give 8 logits',
    ),
    (
      lambda: own_models.language_model(
        _language_model(last=layers.Dense(9, 'softmax')), 9
      ),
      'must end with one Dense layer',
    ),
    (
      lambda: own_models.classifier(
        _classifier(
          layers.BatchNormalization(),
          layers.GlobalAveragePooling1D(),
          layers.Dense(1),
        ),
        7,
        0,
        2,
      ),
      'weights that are not trained',
    ),
    (
      lambda: own_models.classifier(
        _classifier(layers.GlobalAveragePooling1D(), layers.Dense(1)), 7, 2, 2
      ),
      'must read a dictionary of dense and ids',
    ),
    (
      lambda: own_models.classifier(tf.keras.Sequential([layers.Dense(1)]), 7, 0, 2),
      'with an Input',
    ),
  ],
)
def test_what_cannot_be_trained_here_is_refused(make, message):
  with pytest.raises(settings_lib.SettingsError, match=message):
    make()


def test_an_own_language_model_is_not_sampled():
  model = own_models.language_model(_language_model(), 9)
  with pytest.raises(settings_lib.SettingsError, match='cannot be sampled'):
    model.initial_state(1, 1)
