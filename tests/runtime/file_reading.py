"""What a stranger asks a worker for: the content of a file.

Importing this module imports TFF.
"""

import pathlib

import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.executors import value_serialization


def message(file: pathlib.Path) -> bytes:
  """Returns the message that has a worker read a file."""

  @tff.tensorflow.computation()
  def read():
    return tf.io.read_file(str(file))

  value, _ = value_serialization.serialize_value(read, read.type_signature)
  return value.SerializeToString()
