"""Models of runs are read back; what somebody else put into the file is not run."""

import json
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv.models import (
  classifiers,
  encoders,
  language_models,
  saved_models,
  sequence_classifiers,
  sequence_presets,
)


def _encoder(kind):
  size = sequence_presets.EncoderSize(8, 1, 2, 12, max_positions=16, kind=kind)
  return encoders.Encoder(7, 0, 3, 8, 0.1, size)


def _classifier(name, **options):
  return classifiers.build(name, num_ids=9, width=2, num_classes=2, **options)


def _language_model(name, *, tied):
  return language_models.build(name, 30, tied).to_keras()


_MODELS = {
  'lstm': lambda: _language_model('lstm_tiny', tied=True),
  'gru': lambda: _language_model('gru_tiny', tied=False),
  'transformer': lambda: _language_model('transformer_tiny', tied=True),
  'logistic': lambda: _classifier('logistic').to_keras(),
  'network': lambda: _classifier('network').to_keras(),
  'embedding': lambda: _classifier('network', embedding_size=4).to_keras(),
  'lstm_network': lambda: _classifier('lstm_network', embedding_size=4).to_keras(),
  'bilstm': lambda: sequence_classifiers.BiLstmClassifier(
    7, 0, 3, 4, 0.5, 5
  ).to_keras(),
  'distilbert': lambda: _encoder('distilbert').to_keras(),
  'bert': lambda: _encoder('bert').to_keras(),
  'distilbert above a table': lambda: _encoder('distilbert').shared_to_keras(),
}


@pytest.mark.parametrize('make', _MODELS.values(), ids=_MODELS)
def test_every_model_of_the_package_is_read_back(make, tmp_path):
  model = make()
  model.save(tmp_path / 'model.keras')
  again = saved_models.read(tmp_path / 'model.keras')
  for ours, theirs in zip(model.get_weights(), again.get_weights(), strict=True):
    np.testing.assert_array_equal(ours, theirs)


@pytest.fixture
def file(tmp_path):
  path = tmp_path / 'model.keras'
  _classifier('logistic').to_keras().save(path)
  return path


def _rewrite(path, change):
  """Changes the config of a saved model."""
  with zipfile.ZipFile(path) as archive:
    parts = {name: archive.read(name) for name in archive.namelist()}
  config = json.loads(parts['config.json'])
  change(config)
  parts['config.json'] = json.dumps(config).encode()
  with zipfile.ZipFile(path, 'w') as archive:
    for name, content in parts.items():
      archive.writestr(name, content)


def _add_layer(**layer):
  def change(config):
    layers = config['config']['layers']
    layers.append({'name': 'x', 'inbound_nodes': layers[-1]['inbound_nodes'], **layer})

  return change


_HARMFUL = {
  'any function': _add_layer(
    module='os', class_name='system', registered_name=None, config='touch harm'
  ),
  'lambda': _add_layer(
    module='keras.layers', class_name='Lambda', registered_name=None, config={}
  ),
  'writes a file': _add_layer(
    module='keras.src.layers.core.tf_op_layer',
    class_name='TFOpLambda',
    registered_name='TFOpLambda',
    config={'name': 'x', 'function': 'io.write_file'},
  ),
  'a registered class': _add_layer(
    module='keras.layers', class_name='Dense', registered_name='Other', config={}
  ),
  'an activation': lambda config: config['config']['layers'][-1]['config'].update(
    activation={'module': 'os', 'class_name': 'function', 'config': 'system'}
  ),
  'no module': lambda config: config.pop('module'),
}


@pytest.mark.parametrize('change', _HARMFUL.values(), ids=_HARMFUL)
def test_a_file_that_names_anything_else_is_refused(
  change, file, tmp_path, monkeypatch
):
  monkeypatch.chdir(tmp_path)
  _rewrite(file, change)
  with pytest.raises(saved_models.SavedModelError, match='model.keras: .*not loaded'):
    saved_models.read(file)
  assert not (tmp_path / 'harm').exists()


def test_code_that_keras_would_run_is_not_run(file, tmp_path, monkeypatch):
  harm = tmp_path / 'harm'
  (tmp_path / 'of_a_stranger.py').write_text(f'open({str(harm)!r}, "w").close()')
  monkeypatch.syspath_prepend(tmp_path)
  stranger = {
    'module': 'of_a_stranger',
    'class_name': 'Strange',
    'registered_name': None,
  }
  _rewrite(file, lambda config: config.update(stranger))
  with pytest.raises(saved_models.SavedModelError, match='of_a_stranger'):
    saved_models.read(file)
  assert not harm.exists()
  # The twin without a look at the file.
  with pytest.raises(TypeError, match='of_a_stranger'):
    tf.keras.models.load_model(file)
  assert harm.exists()


@pytest.mark.parametrize(
  'content', [b'', b'PK', b'nothing'], ids=['empty', 'cut', 'other']
)
def test_a_file_that_is_no_archive_is_one_sentence(content, tmp_path):
  path = tmp_path / 'model.keras'
  path.write_bytes(content)
  with pytest.raises(saved_models.SavedModelError, match='model.keras: is no Keras'):
    saved_models.read(path)


def test_a_missing_part_and_one_too_many_are_told(file):
  with zipfile.ZipFile(file, 'a') as archive:
    archive.writestr('assets/../../x', 'harm')
  with pytest.raises(saved_models.SavedModelError, match=r'assets/\.\./\.\./x'):
    saved_models.read(file)
