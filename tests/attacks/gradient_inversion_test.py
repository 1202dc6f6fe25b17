"""Gradient inversion: what leaks without a defence, and what does not."""

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv.attacks import (
  class_counts,
  discrete_moves,
  gradient_inversion,
  kernel_span,
  public_text,
  scores,
  targets,
)
from tff_textpriv.attacks.inversion_settings import InversionSettings
from tff_textpriv.models import classifiers, sequence_classifiers

_WORDS = 60
_MODEL = sequence_classifiers.BiLstmClassifier(
  _WORDS, 0, 3, embedding_size=12, dropout=0.0, units=16
)


def _weights(model=_MODEL):
  table, *shared = model.initial_weights(3)
  table = np.random.default_rng(4).normal(size=table.shape).astype(np.float32)
  return table, shared


def _gradients(table, shared, ids, labels, model=_MODEL):
  """The gradients of training, by the model's own path from ids to the loss."""
  tensors = [tf.constant(weight) for weight in (table, *shared)]
  inputs = classifiers.Inputs(tf.constant(ids), tf.zeros([len(ids), 0]))
  with tf.GradientTape() as tape:
    tape.watch(tensors)
    logits = model.logits(tensors, inputs)
    loss = tf.reduce_mean(classifiers.losses(logits, tf.constant(labels)))
  gradients = tape.gradient(loss, tensors)
  return [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]


def _recall(ids, found):
  return scores.score(
    [str(one) for one in ids], [str(one) for one in found], lambda _: False
  ).recall


_IDS = np.array([[7, 21, 3, 40, 55]], np.int32)


@pytest.fixture(name='inversion', scope='module')
def _inversion():
  table, shared = _weights()
  gradients = _gradients(table, shared, _IDS, [1])[1:]
  inverter = gradient_inversion.Inverter(_MODEL, InversionSettings(attack_steps=120))
  return inverter.invert(
    shared, gradients, np.ones((1, 5), bool), 1.0, np.random.default_rng(0)
  )


def test_the_whole_text_is_recovered_in_its_order_without_a_defence(inversion):
  table, _ = _weights()
  found = gradient_inversion.nearest_rows(inversion.embeddings, table)
  np.testing.assert_array_equal(found, _IDS)
  np.testing.assert_array_equal(inversion.labels, [[0, 1, 0]])


def test_discrete_moves_repair_a_text_that_gradients_do_not_fit():
  table, shared = _weights()
  gradients = _gradients(table, shared, _IDS, [1])[1:]
  inverter = gradient_inversion.Inverter(_MODEL, InversionSettings())
  misfit = inverter.misfit(
    shared, gradients, np.ones((1, 5), bool), np.array([[0.0, 1.0, 0.0]])
  )
  assert misfit(table[_IDS]) < 1e-6
  # Two tokens have changed places, and one is another.
  (found,) = discrete_moves.improve(
    [np.array([21, 7, 3, 40, 9])],
    lambda texts: misfit(table[np.stack(texts)]),
    public_text.PublicText([np.arange(_WORDS)], _WORDS),
    lambda text, place: np.array([9, 55, 30]),
    weight=0.0,
    moves=150,
    rng=np.random.default_rng(0),
  )
  np.testing.assert_array_equal(found, _IDS[0])


def test_an_unrelated_table_tells_nothing_about_the_tokens(inversion):
  rng = np.random.default_rng(1)
  table, _ = _weights()
  recalls = [
    _recall(
      _IDS[0],
      gradient_inversion.nearest_rows(inversion.embeddings[0], rng.permutation(table)),
    )
    for _ in range(200)
  ]
  # Five guesses among 60 words: 1/12 of the tokens, give or take.
  assert np.mean(recalls) == pytest.approx(5 / 60, abs=4 * 0.13 / np.sqrt(200))


def test_the_gradient_of_another_batch_gives_another_text():
  table, shared = _weights()
  others = np.array([[1, 2, 30, 14, 59]], np.int32)
  gradients = _gradients(table, shared, others, [2])
  span = kernel_span.of_gradients([gradients[1], gradients[4]], num_tokens=5)
  assert _recall(_IDS[0], kernel_span.read_tokens(span, table)) == 0.0
  assert _recall(others[0], kernel_span.read_tokens(span, table)) == 1.0


def test_embeddings_are_another_way_into_the_same_model():
  layered = classifiers.LayeredClassifier(
    _WORDS, 0, 2, hidden_units=(5,), lstm_units=6, embedding_size=4
  )
  ids = np.array([[3, 9, 27], [1, 1, _WORDS]], np.int32)
  for model in (_MODEL, layered):
    table, shared = _weights(model)
    mask = ids < _WORDS
    embedded = tf.constant(table[np.minimum(ids, _WORDS - 1)])
    by_vectors = targets.logits_from_embeddings(
      model, shared, embedded, tf.constant(mask)
    )
    inputs = classifiers.Inputs(tf.constant(ids), tf.zeros([2, 0]))
    np.testing.assert_allclose(
      by_vectors, model.logits([table, *shared], inputs), atol=1e-5
    )


@pytest.mark.parametrize('classes', [[2], [0, 2, 2, 1], [1, 1, 1, 1, 0, 0]])
def test_classes_are_read_off_the_output_bias(classes):
  probabilities = np.random.default_rng(0).dirichlet([50, 50, 50], len(classes))
  gradient = np.mean(probabilities - np.eye(3)[classes], axis=0)
  labels = class_counts.infer_labels(gradient, len(classes), np.full(3, 1 / 3))
  np.testing.assert_array_equal(np.sort(labels.argmax(axis=1)), np.sort(classes))


@pytest.mark.parametrize('classes', [[0], [1], [1, 0, 0, 1, 1]])
def test_two_classes_are_read_off_one_output(classes):
  gradient = np.array([np.mean(0.52 - np.array(classes))])
  labels = class_counts.infer_labels(gradient, len(classes), np.array([0.5]))
  assert labels.sum() == sum(classes)


def test_soft_labels_are_fitted_along_with_the_embeddings():
  table, shared = _weights()
  ids = _IDS[:, :2]
  gradients = _gradients(table, shared, ids, [2])[1:]
  chosen = InversionSettings(
    labels='soft', attack_steps=100, attack_optimizer='adam', attack_step_size=0.3
  )
  inversion = gradient_inversion.Inverter(_MODEL, chosen).invert(
    shared, gradients, np.ones((1, 2), bool), 1.0, np.random.default_rng(0)
  )
  assert inversion.labels.argmax() == 2


def test_a_batch_is_recovered_within_the_span_of_its_embeddings():
  table, shared = _weights()
  ids = np.array([[5, 17, _WORDS], [33, 8, 50]], np.int32)
  gradients = _gradients(table, shared, ids, [0, 2])[1:]
  span = kernel_span.of_gradients([gradients[0], gradients[3]], num_tokens=5)
  candidates = kernel_span.read_tokens(span, table)
  assert sorted(candidates) == [5, 8, 17, 33, 50]
  inverter = gradient_inversion.Inverter(_MODEL, InversionSettings(attack_steps=80))
  inversion = inverter.invert(
    shared, gradients, ids < _WORDS, 1.0, np.random.default_rng(2)
  )
  found = gradient_inversion.nearest_rows(inversion.embeddings, table, candidates)
  assert _recall(ids[ids < _WORDS], found[ids < _WORDS]) >= 0.8
  assert not inversion.embeddings[0, 2].any()
