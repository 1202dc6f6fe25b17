"""The checkpoints of BERT-class encoders: which tensor is which weight, both ways."""

import pathlib

import numpy as np

from tff_textpriv.models import classifiers, pretrained
from tff_textpriv.models.sequence_presets import EncoderSize

# The names of a layer's dense layers, in the order of our weights, and of its two
# normalisations; kernels are stored as [columns, rows].
_LAYERS = {
  'bert': (
    'encoder.layer.{}.',
    ('attention.self.query', 'attention.self.key', 'attention.self.value'),
    'attention.output.dense',
    'attention.output.LayerNorm',
    'intermediate.dense',
    'output.dense',
    'output.LayerNorm',
  ),
  'distilbert': (
    'transformer.layer.{}.',
    ('attention.q_lin', 'attention.k_lin', 'attention.v_lin'),
    'attention.out_lin',
    'sa_layer_norm',
    'ffn.lin1',
    'ffn.lin2',
    'output_layer_norm',
  ),
}
# What config.json calls width, layers, heads and the width of the feed-forward layers.
_SIZES = {
  'bert': (
    'hidden_size',
    'num_hidden_layers',
    'num_attention_heads',
    'intermediate_size',
  ),
  'distilbert': ('dim', 'n_layers', 'n_heads', 'hidden_dim'),
}
_MAX_POSITIONS = 'max_position_embeddings'
# The dense layer before the output layer.
_POOLERS = {'bert': 'pooler.dense', 'distilbert': 'pre_classifier'}
_OUTPUT = 'classifier'


def read_size(folder: str | pathlib.Path) -> EncoderSize:
  """Reads the size of a checkpoint from its config.json.

  Raises:
    CheckpointError: If it is not that of a BERT or DistilBERT.
  """
  config = pretrained.read_config(folder)
  kind = config.get('model_type')
  if kind not in _SIZES:
    raise pretrained.PretrainedError(
      f'{folder}/config.json: model_type is {kind!r}; expected bert or distilbert'
    )
  try:
    width, num_layers, num_heads, inner = (int(config[name]) for name in _SIZES[kind])
    max_positions = int(config[_MAX_POSITIONS])
  except (KeyError, TypeError, ValueError, OverflowError) as error:
    raise pretrained.PretrainedError(
      f'{folder}/config.json: {error} is missing or no number; expected the file of a '
      f'{kind} model'
    ) from error
  return EncoderSize(width, num_layers, num_heads, inner, max_positions, kind)


def size_config(size: EncoderSize) -> dict[str, str | int]:
  """Writes a size as config.json has it; `read_size` reads it."""
  numbers = (size.width, size.num_layers, size.num_heads, size.feed_forward_size)
  return {
    'model_type': size.kind,
    **dict(zip(_SIZES[size.kind], numbers, strict=True)),
    _MAX_POSITIONS: size.max_positions,
  }


def read_table(folder: str | pathlib.Path, size: EncoderSize) -> np.ndarray:
  """Reads the embedding table of a checkpoint, float32 [pieces, width]."""
  tensors = pretrained.read_tensors(folder)
  table = tensors.take('embeddings.word_embeddings.weight')
  if table.ndim != 2 or table.shape[1] != size.width:
    raise pretrained.PretrainedError(
      f'{folder}: the embedding table is {table.shape}; config.json says width '
      f'{size.width}'
    )
  return table


def body(tensors: pretrained.Tensors, size: EncoderSize) -> list[np.ndarray]:
  """Returns the weights of an encoder between the table and the pooler, in its order.

  Raises:
    CheckpointError: If a tensor is missing, or they do not fit together.
  """
  try:
    return _body(tensors, size)
  except (ValueError, IndexError) as error:
    if isinstance(error, pretrained.PretrainedError):
      raise
    raise pretrained.PretrainedError(
      f'{tensors.source}: its tensors do not fit together ({error})'
    ) from error


