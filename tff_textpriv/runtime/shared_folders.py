"""Whether workers on other machines reach a folder of this one.

Importing this module imports TFF.
"""

import pathlib
import tempfile
import uuid
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.runtime import connection, execution


@tff.tensorflow.computation(np.str_)
def _read(file):
  return tf.io.read_file(file)


@tff.federated_computation(tff.FederatedType(np.str_, tff.CLIENTS))
def _read_by_clients(files):
  """Reads files where clients are trained."""
  return tff.federated_map(_read, files)


def who_misses(runtime: execution.Runtime, folder: pathlib.Path) -> Iterator[str]:
  """Yields the addresses of workers that do not find a folder's files.

  Args:
    runtime: The workers.
    folder: A folder of this machine, whose files they are to find by the same path.
  """
  word = uuid.uuid4().hex
  with tempfile.NamedTemporaryFile('w', dir=folder) as file:
    file.write(word)
    file.flush()
    for worker in runtime.one_by_one():
      try:
        if _read_by_clients([file.name]) != [word.encode()]:
          yield worker.address
      except connection.ComputationError:
        yield worker.address
