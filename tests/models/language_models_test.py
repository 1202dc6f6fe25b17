import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv.models import language_models, presets, recurrent

_MODELS = [
  language_models.LstmLanguageModel(23, 6, 6, 2, tied=True),
  language_models.LstmLanguageModel(23, 6, 9, 1, tied=True),
  language_models.LstmLanguageModel(23, 6, 9, 2, tied=False),
  language_models.GruLanguageModel(23, 6, 6, 2, tied=True),
  language_models.GruLanguageModel(23, 6, 9, 1, tied=False),
]


def _batch():
  tokens = np.random.default_rng(0).integers(1, 23, (4, 8)).astype(np.int32)
  tokens[1, 5:] = 0
  return tokens[:, :-1], tokens[:, 1:]


def _loss(model, weights, inputs, targets):
  """The loss that models are trained on."""
  return language_models.next_token_loss(
    model.hidden(weights, inputs),
    *model.output_layer(weights),
    targets,
    tied=model.tied,
  )


def _twin_loss(logits, targets):
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
  return tf.reduce_mean(tf.boolean_mask(losses, targets > 0))


@pytest.mark.parametrize('model', _MODELS)
def test_outputs_and_gradients_equal_those_of_the_keras_twin(model):
  inputs, targets = _batch()
  weights = [tf.constant(weight) for weight in model.initial_weights(seed=3)]
  with tf.GradientTape() as tape:
    tape.watch(weights)
    logits = model.logits(weights, inputs)
    loss = _loss(model, weights, inputs, targets)
  ours = [tf.convert_to_tensor(g) for g in tape.gradient(loss, weights)]

  twin = model.to_keras(weights)
  with tf.GradientTape() as tape:
    twin_logits = twin(inputs)
    loss = _twin_loss(twin_logits, targets)
  theirs = [
    tf.convert_to_tensor(g) for g in tape.gradient(loss, twin.trainable_variables)
  ]
  if model.tied:
    # The twin writes the shared table out twice; its two gradients add up.
    theirs = [theirs[0] + tf.transpose(theirs[-2]), *theirs[1:-2], theirs[-1]]

  np.testing.assert_allclose(logits, twin_logits, atol=1e-6)
  for our_gradient, their_gradient in zip(ours, theirs, strict=True):
    np.testing.assert_allclose(our_gradient, their_gradient, atol=1e-6)


@pytest.mark.parametrize('model', _MODELS)
def test_initial_weights_are_a_function_of_the_seed(model):
  first, again, other = (model.initial_weights(seed) for seed in (1, 1, 2))
  assert [weight.shape for weight in first] == model.weight_shapes
  assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
  assert not np.array_equal(first[0], other[0])


@pytest.mark.parametrize('model', _MODELS)
def test_reading_in_two_steps_with_carried_state_equals_reading_at_once(model):
  inputs, _ = _batch()
  weights = model.initial_weights(seed=3)
  whole = model.logits(weights, inputs)
  first, state = model.step(weights, inputs[:, :3], model.initial_state(4, 7))
  second, _ = model.step(weights, inputs[:, 3:], state)
  np.testing.assert_allclose(tf.concat([first, second], 1), whole, atol=1e-6)


@pytest.mark.parametrize(('dtype', 'atol'), [(tf.float64, 1e-6), (tf.float32, 1e-2)])
def test_the_state_gets_its_gradient_too(dtype, atol):
  rng = np.random.default_rng(0)
  inputs, kernel, recurrent_kernel, bias, h, c = (
    tf.constant(rng.normal(size=shape), dtype)
    for shape in [(3, 2, 4), (4, 20), (5, 20), (20,), (2, 5), (2, 5)]
  )

  def run(h, c):
    outputs, (last_h, last_c) = recurrent.lstm(
      inputs, kernel, recurrent_kernel, bias, (h, c)
    )
    return tf.reduce_sum(outputs**2) + tf.reduce_sum(last_h * last_c)

  theoretical, numerical = tf.test.compute_gradient(run, [h, c])
  for ours, measured in zip(theoretical, numerical, strict=True):
    np.testing.assert_allclose(ours, measured, atol=atol)


def test_padding_does_not_count_in_the_loss():
  inputs, targets = _batch()
  model = _MODELS[0]
  weights = model.initial_weights(0)
  logits = model.logits(weights, inputs)
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits).numpy()
  expected = losses[targets != 0].mean()
  assert float(_loss(model, weights, inputs, targets)) == pytest.approx(expected)
  assert float(_loss(model, weights, inputs, np.zeros_like(targets))) == 0


