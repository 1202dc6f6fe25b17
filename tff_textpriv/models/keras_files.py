"""Keras model files, read so that a file can only compute.

Keras imports whatever module and calls whatever function a `.keras` file names, even in
its safe mode: a file from somebody else could run any program. Only what the models of
this package are made of is let through here.
"""

import json
import pathlib
import zipfile
from typing import Any

import tensorflow as tf

# Modules and the classes in them.
_CLASSES = {
  'keras.layers': {
    'Add', 'Bidirectional', 'CategoryEncoding', 'Concatenate', 'Dense', 'Dropout',
    'Embedding', 'GRU', 'InputLayer', 'LSTM', 'LayerNormalization', 'Masking',
    'MultiHeadAttention', 'Rescaling', 'Reshape',
  },
  'keras.initializers': {
    'GlorotUniform', 'Ones', 'Orthogonal', 'RandomUniform', 'Zeros'
  },
  'keras.src.engine.functional': {'Functional'},
  'keras.src.layers.core.tf_op_layer': {'SlicingOpLambda', 'TFOpLambda'},
}  # fmt: skip
# What a `TFOpLambda` may call; others write files.
_FUNCTIONS = {
  '__operators__.getitem', 'cast', 'math.cos', 'math.cumsum', 'math.divide_no_nan',
  'math.multiply', 'math.not_equal', 'math.reduce_any', 'math.reduce_sum', 'math.sin',
  'ones_like',
}  # fmt: skip
_MAX_CONFIG = 10_000_000


class ModelFileError(ValueError):
  """A model file that cannot be used; the message names it and says why."""


def load(file: pathlib.Path) -> tf.keras.Model:
  """Loads a model that a run of this package wrote.

  Raises:
    ModelFileError: If the file is damaged, or holds anything else than the layers that
      this package uses.
  """
  try:
    with zipfile.ZipFile(file) as archive:
      if archive.getinfo('config.json').file_size > _MAX_CONFIG:
        raise ValueError('its description is too long')
      _check(json.loads(archive.read('config.json')))
    return tf.keras.models.load_model(file, compile=False, safe_mode=True)
  except Exception as error:  # Keras, HDF5 and zip raise all kinds for a damaged file.
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    raise ModelFileError(
      f'{file}: cannot be read ({reason}); expected the model.keras that a run writes'
    ) from error


def _check(value: Any) -> None:
  """Raises `ValueError` for a part of a description that is none of a model of ours."""
  if isinstance(value, dict):
    if 'class_name' in value:
      module, name = str(value.get('module')), value['class_name']
      if name not in _CLASSES.get(module, ()):
        raise ValueError(
          f'it asks for {name!r} of {module!r}, which no model here uses'
        )
    if 'function' in value and value['function'] not in _FUNCTIONS:
      raise ValueError(f'it calls {value["function"]!r}, which no model here does')
    value = list(value.values())
  if isinstance(value, list):
    for part in value:
      _check(part)
