"""Classifiers of words in order: their Keras twins, masks, tables and checkpoints."""

import dataclasses
import json

import h5py
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from tff_textpriv.models import (
  classifiers,
  encoder_checkpoints,
  encoders,
  pretrained,
  sequence_classifiers,
  sequence_presets,
)

_TINY = sequence_presets.EncoderSize(8, 2, 2, 12, max_positions=16)
_IDS = np.array([[1, 2, 3, 7, 7], [4, 7, 7, 7, 7], [0, 6, 2, 5, 7]], np.int32)


def _models():
  bilstm = sequence_classifiers.BiLstmClassifier(7, 0, 3, 4, 0.5, 5)
  bert = sequence_presets.EncoderSize(8, 1, 4, 12, max_positions=16, kind='bert')
  return [
    bilstm,
    encoders.Encoder(7, 0, 3, 8, 0.1, _TINY),
    encoders.Encoder(7, 0, 2, 8, 0.1, bert),
  ]


def _weights(model, seed=0):
  """Weights in which nothing is zero, so that every one of them shows."""
  rng = np.random.default_rng(seed)
  return [
    weight + rng.normal(scale=0.3, size=weight.shape).astype(np.float32)
    for weight in model.initial_weights(seed)
  ]


def _logits(model, weights, ids, seed=None):
  inputs = classifiers.Inputs(tf.constant(ids), tf.zeros([len(ids), 0]))
  return model.logits([tf.constant(w) for w in weights], inputs, seed).numpy()


