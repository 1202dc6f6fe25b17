"""Reads a run's `model.keras` without running what somebody else put into it.

Keras 2.14 imports any module that the file names and calls what it finds there, with
`safe_mode` too. So the file is looked at first: only the layers that the models of this
package are made of may be in it.
"""

import json
import pathlib
import zipfile
from typing import Any

import tensorflow as tf

_MEMBERS = {'metadata.json', 'config.json', 'model.weights.h5'}
_CLASSES = {
  'keras': {'Sequential'},
  'keras.initializers': {
    'Constant', 'GlorotUniform', 'Ones', 'Orthogonal', 'RandomNormal', 'RandomUniform',
    'TruncatedNormal', 'Zeros',
  },
  'keras.layers': {
    'Add', 'Bidirectional', 'CategoryEncoding', 'Concatenate', 'Dense', 'Dropout',
    'Embedding', 'GRU', 'GlobalAveragePooling1D', 'InputLayer', 'LSTM',
    'LayerNormalization', 'Masking', 'MultiHeadAttention', 'Rescaling', 'Reshape',
  },
  'keras.src.engine.functional': {'Functional'},
  'keras.src.layers.core.tf_op_layer': {'SlicingOpLambda', 'TFOpLambda'},
}  # fmt: skip
# What a TFOpLambda layer may call; others write files.
_OPERATIONS = {
  '__operators__.add', '__operators__.getitem', 'cast', 'linalg.matmul', 'math.cos',
  'math.cumsum', 'math.divide_no_nan', 'math.multiply', 'math.not_equal',
  'math.reduce_any', 'math.reduce_sum', 'math.sin', 'ones_like',
}  # fmt: skip


class SavedModelError(ValueError):
  """A file is no model of this package's making."""


def read(file: pathlib.Path) -> tf.keras.Model:
  """Reads the `model.keras` of a run.

  Returns:
    The model, to be called but not to be trained.

  Raises:
    SavedModelError: If it cannot be read, or names anything but our models' layers.
  """
  try:
    with zipfile.ZipFile(file) as archive:
      members = set(archive.namelist())
      config = json.loads(archive.read('config.json'))
  except (OSError, ValueError, KeyError, RecursionError, zipfile.BadZipFile) as error:
    raise SavedModelError(f'{file}: is no Keras model ({error})') from error
  if not members <= _MEMBERS:
    strange = ', '.join(sorted(members - _MEMBERS))
    raise SavedModelError(f'{file}: has parts that our models do not have: {strange}')
  _check(config, file)
  try:
    return tf.keras.models.load_model(file, compile=False)
  except Exception as error:  # Whatever Keras finds wrong with a config.
    raise SavedModelError(f'{file}: cannot be read by Keras ({error})') from error


def _check(config: Any, file: pathlib.Path) -> None:
  """Refuses whatever Keras would look up by name and is not on our lists."""
  if isinstance(config, list):
    for item in config:
      _check(item, file)
  elif isinstance(config, dict):
    if 'class_name' in config or 'module' in config:
      _check_class(config, file)
    for item in config.values():
      _check(item, file)


def _check_class(config: dict[str, Any], file: pathlib.Path) -> None:
  module, name = config.get('module'), config.get('class_name')
  known = isinstance(module, str) and name in _CLASSES.get(module, ())
  inner = config.get('config')
  function = inner.get('function') if isinstance(inner, dict) else None
  if not known or config.get('registered_name') not in (None, name):
    raise SavedModelError(
      f'{file}: names {module}.{name}, which is in no model of this package; it is not '
      'loaded, since it could run code of whoever made the file'
    )
  if function is not None and function not in _OPERATIONS:
    raise SavedModelError(
      f'{file}: calls tf.{function}, which no model of this package does; it is not '
      'loaded, since it could run code of whoever made the file'
    )