def pooler(tensors: pretrained.Tensors, size: EncoderSize) -> list[np.ndarray]:
  """Returns kernel and bias of the dense layer below the output layer, if any.

  Raises:
    CheckpointError: If they are not of the encoder's width.
  """
  name = _POOLERS[size.kind]
  if f'{name}.weight' not in tensors:
    return []
  found = _dense(tensors, name)
  if [each.shape for each in found] != [(size.width, size.width), (size.width,)]:
    raise pretrained.PretrainedError(
      f'{tensors.source}: {name} has the shape {found[0].shape}; config.json says width '
      f'{size.width}'
    )
  return found


def _dense(tensors: pretrained.Tensors, name: str) -> list[np.ndarray]:
  return [tensors.take(f'{name}.weight').T.copy(), tensors.take(f'{name}.bias')]


def _body(tensors: pretrained.Tensors, size: EncoderSize) -> list[np.ndarray]:

  def norm(name: str) -> list[np.ndarray]:
    return [tensors.take(f'{name}.weight'), tensors.take(f'{name}.bias')]

  positions = tensors.take('embeddings.position_embeddings.weight')
  if size.kind == 'bert':
    positions = positions + tensors.take('embeddings.token_type_embeddings.weight')[0]
  body = [positions, *norm('embeddings.LayerNorm')]
  prefix, uses, output, first_norm, inner, outer, second_norm = _LAYERS[size.kind]
  for number in range(size.num_layers):
    layer = prefix.format(number)
    kernels, biases = zip(*(_dense(tensors, layer + use) for use in uses), strict=True)
    body += [np.concatenate(kernels, axis=1), np.concatenate(biases)]
    body += [*_dense(tensors, layer + output), *norm(layer + first_norm)]
    body += [
      *_dense(tensors, layer + inner),
      *_dense(tensors, layer + outer),
      *norm(layer + second_norm),
    ]
  return body


def to_tensors(
  size: EncoderSize, weights: classifiers.Weights
) -> dict[str, np.ndarray]:
  """Names the weights of an encoder as Hugging Face's classes for sequences do.

  Args:
    size: Its shape.
    weights: All its weights, in its order, the table first.

  Returns:
    The tensors by name, the inverse of `body` and `read_table`: float32 and contiguous,
    since the safetensors package writes the memory of an array as it lies.
  """
  remaining = iter([np.asarray(weight) for weight in weights])
  tensors: dict[str, np.ndarray] = {}

  def norm(name: str) -> None:
    tensors[f'{name}.weight'], tensors[f'{name}.bias'] = (
      next(remaining),
      next(remaining),
    )

  def dense(*names: str) -> None:
    """Names dense layers, the kernels of which stand side by side in one."""
    kernels = np.split(next(remaining), len(names), axis=1)
    biases = np.split(next(remaining), len(names))
    for name, kernel, bias in zip(names, kernels, biases, strict=True):
      tensors[f'{name}.weight'], tensors[f'{name}.bias'] = kernel.T, bias

  tensors['embeddings.word_embeddings.weight'] = next(remaining)
  tensors['embeddings.position_embeddings.weight'] = next(remaining)
  if size.kind == 'bert':
    # That of the first segment is a part of the positions.
    tensors['embeddings.token_type_embeddings.weight'] = np.zeros(
      (2, size.width), np.float32
    )
  norm('embeddings.LayerNorm')
  prefix, uses, output, first_norm, inner, outer, second_norm = _LAYERS[size.kind]
  for number in range(size.num_layers):
    layer = prefix.format(number)
    dense(*(layer + use for use in uses))
    dense(layer + output)
    norm(layer + first_norm)
    dense(layer + inner)
    dense(layer + outer)
    norm(layer + second_norm)
  body_names = list(tensors)
  dense(_POOLERS[size.kind])
  dense(_OUTPUT)
  # The pooler of a BERT belongs to its body.
  if size.kind == 'bert':
    body_names += [f'{_POOLERS["bert"]}.weight', f'{_POOLERS["bert"]}.bias']
  return {
    f'{size.kind}.{name}' if name in body_names else name: np.ascontiguousarray(
      value, np.float32
    )
    for name, value in tensors.items()
  }
