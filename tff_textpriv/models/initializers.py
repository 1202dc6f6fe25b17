"""Initial weights in NumPy, as functions of a generator.

Keras draws from generators of its own; a run must be a function of its seed. The
layers are initialized as Keras does, the embedding with rows of length one: tied
to the output, Keras's small default would start with logits that are all alike.
"""

import numpy as np


def embedding(rng: np.random.Generator, vocab_size: int, width: int) -> np.ndarray:
  """Draws an embedding table [vocab_size, width], rows of length about one."""
  limit = np.sqrt(3 / width)
  return rng.uniform(-limit, limit, (vocab_size, width)).astype(np.float32)


def glorot_uniform(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
  """Draws a matrix [rows, columns] whose variance keeps signals at their scale."""
  limit = np.sqrt(6 / (rows + columns))
  return rng.uniform(-limit, limit, (rows, columns)).astype(np.float32)


def orthogonal(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
  """Draws a matrix [rows, columns], rows <= columns, with orthonormal rows."""
  q, r = np.linalg.qr(rng.standard_normal((columns, rows)))
  # The sign makes the distribution uniform over orthogonal matrices.
  return (q * np.sign(np.diag(r))).T.astype(np.float32)


def dense(rng: np.random.Generator, rows: int, columns: int) -> list[np.ndarray]:
  """Draws a dense layer: kernel [rows, columns] and a zero bias [columns]."""
  return [glorot_uniform(rng, rows, columns), np.zeros(columns, np.float32)]


def lstm(rng: np.random.Generator, width: int, units: int) -> list[np.ndarray]:
  """Draws an LSTM layer: kernel, recurrent kernel, bias with forget gate at 1."""
  bias = np.zeros(4 * units, np.float32)
  bias[units : 2 * units] = 1
  return [
    glorot_uniform(rng, width, 4 * units),
    orthogonal(rng, units, 4 * units),
    bias,
  ]


def gru(rng: np.random.Generator, width: int, units: int) -> list[np.ndarray]:
  """Draws a GRU layer: kernel, recurrent kernel, zero biases [2, 3 * units]."""
  return [
    glorot_uniform(rng, width, 3 * units),
    orthogonal(rng, units, 3 * units),
    np.zeros((2, 3 * units), np.float32),
  ]


def normalization(width: int) -> list[np.ndarray]:
  """Returns a layer normalisation that changes nothing yet: scale 1 and shift 0."""
  return [np.ones(width, np.float32), np.zeros(width, np.float32)]
