"""The fast recurrent layers against Keras's own: outputs, gradients, exports."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv.models import recurrent, recurrent_layers

_PAIRS = {
  'lstm': (recurrent_layers.FastLSTM, tf.keras.layers.LSTM),
  'gru': (recurrent_layers.FastGRU, tf.keras.layers.GRU),
}
# Rows of all kinds: full, cut off, with a gap, beginning late, empty.
_MASK = np.array(
  [
    [1, 1, 1, 1, 1, 1],
    [1, 1, 1, 0, 0, 0],
    [1, 0, 1, 1, 0, 0],
    [0, 0, 1, 1, 1, 1],
    [0] * 6,
  ],
  bool,
)


def _inputs(seed=0, features=5):
  rng = np.random.default_rng(seed)
  return tf.constant(rng.normal(size=(5, 6, features)), tf.float32)


def _randomized(layer):
  """Gives a built layer weights that are nowhere zero."""
  rng = np.random.default_rng(1)
  layer.set_weights([rng.normal(0, 0.5, w.shape) for w in layer.get_weights()])


def _outputs_and_gradients(layer, inputs, **arguments):
  """Returns a layer's outputs and the gradients of a loss on all of them."""
  with tf.GradientTape() as tape:
    tape.watch(inputs)
    outputs = tf.nest.flatten(layer(inputs, **arguments))
    loss = tf.add_n(
      [tf.reduce_sum(tf.sin(out) * (i + 1)) for i, out in enumerate(outputs)]
    )
  return outputs, tape.gradient(loss, [inputs, *layer.trainable_variables])


def _assert_equal_layers(fast, plain, inputs, **arguments):
  ours = _outputs_and_gradients(fast, inputs, **arguments)
  theirs = _outputs_and_gradients(plain, inputs, **arguments)
  for part, twin in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs), strict=True):
    np.testing.assert_allclose(part, twin, atol=1e-5)


def _pair(kind, inputs, **options):
  fast, plain = (make(4, **options) for make in _PAIRS[kind])
  fast(inputs), plain(inputs)
  _randomized(fast)
  plain.set_weights(fast.get_weights())
  return fast, plain


@pytest.mark.parametrize('kind', _PAIRS)
@pytest.mark.parametrize('mask', [None, _MASK], ids=['all', 'masked'])
@pytest.mark.parametrize('backwards', [False, True], ids=['forward', 'backward'])
@pytest.mark.parametrize('sequences', [False, True], ids=['last', 'sequences'])
def test_outputs_states_and_gradients_equal_keras(kind, mask, backwards, sequences):
  inputs = _inputs()
  fast, plain = _pair(
    kind,
    inputs,
    return_sequences=sequences,
    return_state=True,
    go_backwards=backwards,
  )
  _assert_equal_layers(fast, plain, inputs, mask=mask)


@pytest.mark.parametrize('kind', _PAIRS)
@pytest.mark.parametrize('mask', [None, _MASK], ids=['all', 'masked'])
def test_a_carried_state_equals_keras(kind, mask):
  inputs = _inputs()
  fast, plain = _pair(kind, inputs, return_sequences=True, return_state=True)
  rng = np.random.default_rng(2)
  count = 2 if kind == 'lstm' else 1
  state = [tf.constant(rng.normal(size=(5, 4)), tf.float32) for _ in range(count)]
  _assert_equal_layers(
    fast, plain, inputs, mask=mask, initial_state=state if count > 1 else state[0]
  )


@pytest.mark.parametrize('kind', _PAIRS)
def test_the_gradient_of_a_carried_state_equals_keras(kind):
  inputs = _inputs()
  fast, plain = _pair(kind, inputs, return_sequences=True)
  rng = np.random.default_rng(2)
  count = 2 if kind == 'lstm' else 1
  state = [tf.constant(rng.normal(size=(5, 4)), tf.float32) for _ in range(count)]
  gradients = []
  for layer in (fast, plain):
    with tf.GradientTape() as tape:
      tape.watch(state)
      out = layer(inputs, mask=_MASK, initial_state=state if count > 1 else state[0])
      loss = tf.reduce_sum(tf.sin(out))
    gradients.append(tape.gradient(loss, state))
  for ours, theirs in zip(*gradients, strict=True):
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_a_wrong_mask_would_be_noticed():
  inputs = _inputs()
  fast, plain = _pair('lstm', inputs, return_sequences=True)
  shifted = np.roll(_MASK, 1, axis=1)
  with pytest.raises(AssertionError):
    np.testing.assert_allclose(
      fast(inputs, mask=shifted), plain(inputs, mask=_MASK), atol=1e-5
    )