@pytest.mark.parametrize('model', _models(), ids=['bilstm', 'distilbert', 'bert'])
class TestSequenceClassifiers:
  def test_the_keras_twin_gives_the_same_logits(self, model, tmp_path):
    weights = _weights(model)
    model.to_keras(weights).save(tmp_path / 'model.keras')
    twin = tf.keras.models.load_model(tmp_path / 'model.keras')
    np.testing.assert_allclose(
      twin({'ids': _IDS}), _logits(model, weights, _IDS), atol=1e-5
    )

  def test_padding_changes_nothing(self, model):
    weights = _weights(model)
    wide = np.pad(_IDS, [(0, 0), (0, 4)], constant_values=7)
    together = _logits(model, weights, wide)
    for row, logits in zip(_IDS, together, strict=True):
      alone = _logits(model, weights, row[row < 7][np.newaxis])
      np.testing.assert_allclose(alone[0], logits, atol=1e-5)

  def test_the_order_of_words_matters(self, model):
    weights = _weights(model)
    ids = np.array([[1, 2, 3], [1, 3, 2]], np.int32)
    first, second = _logits(model, weights, ids)
    assert np.abs(first - second).max() > 1e-3

  def test_the_table_may_have_any_length_and_the_rest_does_not_depend_on_it(
    self, model
  ):
    other = dataclasses.replace(model, num_ids=3)
    for a, b in zip(
      model.initial_weights(5)[1:], other.initial_weights(5)[1:], strict=True
    ):
      np.testing.assert_array_equal(a, b)
    weights = _weights(model)
    # The same words in a table that has them in other rows, and a row more.
    order = np.array([3, 0, 6, 1, 5, 2, 4])
    table = np.concatenate([weights[0][order], weights[0][:1]])
    place = np.append(np.argsort(order), 8).astype(np.int32)
    np.testing.assert_allclose(
      _logits(model, [table, *weights[1:]], place[_IDS]),
      _logits(model, weights, _IDS),
      atol=1e-5,
    )

  def test_vectors_can_be_given_instead_of_words(self, model):
    weights = _weights(model)
    mask = _IDS < 7
    embedded = weights[0][np.minimum(_IDS, 6)]
    np.testing.assert_allclose(
      model.logits_from_embeddings(
        [tf.constant(w) for w in weights[1:]], tf.constant(embedded), tf.constant(mask)
      ),
      _logits(model, weights, _IDS),
      atol=1e-5,
    )

  def test_dropout_is_a_function_of_its_seed(self, model):
    weights = _weights(model)
    first, again, other = (
      _logits(model, weights, _IDS, tf.constant(seed))
      for seed in ([1, 2], [1, 2], [3, 4])
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-4

  def test_every_weight_has_a_gradient(self, model):
    weights = [tf.constant(weight) for weight in _weights(model)]
    inputs = classifiers.Inputs(tf.constant(_IDS), tf.zeros([3, 0]))
    with tf.GradientTape() as tape:
      tape.watch(weights)
      losses = classifiers.losses(model.logits(weights, inputs), tf.constant([0, 1, 1]))
    for gradient in tape.gradient(losses, weights):
      assert np.abs(tf.convert_to_tensor(gradient)).max() > 0


@pytest.mark.parametrize('model', _models(), ids=['bilstm', 'distilbert', 'bert'])
class TestUnknownWords:
  def test_one_that_is_read_as_zeros_stays_so_whatever_its_row_is(
    self, model, tmp_path
  ):
    """Noise on the row, as of a private federation, changes nothing either."""
    ids = np.array([[1, 6, 2], [6, 7, 7]], np.int32)
    zero = dataclasses.replace(model, zero_unknown=True)
    weights = _weights(model)
    blank, other = np.copy(weights[0]), np.copy(weights[0])
    blank[6], other[6] = 0, 5
    expected = _logits(model, [blank, *weights[1:]], ids)
    for table in (weights[0], other):
      np.testing.assert_allclose(
        _logits(zero, [table, *weights[1:]], ids), expected, atol=1e-5
      )
    assert np.abs(_logits(model, weights, ids) - expected).max() > 1e-3
    # To the Keras twin it is a word too, and no padding.
    zero.to_keras(weights).save(tmp_path / 'model.keras')
    twin = tf.keras.models.load_model(tmp_path / 'model.keras')
    np.testing.assert_allclose(twin({'ids': ids}), expected, atol=1e-5)
    assert _table_gradient(zero, weights, ids)[6].max() == 0
    assert _table_gradient(model, weights, ids)[6].max() > 0

  def test_ids_after_the_table_are_vectors_that_are_not_trained(self, model):
    weights = _weights(model)
    first = [weights[0][:4], *weights[1:]]
    vectors = tf.constant(weights[0][4:])
    reader = dataclasses.replace(model, reads_vectors=True)
    inputs = classifiers.Inputs(tf.constant(_IDS), tf.zeros([3, 0]), vectors)
    np.testing.assert_allclose(
      reader.logits(list(map(tf.constant, first)), inputs),
      _logits(model, weights, _IDS),
      atol=1e-5,
    )
    assert reader.extra_specs['vectors'].shape == [None, model.embedding_size]
    assert not model.extra_specs
    # Of all that is read, one word only is in the table.
    texts = np.array([[4, 5, 6], [1, 5, 4]], np.int32)
    gradient = _table_gradient(reader, first, texts, vectors)
    assert gradient[1].max() > 0
    assert gradient[[0, 2, 3]].max() == 0


def _table_gradient(model, weights, ids, vectors=None):
  weights = [tf.constant(weight) for weight in weights]
  inputs = classifiers.Inputs(tf.constant(ids), tf.zeros([len(ids), 0]), vectors)
  with tf.GradientTape() as tape:
    tape.watch(weights)
    logits = model.logits(weights, inputs)
    loss = tf.reduce_sum(classifiers.losses(logits, tf.constant([0, 1])))
  return np.abs(tf.convert_to_tensor(tape.gradient(loss, weights[0])))


def test_a_split_table_is_the_same_classifier():
  model = _models()[0]
  split = sequence_classifiers.SplitTableClassifier.of(model, 2)
  weights = _weights(model)
  parts = split.split(weights)
  assert [len(part) for part in parts[:2]] == [2, 5]
  np.testing.assert_allclose(
    _logits(split, parts, _IDS), _logits(model, weights, _IDS), atol=1e-6
  )
  assert [w.shape for w in split.initial_weights(0)] == [w.shape for w in parts]


def _checkpoint_tensors(kind, rng):
  """A checkpoint of `_TINY`'s shape under the names that Hugging Face uses."""
  shapes = {'embeddings.word_embeddings.weight': (7, 8)}
  shapes['embeddings.position_embeddings.weight'] = (16, 8)
  names = encoder_checkpoints._LAYERS[kind]
  norms = ['embeddings.LayerNorm']
  for layer in range(2):
    prefix = names[0].format(layer)
    for dense in (*names[1], names[2]):
      shapes |= {f'{prefix}{dense}.weight': (8, 8), f'{prefix}{dense}.bias': (8,)}
    shapes |= {f'{prefix}{names[4]}.weight': (12, 8), f'{prefix}{names[4]}.bias': (12,)}
    shapes |= {f'{prefix}{names[5]}.weight': (8, 12), f'{prefix}{names[5]}.bias': (8,)}
    norms += [prefix + names[3], prefix + names[6]]
  for norm in norms:
    shapes |= {f'{norm}.weight': (8,), f'{norm}.bias': (8,)}
  if kind == 'bert':
    shapes['embeddings.token_type_embeddings.weight'] = (2, 8)
  return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def _write_config(folder, kind):
  names = {
    'bert': (
      'hidden_size',
      'num_hidden_layers',
      'num_attention_heads',
      'intermediate_size',
    ),
    'distilbert': ('dim', 'n_layers', 'n_heads', 'hidden_dim'),
  }[kind]
  config = dict(zip(names, (8, 2, 2, 12), strict=True))
  config |= {'model_type': kind, 'max_position_embeddings': 16}
  (folder / 'config.json').write_text(json.dumps(config))


def _write_safetensors(file, tensors, prefix=''):
  named = {prefix + name: value for name, value in tensors.items()}
  # Numbers that are no weights, as some checkpoints have them.
  safetensors.numpy.save_file(named | {'position_ids': np.arange(4)}, file)


@pytest.mark.parametrize('kind', ['bert', 'distilbert'])
def test_a_checkpoint_is_read_the_same_from_safetensors_and_h5(tmp_path, kind):
  tensors = _checkpoint_tensors(kind, np.random.default_rng(0))
  folders = [tmp_path / 'safetensors', tmp_path / 'h5']
  for folder in folders:
    folder.mkdir()
    _write_config(folder, kind)
  _write_safetensors(folders[0] / 'model.safetensors', tensors, f'{kind}.')
  with h5py.File(folders[1] / 'tf_model.h5', 'w') as stream:
    for name, value in tensors.items():
      path = name.replace('layer.', 'layer_._').replace('.', '/')
      path = path.replace('layer_/_', 'layer_._')
      is_norm = 'LayerNorm' in name or 'layer_norm' in name
      if is_norm:
        path = path.replace('weight', 'gamma').replace('bias', 'beta')
      elif path.endswith('position_embeddings/weight'):
        path = path.replace('/weight', '/embeddings')
      elif value.ndim == 2 and 'embeddings' not in name:
        path, value = path.replace('weight', 'kernel'), value.T
      stream[f'{kind}/tf_{kind}_model_1/{kind}/{path}:0'] = value
  both = []
  for folder in folders:
    size = encoder_checkpoints.read_size(folder)
    assert (size.width, size.num_layers, size.kind) == (8, 2, kind)
    model = encoders.Encoder(7, 0, 2, 8, 0.1, size, str(folder))
    both.append(
      [encoder_checkpoints.read_table(folder, size), *model.initial_shared_weights(3)]
    )
    drawn = encoders.Encoder(7, 0, 2, 8, 0.1, size).initial_weights(3)
    assert [w.shape for w in both[-1]] == [w.shape for w in drawn]
  for a, b in zip(*both, strict=True):
    np.testing.assert_allclose(a, b)
  np.testing.assert_allclose(
    both[0][4][:, :8],
    tensors[
      encoder_checkpoints._LAYERS[kind][0].format(0)
      + encoder_checkpoints._LAYERS[kind][1][0]
      + '.weight'
    ].T,
    rtol=1e-6,
  )


@pytest.mark.parametrize(
  ('kind', 'name'), [('bert', 'bert.pooler.dense'), ('distilbert', 'pre_classifier')]
)
def test_the_pooler_of_a_checkpoint_is_kept_and_all_else_is_as_without(
  tmp_path, kind, name
):
  tensors = _checkpoint_tensors(kind, np.random.default_rng(0))
  pooler = {f'{name}.weight': np.arange(64.0).reshape(8, 8), f'{name}.bias': np.ones(8)}
  weights = []
  for title, more in (('without', {}), ('with', pooler)):
    folder = tmp_path / title
    folder.mkdir()
    _write_config(folder, kind)
    _write_safetensors(folder / 'model.safetensors', tensors | more)
    size = encoder_checkpoints.read_size(folder)
    model = encoders.Encoder(7, 0, 2, 8, 0.1, size, str(folder))
    weights.append(model.initial_shared_weights(3))
  drawn, kept = weights
  np.testing.assert_array_equal(kept[-4], pooler[f'{name}.weight'].T)
  np.testing.assert_array_equal(kept[-3], np.ones(8))
  assert np.abs(drawn[-4]).max() < 1
  for place in (*range(len(kept) - 4), -2, -1):
    np.testing.assert_array_equal(drawn[place], kept[place])


def test_a_pooler_of_another_width_is_refused(tmp_path):
  _write_config(tmp_path, 'bert')
  tensors = _checkpoint_tensors('bert', np.random.default_rng(0))
  tensors |= {'pooler.dense.weight': np.ones((8, 9)), 'pooler.dense.bias': np.ones(8)}
  _write_safetensors(tmp_path / 'model.safetensors', tensors)
  size = encoder_checkpoints.read_size(tmp_path)
  model = encoders.Encoder(7, 0, 2, 8, 0.1, size, str(tmp_path))
  with pytest.raises(pretrained.PretrainedError, match=r'pooler.dense has the shape'):
    model.initial_shared_weights(0)


def test_a_real_checkpoint_tells_likely_sentences_apart(real_data):
  """MiniLM embeds sentences by the mean of its outputs: paraphrases are close."""
  from tff_textpriv.text import wordpieces

  folder = real_data / 'minilm'
  size = encoder_checkpoints.read_size(folder)
  table = encoder_checkpoints.read_table(folder, size)
  pieces = pretrained.read_vocabulary(folder)
  numbers = {piece: number for number, piece in enumerate(pieces)}
  split = wordpieces.WordPieces(pieces).split
  body = encoders.Encoder(
    len(pieces), 0, 2, size.width, 0.0, size, str(folder)
  ).initial_shared_weights(0)

  def embed(text):
    ids = [numbers[p] for p in ['[CLS]', *split(text), '[SEP]']]
    hidden = encoders.hidden_states(
      size, body, tf.constant(table[ids])[tf.newaxis], tf.ones([1, len(ids)], tf.bool)
    )
    mean = tf.reduce_mean(hidden[0], axis=0).numpy()
    return mean / np.linalg.norm(mean)

  asked, like, unlike = (
    embed(text)
    for text in (
      'How do I bake a chocolate cake?',
      'A recipe for a cake made with cocoa.',
      'The parliament voted on the new tax law.',
    )
  )
  assert asked @ like > 0.5
  assert asked @ unlike < 0.2


@pytest.mark.parametrize(
  ('damage', 'message'),
  [
    (lambda f: (f / 'config.json').unlink(), 'config.json: cannot be read'),
    (lambda f: (f / 'config.json').write_text('{"model_type": "gpt2"}'), "'gpt2'"),
    (lambda f: (f / 'config.json').write_text('{"model_type": "bert"}'), 'hidden_size'),
    (lambda f: (f / 'model.safetensors').unlink(), 'no weights'),
    (lambda f: (f / 'model.safetensors').write_bytes(b'x' * 40), 'as safetensors'),
    (lambda f: _write_safetensors(f / 'model.safetensors', {}), 'no weights'),
  ],
)
def test_a_damaged_checkpoint_is_refused_by_name(tmp_path, damage, message):
  _write_config(tmp_path, 'bert')
  tensors = _checkpoint_tensors('bert', np.random.default_rng(0))
  _write_safetensors(tmp_path / 'model.safetensors', tensors)
  damage(tmp_path)
  with pytest.raises(pretrained.PretrainedError, match=message):
    size = encoder_checkpoints.read_size(tmp_path)
    encoder_checkpoints.read_table(tmp_path, size)
