"""The files of a Hugging Face checkpoint, without Hugging Face's model code."""

import json
import pathlib
import re
from typing import Any

import h5py
import numpy as np
import safetensors

_FLOATS = ('F64', 'F32', 'F16')
_EXPECTED = 'expected a folder with config.json, vocab.txt and the weights as *.safetensors or *.h5'


class PretrainedError(ValueError):
  """A checkpoint folder that cannot be used; the message names the file."""


class Tensors:
  """The tensors of a checkpoint by the names that BERT's own code gives them.

  Attributes:
    source: The checkpoint's folder.
  """

  def __init__(self, source: pathlib.Path, tensors: dict[str, np.ndarray]):
    """Keeps tensors under names without a model's prefix, such as `bert.`."""
    self.source = source
    self._tensors = {
      re.sub(r'^(distilbert|bert)\.', '', name): value
      for name, value in tensors.items()
    }

  def __contains__(self, name: str) -> bool:
    """Tells whether there is a tensor of a name."""
    return name in self._tensors

  def take(self, name: str) -> np.ndarray:
    """Returns a tensor as float32; `PretrainedError` if there is none."""
    # Checkpoints that were converted from TensorFlow call a norm's weights so.
    older = name.replace('LayerNorm.weight', 'LayerNorm.gamma').replace(
      'LayerNorm.bias', 'LayerNorm.beta'
    )
    for known in (name, older):
      if known in self._tensors:
        return np.asarray(self._tensors[known], np.float32)
    raise PretrainedError(f'{self.source}: there is no tensor {name} in it')


def read_config(folder: str | pathlib.Path) -> dict[str, Any]:
  """Reads a checkpoint's config.json."""
  return _read_json(pathlib.Path(folder) / 'config.json')


def read_vocabulary(folder: str | pathlib.Path) -> list[str]:
  """Reads a checkpoint's vocab.txt: a piece a line."""
  file = pathlib.Path(folder) / 'vocab.txt'
  try:
    return file.read_text(encoding='utf-8').removesuffix('\n').split('\n')
  except (OSError, UnicodeDecodeError) as error:
    raise PretrainedError(f'{file}: cannot be read ({error}); {_EXPECTED}') from error


def is_cased(folder: str | pathlib.Path) -> bool:
  """Tells whether a checkpoint's pieces have capital letters."""
  file = pathlib.Path(folder) / 'tokenizer_config.json'
  return file.exists() and not _read_json(file).get('do_lower_case', True)


def read_tensors(folder: str | pathlib.Path) -> Tensors:
  """Reads all floating-point tensors of a checkpoint.

  Args:
    folder: A folder with one or more `*.safetensors`, or else one `*.h5` of Keras.

  Raises:
    PretrainedError: If there are no weights, or they cannot be read.
  """
  place = pathlib.Path(folder)
  tensors: dict[str, np.ndarray] = {}
  for file in sorted(place.glob('*.safetensors')):
    tensors |= _read_safetensors(file)
  if not tensors:
    for file in sorted(place.glob('*.h5')):
      tensors |= _read_h5(file)
  if not tensors:
    raise PretrainedError(f'{place}: there are no weights here; {_EXPECTED}')
  return Tensors(place, tensors)


def _read_json(file: pathlib.Path) -> dict[str, Any]:
  try:
    return dict(json.loads(file.read_text(encoding='utf-8')))
  except (OSError, ValueError, TypeError, RecursionError) as error:
    raise PretrainedError(f'{file}: cannot be read ({error}); {_EXPECTED}') from error


def _read_safetensors(file: pathlib.Path) -> dict[str, np.ndarray]:
  """Reads the floating-point tensors of a file."""
  try:
    with safetensors.safe_open(file, framework='numpy') as stream:
      return {
        name: stream.get_tensor(name)
        for name in stream.keys()  # noqa: SIM118, no mapping.
        if stream.get_slice(name).get_dtype() in _FLOATS
      }
  except (OSError, safetensors.SafetensorError) as error:
    raise PretrainedError(
      f'{file}: cannot be read as safetensors ({error}); {_EXPECTED}'
    ) from error


def _read_h5(file: pathlib.Path) -> dict[str, np.ndarray]:
  """Reads a Keras checkpoint, whose kernels are the other way round."""
  tensors: dict[str, np.ndarray] = {}
  size = file.stat().st_size

  def keep(path: str, item: Any) -> None:
    if not isinstance(item, h5py.Dataset):
      return
    name = path.removesuffix(':0').replace('layer_._', 'layer.')
    # The path is that of the layer, and within it the variable's whole name again.
    name = re.sub(r'^.*?(embeddings|encoder|transformer)/', r'\1/', name)
    name = name.replace('/', '.')
    if item.external or item.is_virtual:
      raise ValueError(f'{path} is kept in another file')
    if item.nbytes > size:
      raise ValueError(f'{path} is larger than the file')
    value = np.asarray(item)
    if name.endswith('.kernel'):
      name, value = name.removesuffix('kernel') + 'weight', value.T
    name = name.replace('.gamma', '.weight').replace('.beta', '.bias')
    if name.endswith('embeddings.embeddings'):
      name = name.removesuffix('embeddings') + 'weight'
    tensors[name] = value

  try:
    with h5py.File(file) as stream:
      stream.visititems(keep)
  except Exception as error:  # h5py raises all kinds for a damaged file.
    raise PretrainedError(
      f'{file}: cannot be read as HDF5 ({error}); {_EXPECTED}'
    ) from error
  return tensors