@pytest.mark.parametrize('tied', [True, False])
@pytest.mark.parametrize('preset', ['gru_tiny', 'lstm_tiny', 'transformer_tiny'])
def test_dropout_is_a_function_of_its_seed_and_leaves_evaluation_alone(preset, tied):
  inputs, _ = _batch()
  plain = language_models.build(preset, 23, tied)
  model = language_models.build(preset, 23, tied, dropout=0.5)
  weights = model.initial_weights(seed=3)
  whole = plain.logits(weights, inputs)
  np.testing.assert_array_equal(model.logits(weights, inputs), whole)
  first, again, other = (
    model.hidden(weights, inputs, dropout_seed=np.array([1, seed], np.int32)).numpy()
    for seed in (1, 1, 2)
  )
  np.testing.assert_array_equal(first, again)
  hidden = plain.hidden(weights, inputs)
  assert np.abs(first - hidden).max() > 0.1 and np.abs(first - other).max() > 0.1
  # The twin drops in the same places: the exported model can be trained on.
  twin = model.to_keras(weights)
  np.testing.assert_allclose(twin(inputs), whole, atol=1e-5)
  assert np.abs(twin(inputs, training=True) - whole).max() > 0.1


def test_the_gru_presets_have_the_widths_of_the_paper():
  for name, width in (('small', 300), ('medium', 650), ('large', 1500)):
    for tied in (True, False):
      shapes = language_models.build(f'gru_{name}', 10_000, tied).weight_shapes
      assert shapes[:2] == [(10_000, width), (width, 3 * width)]
      assert ((width, 10_000) in shapes) != tied


@pytest.mark.parametrize('tied', [True, False])
def test_the_paper_preset_has_three_layers_and_14_million_parameters(tied):
  model = language_models.build('lstm_paper', 10_000, tied)
  assert model.num_layers == 3
  assert 13.5e6 < model.num_parameters < 14.5e6


@pytest.mark.parametrize('model', _MODELS)
def test_vocabulary_axes_are_those_with_a_slice_per_token(model):
  expected = {
    index: shape.index(23)
    for index, shape in enumerate(model.weight_shapes)
    if 23 in shape
  }
  assert model.vocabulary_axes == expected


def test_trimming_drops_only_padding():
  tokens = np.array([[5, 6, 7, 0, 0], [5, 0, 0, 0, 0], [0, 0, 0, 0, 0]], np.int32)
  np.testing.assert_array_equal(language_models.trim(tokens), [[5, 6, 7], [5, 0, 0]])


@pytest.mark.parametrize('tied', [True, False])
@pytest.mark.parametrize('preset', presets.PRESETS)
def test_a_preset_resized_is_the_preset_built_for_that_size(preset, tied):
  model = language_models.build(preset, 23, tied)
  assert model.resized(23) == model
  assert model.resized(31) == language_models.build(preset, 31, tied)
  changed = {
    index: (before, after)
    for index, (before, after) in enumerate(
      zip(model.weight_shapes, model.resized(31).weight_shapes, strict=True)
    )
    if before != after
  }
  assert changed.keys() == model.vocabulary_axes.keys()


def test_the_names_of_the_presets_cost_no_import_of_tensorflow():
  script = (
    'import sys; from tff_textpriv.models import presets;'
    'sys.exit("tensorflow" in sys.modules or "lstm_tiny" not in presets.PRESETS)'
  )
  subprocess.run([sys.executable, '-c', script], check=True)


@pytest.mark.parametrize('preset', ['lstm_tiny', 'gru_tiny', 'transformer_tiny'])
@pytest.mark.parametrize('tied', [True, False])
def test_models_of_different_vocabularies_start_with_the_same_layers(preset, tied):
  small, large = (language_models.build(preset, size, tied) for size in (300, 700))
  pairs = zip(small.initial_weights(3), large.initial_weights(3), strict=True)
  for index, (ours, theirs) in enumerate(pairs):
    if index not in small.vocabulary_axes:
      np.testing.assert_array_equal(ours, theirs)
  # Rows of the embedding, too, as far as both have them.
  np.testing.assert_array_equal(
    small.initial_weights(3)[0], large.initial_weights(3)[0][:300]
  )
