import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv.models import language_models, transformer_lm

_MODELS = [
  transformer_lm.TransformerLanguageModel(23, 12, 20, 3, 2, tied=True),
  transformer_lm.TransformerLanguageModel(23, 8, 12, 2, 1, tied=False),
]
_each_model = pytest.mark.parametrize('model', _MODELS, ids=['tied', 'untied'])


def _batch():
  tokens = np.random.default_rng(0).integers(1, 23, (4, 10)).astype(np.int32)
  tokens[1, 5:] = 0
  return tokens[:, :-1], tokens[:, 1:]


def _weights(model):
  """Weights without the zeros and ones of the start, so that each one matters."""
  rng = np.random.default_rng(1)
  return [
    tf.constant(weight + 0.1 * rng.standard_normal(weight.shape).astype(np.float32))
    for weight in model.initial_weights(seed=3)
  ]


def _loss(logits, targets):
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
  return tf.reduce_mean(tf.boolean_mask(losses, targets > 0))


@_each_model
def test_outputs_and_gradients_equal_those_of_the_keras_twin(model):
  inputs, targets = _batch()
  weights = _weights(model)
  with tf.GradientTape() as tape:
    tape.watch(weights)
    logits = model.logits(weights, inputs)
    loss = _loss(logits, targets)
  gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, weights)]
  # A gradient is laid out as its weight is.
  ours = model.keras_weights(gradients)

  twin = model.to_keras(weights)
  with tf.GradientTape() as tape:
    twin_logits = twin(inputs)
    loss = _loss(twin_logits, targets)
  theirs = [
    tf.convert_to_tensor(g).numpy()
    for g in tape.gradient(loss, twin.trainable_variables)
  ]
  if model.tied:
    # The twin writes the shared table out twice; its two gradients add up.
    total = theirs[0] + theirs[-2].T
    theirs[0], theirs[-2] = total, total.T

  np.testing.assert_allclose(logits, twin_logits, atol=1e-5)
  for our_gradient, their_gradient in zip(ours, theirs, strict=True):
    assert np.abs(their_gradient).max() > 0 or _is_key_bias(their_gradient, model)
    np.testing.assert_allclose(our_gradient, their_gradient, atol=1e-5)


def _is_key_bias(gradient, model):
  """A bias of the keys shifts all scores of a query alike: its gradient is 0."""
  return gradient.shape == (model.num_heads, model.width // model.num_heads)


@_each_model
def test_the_saved_twin_loads_without_this_package(model, tmp_path):
  inputs, _ = _batch()
  twin = model.to_keras(_weights(model))
  twin.save(tmp_path / 'model.keras')
  loaded = tf.keras.models.load_model(tmp_path / 'model.keras')
  np.testing.assert_array_equal(loaded(inputs), twin(inputs))
  kinds = {type(layer).__module__.split('.')[0] for layer in loaded.layers}
  assert kinds == {'keras'}
  assert not any(isinstance(layer, tf.keras.layers.Lambda) for layer in loaded.layers)


@_each_model
def test_a_token_changes_only_the_logits_from_its_place_on(model):
  inputs, _ = _batch()
  changed = inputs.copy()
  changed[:, 4] = (changed[:, 4] + 1) % 23
  weights = _weights(model)
  before, after = model.logits(weights, inputs), model.logits(weights, changed)
  np.testing.assert_array_equal(before[:, :4], after[:, :4])
  differences = np.abs(before - after).max(axis=2)
  assert (differences[:, 4:] > 1e-6).all()


@_each_model
def test_the_order_of_the_tokens_before_matters(model):
  tokens = np.array([[5, 6, 7, 8], [6, 5, 7, 8]], np.int32)
  logits = model.logits(_weights(model), tokens)
  assert np.abs(logits[0, -1] - logits[1, -1]).max() > 1e-3


@_each_model
@pytest.mark.parametrize('cuts', [[1, 2, 3, 4, 5, 6, 7, 8], [3], [1, 8], []])
def test_reading_in_steps_with_carried_state_equals_reading_at_once(model, cuts):
  inputs, _ = _batch()
  weights = _weights(model)
  state = model.initial_state(4, max_length=12)
  parts = []
  for part in np.split(inputs, cuts, axis=1):
    logits, state = model.step(weights, part, state)
    parts.append(logits)
  whole = model.logits(weights, inputs)
  np.testing.assert_allclose(tf.concat(parts, 1), whole, atol=1e-5)


@_each_model
def test_rows_picked_from_a_state_go_on_as_they_would_have(model):
  inputs, _ = _batch()
  weights = _weights(model)
  _, state = model.step(weights, inputs[:, :5], model.initial_state(4, 9))
  picked = tf.nest.map_structure(lambda part: tf.gather(part, [3, 1]), state)
  logits, _ = model.step(weights, inputs[[3, 1], 5:], picked)
  whole = model.logits(weights, inputs)
  np.testing.assert_allclose(logits, whole.numpy()[[3, 1], 5:], atol=1e-5)


def test_reading_beyond_the_room_of_a_state_is_an_error():
  model = _MODELS[0]
  inputs, _ = _batch()
  with pytest.raises(tf.errors.InvalidArgumentError):
    model.step(_weights(model), inputs, model.initial_state(4, max_length=8))


@_each_model
def test_initial_weights_are_a_function_of_the_seed(model):
  first, again, other = (model.initial_weights(seed) for seed in (1, 1, 2))
  assert [weight.shape for weight in first] == model.weight_shapes
  assert all(weight.dtype == np.float32 for weight in first)
  assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
  assert not np.array_equal(first[0], other[0])


@_each_model
def test_vocabulary_axes_are_those_with_a_slice_per_token(model):
  expected = {
    index: shape.index(23)
    for index, shape in enumerate(model.weight_shapes)
    if 23 in shape
  }
  assert model.vocabulary_axes == expected


@pytest.mark.parametrize('tied', [True, False])
def test_the_paper_preset_has_six_layers_and_the_size_of_the_lstm(tied):
  model = language_models.build('transformer_paper', 10_000, tied)
  lstm = language_models.build('lstm_paper', 10_000, tied)
  assert model.num_layers == 6
  assert model.num_parameters == pytest.approx(lstm.num_parameters, rel=0.01)
  assert 13.5e6 < model.num_parameters < 14.5e6


@_each_model
def test_a_few_steps_of_gradient_descent_lower_the_loss(model):
  inputs, targets = _batch()
  weights = [tf.Variable(weight) for weight in model.initial_weights(0)]
  losses = []
  for _ in range(20):
    with tf.GradientTape() as tape:
      loss = _loss(model.logits(weights, inputs), targets)
    for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
      weight.assign_sub(0.3 * tf.convert_to_tensor(gradient))
    losses.append(float(loss))
  assert losses[-1] < 0.7 * losses[0]
