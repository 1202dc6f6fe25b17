"""What crosses from clients to the server: its name, its size, eight bits to a byte."""

import collections
import math
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

_POWERS_OF_TWO = 2 ** np.arange(8, dtype=np.int32)
# The bits of each byte, int32 [256, 8]: to look them up is quicker than to compute them.
_BITS_OF_BYTES = np.arange(256)[:, np.newaxis] // _POWERS_OF_TWO % 2


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
  bits = tf.gather(tf.constant(_BITS_OF_BYTES, tf.int32), tf.cast(packed, tf.int32))
  return tf.reshape(bits, [-1])[:num_bits]


def cut(update_type: tff.Type, vector: tf.Tensor) -> Any:
  """Cuts a vector, or the beginning of one, into the tensors of an update."""
  sizes = [math.prod(leaf.shape) for leaf in tff.structure.flatten(update_type)]
  pieces = iter(tf.split(vector[: sum(sizes)], sizes))
  return tff.types.structure_from_tensor_type_tree(
    lambda leaf: tf.cast(tf.reshape(next(pieces), leaf.shape), leaf.dtype), update_type
  )


def like(update: Any, vector: tf.Tensor) -> Any:
  """Cuts a vector into the tensors of an update, by the shapes of the tensors at hand."""
  leaves = tf.nest.flatten(update)
  pieces = tf.split(vector, [tf.size(leaf) for leaf in leaves])
  return tf.nest.pack_sequence_as(
    update,
    [tf.reshape(piece, leaf.shape) for piece, leaf in zip(pieces, leaves, strict=True)],
  )


def finite_vector(update: Any) -> tf.Tensor:
  """Joins an update's tensors, float64 [d]; zeros if any number is not finite."""
  vector = tf.concat(
    [tf.reshape(tf.cast(leaf, tf.float64), [-1]) for leaf in tf.nest.flatten(update)],
    axis=0,
  )
  finite = tf.reduce_all(tf.math.is_finite(vector))
  return tf.where(finite, vector, tf.zeros_like(vector))


class NamedSumFactory(tff.aggregators.UnweightedAggregationFactory):
  """A sum whose values cross under a name, for those who list what clients send."""

  def __init__(self, name: str):
    """Makes the factory of sums of a name."""
    self._name = name

  def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
    """Builds the sum of values of one type; see the base class."""
    name = self._name

    @tff.tensorflow.computation(value_type)
    def named(value):
      return collections.OrderedDict([(name, value)])

    @tff.tensorflow.computation(named.type_signature.result)
    def unnamed(total):
      return total[name]

    @tff.federated_computation
    def initialize():
      return tff.federated_value((), tff.SERVER)

    @tff.federated_computation(
      initialize.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
    )
    def next_round(state, values):
      total = tff.federated_sum(tff.federated_map(named, values))
      return tff.templates.MeasuredProcessOutput(
        state,
        tff.federated_map(unnamed, total),
        tff.federated_value((), tff.SERVER),
      )

    return tff.templates.AggregationProcess(initialize, next_round)
