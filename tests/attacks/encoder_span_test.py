"""An encoder's first kernel tells its texts, token by token and in their order."""

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv.attacks import gradient_inversion, kernel_span
from tff_textpriv.models import classifiers, encoders, sequence_presets

_WORDS = 200
_MODEL = encoders.Encoder(
  _WORDS,
  0,
  3,
  dropout=0.0,
  embedding_size=32,
  size=sequence_presets.ENCODERS['encoder_tiny'],
)


@pytest.fixture(scope='module')
def weights():
  table, *shared = _MODEL.initial_weights(3)
  rng = np.random.default_rng(4)
  table = rng.normal(size=table.shape).astype(np.float32)
  shared[0] = rng.normal(scale=0.3, size=shared[0].shape).astype(np.float32)
  # Scale and shift as a checkpoint has them, not those of the start.
  shared[1] = rng.uniform(0.5, 1.5, shared[1].shape).astype(np.float32)
  shared[2] = rng.normal(scale=0.1, size=shared[2].shape).astype(np.float32)
  return [table, *shared]


def _kernel_gradients(weights, ids):
  tensors = [tf.constant(weight) for weight in weights]
  inputs = classifiers.Inputs(tf.constant(ids), tf.zeros([len(ids), 0]))
  with tf.GradientTape() as tape:
    tape.watch(tensors[1:])
    logits = _MODEL.logits(tensors, inputs)
    loss = tf.reduce_mean(
      classifiers.losses(logits, tf.constant(np.arange(len(ids)) % 3))
    )
  found = tape.gradient(loss, tensors[1:], unconnected_gradients='zero')
  return [tf.convert_to_tensor(one).numpy() for one in found]


def _read(weights, ids, table, shared=None):
  span = gradient_inversion.find_span(
    _MODEL, _kernel_gradients(weights, ids), np.count_nonzero(ids < _WORDS)
  )
  return kernel_span.read_places(
    span,
    kernel_span.PlacedTable(table),
    (shared or weights[1:])[:3],
    np.count_nonzero(ids < _WORDS, axis=0),
  )


def test_what_is_compared_with_a_span_is_what_the_model_reads(weights):
  table, *shared = weights
  seen = []

  def spying(hidden, own):
    seen.append(hidden)
    return tf.tensordot(hidden, next(own), 1) + next(own)

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(encoders.transformer_parts, 'dense', spying)
    encoders.hidden_states(
      _MODEL.size, shared[:-4], table[None, [7, 9]], np.ones((1, 2), bool)
    )
  # Against a plane, what is outside of it tells vectors apart.
  rng = np.random.default_rng(6)
  basis, _ = np.linalg.qr(rng.normal(size=(32, 2)))
  span = kernel_span.Span(basis.T, 32, np.ones(2), 2)
  placed = kernel_span.PlacedTable(table).residuals(span, shared[0][:2], *shared[1:3])
  for place, (row, found) in enumerate(zip((7, 9), placed, strict=True)):
    expected = span.residuals(np.asarray(seen[0][0, place : place + 1], np.float64))
    np.testing.assert_allclose(found[row], expected[0], atol=1e-5)


def test_a_text_is_read_in_its_order(weights):
  ids = np.array([[7, 21, 3, 7, 40, 155, 90]], np.int32)
  np.testing.assert_array_equal(_read(weights, ids, weights[0]), ids[0])


def test_a_batch_is_read_as_a_bag_of_tokens(weights):
  # Padding is an id beyond the table.
  ids = np.array([[7, 21, 3, 40], [8, 21, 60, _WORDS], [11, 5, 3, _WORDS]], np.int32)
  found = _read(weights, ids, weights[0])
  read = set(ids[ids < _WORDS])
  assert len(set(found)) == len(found) == 10
  # Two tokens are there twice: the last two names are those of others.
  assert set(found[: len(read)]) == read


def test_an_unrelated_table_or_other_positions_tell_nothing(weights):
  table, *shared = weights
  ids = np.array([[7, 21, 3, 190, 40, 155, 90]], np.int32)
  rng = np.random.default_rng(5)
  assert (_read(weights, ids, rng.permutation(table)) != ids[0]).all()
  other = [rng.permutation(shared[0]), *shared[1:]]
  assert (_read(weights, ids, table, other) != ids[0]).any()
