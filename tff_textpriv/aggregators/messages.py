"""What crosses from clients to the server: its size, and eight bits to a byte."""

import math

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

_POWERS_OF_TWO = 2 ** np.arange(8, dtype=np.int32)


def num_bytes(type_spec: tff.Type) -> int:
  """Returns the bytes of a value of a type: its tensors, without any framing.

  Args:
    type_spec: A tensor type, or a structure of them, of known shapes.
  """
  if isinstance(type_spec, tff.TensorType):
    return math.prod(type_spec.shape) * np.dtype(type_spec.dtype).itemsize
  return sum(num_bytes(type_spec[i]) for i in range(len(type_spec)))


def packed_size(num_bits: int) -> int:
  """Returns the bytes that so many bits take."""
  return -(-num_bits // 8)


def pack(bits: tf.Tensor) -> tf.Tensor:
  """Packs bits into bytes.

  Args:
    bits: Booleans [n]; bit i becomes bit i % 8 of byte i // 8.

  Returns:
    uint8 [ceil(n / 8)]; what is left of the last byte is zero.
  """
  num_bits = bits.shape[0]
  padded = tf.pad(tf.cast(bits, tf.int32), [[0, -num_bits % 8]])
  packed = tf.reduce_sum(tf.reshape(padded, [-1, 8]) * _POWERS_OF_TWO, axis=-1)
  return tf.cast(packed, tf.uint8)


def unpack(packed: tf.Tensor, num_bits: int) -> tf.Tensor:
  """Returns what `pack` packed, as int32 zeros and ones [num_bits]."""
  in_columns = tf.cast(packed, tf.int32)[:, tf.newaxis]
  bits = tf.bitwise.bitwise_and(in_columns, _POWERS_OF_TWO) // _POWERS_OF_TWO
  return tf.reshape(bits, [-1])[:num_bits]