def _stacked(make, **options):
  layers = tf.keras.layers
  return tf.keras.Sequential(
    [
      layers.Embedding(30, 5, mask_zero=True),
      layers.Bidirectional(make(4, return_sequences=True, **options)),
      layers.Bidirectional(make(3, **options)),
      layers.Dense(2),
    ]
  )


@pytest.mark.parametrize('kind', ['lstm', pytest.param('gru', marks=pytest.mark.slow)])
def test_two_bidirectional_layers_under_a_mask_equal_keras(kind):
  tokens = np.random.default_rng(3).integers(1, 30, (5, 6)) * _MASK
  fast, plain = (_stacked(make) for make in _PAIRS[kind])
  fast(tokens), plain(tokens)
  plain.set_weights(fast.get_weights())
  gradients = []
  for model in (fast, plain):
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(tf.sin(model(tokens)))
    gradients.append(tape.gradient(loss, model.trainable_variables))
  np.testing.assert_allclose(fast(tokens), plain(tokens), atol=1e-5)
  for ours, theirs in zip(*gradients, strict=True):
    np.testing.assert_allclose(
      tf.convert_to_tensor(ours), tf.convert_to_tensor(theirs), atol=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize('kind', _PAIRS)
def test_an_exported_model_loads_without_this_package(kind, tmp_path):
  tokens = np.random.default_rng(3).integers(1, 30, (5, 6)) * _MASK
  model = _stacked(_PAIRS[kind][0])
  expected = model(tokens)
  recurrent_layers.plain_keras(model).save(tmp_path / 'model.keras')
  np.save(tmp_path / 'tokens.npy', tokens)
  program = (
    'import sys, numpy as np, tensorflow as tf\n'
    "sys.modules['tff_textpriv'] = None\n"
    "model = tf.keras.models.load_model('model.keras')\n"
    "np.save('outputs.npy', model(np.load('tokens.npy')))\n"
  )
  subprocess.run(
    [sys.executable, '-c', program], cwd=tmp_path, check=True, capture_output=True
  )
  np.testing.assert_allclose(np.load(tmp_path / 'outputs.npy'), expected, atol=1e-6)


@pytest.mark.parametrize(
  ('make', 'options', 'named'),
  [
    (recurrent_layers.FastLSTM, {'dropout': 0.5}, 'dropout'),
    (recurrent_layers.FastGRU, {'activation': 'relu'}, 'activation'),
    (recurrent_layers.FastGRU, {'reset_after': False}, 'reset_after'),
    (recurrent_layers.FastLSTM, {'stateful': True}, 'stateful'),
  ],
)
def test_an_option_that_it_lacks_is_refused(make, options, named):
  with pytest.raises(ValueError, match=named):
    make(4, **options)


@pytest.mark.parametrize('shape', [(0, 2), (2, 0), (0, 0)])
@pytest.mark.parametrize('run', [recurrent.lstm, recurrent.gru])
def test_no_steps_or_no_rows_leave_the_state_and_give_zero_gradients(run, shape):
  gates = 4 if run is recurrent.lstm else 3
  bias_shape = [4 * 3] if run is recurrent.lstm else [2, 3 * 3]
  weights = [
    tf.ones([5, gates * 3]),
    tf.ones([3, gates * 3]),
    tf.ones(bias_shape),
  ]
  with tf.GradientTape() as tape:
    tape.watch(weights)
    outputs, state = run(tf.zeros([*shape, 5]), *weights)
    loss = tf.reduce_sum(outputs) + tf.reduce_sum(tf.nest.flatten(state)[0])
  gradients = tape.gradient(
    loss, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO
  )
  assert outputs.shape == (*shape, 3)
  assert all(not np.any(gradient) for gradient in gradients)


def test_the_gradient_of_the_gradient_of_an_lstm_without_a_mask_is_refused():
  weights = [tf.ones([5, 12]), tf.ones([3, 12]), tf.ones([12])]

  @tf.function(autograph=False)
  def second(inputs):
    with tf.GradientTape() as outer:
      outer.watch(inputs)
      with tf.GradientTape() as inner:
        inner.watch(inputs)
        outputs, _ = recurrent.lstm(inputs, *weights)
      first = inner.gradient(outputs, inputs)
    return outer.gradient(first, inputs)

  with pytest.raises(LookupError, match='has no gradient'):
    second(tf.ones([4, 2, 5]))
