"""What a device's state is made of, and how it is a file.

Core TensorFlow operations only: the same functions run in the client's computation, in
the worker, and where a device is set up or evaluated.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

# What a client reads to find its state: one pair of files, to read and to write.
FILES_TYPE = tff.SequenceType(tff.TensorType(np.str_, [2]))


def file_names(files: tf.data.Dataset) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns the names of the files to read and to write, of the one pair there is."""
  pair = files.reduce(tf.constant(['', '']), lambda _, one: one)
  return pair[0], pair[1]


def pack(leaves: Sequence[tf.Tensor]) -> tf.Tensor:
  """Returns tensors as one string."""
  return tf.io.serialize_tensor(tf.stack([tf.io.serialize_tensor(x) for x in leaves]))


def unpack(content: tf.Tensor, specs: Sequence[tf.TensorSpec]) -> list[tf.Tensor]:
  """Returns the tensors of a string that `pack` made.

  Args:
    content: The string.
    specs: Types and shapes of the tensors; axes may be of unknown length.
  """
  parts = tf.io.parse_tensor(content, tf.string)
  return [
    tf.ensure_shape(tf.io.parse_tensor(parts[i], spec.dtype), spec.shape)
    for i, spec in enumerate(specs)
  ]


def read(file: tf.Tensor, specs: Sequence[tf.TensorSpec]) -> list[tf.Tensor]:
  """Reads the tensors of a file; see `unpack`."""
  return unpack(tf.io.read_file(file), specs)


def write(file: tf.Tensor, leaves: Sequence[tf.Tensor]) -> tf.Operation:
  """Writes tensors to a file, which keeps its permissions if it is there already."""
  return tf.io.write_file(file, pack(leaves))
