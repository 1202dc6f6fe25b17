"""The fused output layer and loss against TensorFlow's own functions."""

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv.models import output_layer


def _problem(tied):
  rng = np.random.default_rng(0)
  hidden, kernel, bias = (
    tf.constant(rng.normal(size=shape), tf.float32)
    for shape in ([3, 4, 5], [7, 5] if tied else [5, 7], [7])
  )
  targets = tf.constant(rng.integers(0, 7, (3, 4)), tf.int32)
  mask = tf.constant(
    [[True, True, True, True], [True, False, False, False], [False] * 4]
  )
  return hidden, kernel, bias, targets, mask


def _reference(hidden, kernel, bias, targets, mask, tied):
  logits = tf.einsum('bte,ve->btv' if tied else 'bte,ev->btv', hidden, kernel) + bias
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
  return tf.reduce_mean(tf.boolean_mask(losses, mask))


@pytest.mark.parametrize('tied', [True, False])
def test_loss_and_gradients_equal_those_of_autodiff(tied):
  *inputs, targets, mask = _problem(tied)
  results = []
  for loss_of in (output_layer.masked_loss, _reference):
    with tf.GradientTape() as tape:
      tape.watch(inputs)
      loss = 3 * loss_of(*inputs, targets, mask, tied=tied)
    results.append([loss, *tape.gradient(loss, inputs)])
  for ours, theirs in zip(*results, strict=True):
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_a_loss_without_targets_is_zero_with_gradients_of_zero():
  *inputs, targets, mask = _problem(tied=False)
  with tf.GradientTape() as tape:
    tape.watch(inputs)
    loss = output_layer.masked_loss(*inputs, targets, tf.zeros_like(mask), tied=False)
  assert loss == 0
  assert all(not np.any(gradient) for gradient in tape.gradient(loss, inputs))


def test_a_hopeless_target_has_a_finite_loss_and_the_true_gradient():
  hidden, kernel = tf.constant([[1.0]]), tf.constant([[500.0, -500.0]])
  bias, targets = tf.zeros([2]), tf.constant([1])
  with tf.GradientTape() as tape:
    tape.watch(bias)
    loss = output_layer.token_losses(hidden, kernel, bias, targets, tied=False)
  assert np.isfinite(loss) and loss > 80
  np.testing.assert_allclose(tape.gradient(loss, bias), [1, -1], atol=1e-6)


def test_a_client_with_weights_that_are_no_numbers_is_not_made_to_look_sound():
  hidden, kernel = tf.constant([[np.nan]], tf.float32), tf.ones([1, 2])
  with tf.GradientTape() as tape:
    tape.watch(kernel)
    loss = output_layer.token_losses(
      hidden, kernel, tf.zeros([2]), tf.constant([1]), tied=False
    )
  assert np.isnan(tape.gradient(loss, kernel)).any()
