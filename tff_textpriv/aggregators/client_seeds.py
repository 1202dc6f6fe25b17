"""The random numbers of clients: seeds that come with updates, or that clients make.

A client of our own processes is given a seed beside its update. In processes that TFF's
own builders make there is none: there a client knows neither its number nor the round, and the server can send all of them
only the same. So it takes a label from the operating system, and a keyed hash makes a
seed of it. The label tells clients and rounds apart and need not be secret; the key is.
A seed that followed from the client's data would not do: two clients with the same update
would send the same report, and so tell that they have the same.
"""

import math
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv import randomness

# Each reading is a new UUID with 122 random bits of the kernel.
_LABELS = '/proc/sys/kernel/random/uuid'
_LARGEST = 2**63 - 1


def update_type(value_type: tff.Type, noise_source: str) -> tff.Type:
  """Returns the type of the update in a value, which may hold a seed beside it.

  Args:
    value_type: That of updates, or of ordered dictionaries of an update named `delta` and
      a `seed`, int64 [2].
    noise_source: If that is `seeded`, there must be a seed.
  """
  has_seed = isinstance(value_type, tff.StructType) and tff.structure.name_list(
    value_type
  ) == ['delta', 'seed']
  own_type = value_type['delta'] if has_seed else value_type
  if noise_source == 'seeded' and not has_seed:
    raise TypeError(
      f'The plan says that noise is seeded, and clients hold no seed: {value_type}. Give '
      "an ordered dictionary of `delta` and `seed`, or use noise_source='system'."
    )
  if not tff.types.is_structure_of_floats(own_type):
    raise TypeError(f'Only floating-point updates are randomized: {own_type}.')
  return own_type


def planned_update_type(
  value_type: tff.Type, noise_source: str, num_coordinates: int
) -> tff.Type:
  """Returns the type of the update in a value, which must have so many coordinates.

  Args:
    value_type: See `update_type`.
    noise_source: See there.
    num_coordinates: What a plan is about, on whose number its figure rests.
  """
  own_type = update_type(value_type, noise_source)
  size = sum(math.prod(leaf.shape) for leaf in tff.structure.flatten(own_type))
  if size != num_coordinates:
    raise ValueError(
      f'The plan is about {num_coordinates:,} coordinates, and the update has {size:,}.'
    )
  return own_type


def update_and_seed(
  value: Any, *, has_seed: bool, stream: randomness.Stream
) -> tuple[Any, tf.Tensor]:
  """Returns a client's update and the seed of its random numbers, int64 [2].

  Args:
    value: The update, with its seed or without.
    has_seed: Which of both.
    stream: The secret by which a client without a seed makes one.
  """
  if has_seed:
    return value['delta'], value['seed']
  return value, of_label(stream, draw_label())


def draw_label() -> tf.Tensor:
  """Returns a label that no other client has, in this round or another; a string."""
  return tf.data.TextLineDataset(_LABELS).get_single_element()


def of_label(stream: randomness.Stream, label: tf.Tensor) -> tf.Tensor:
  """Returns the seed of a client, int64 [2]: SipHash of its label by two secret keys.

  Args:
    stream: The secret.
    label: What tells the client apart, a string.
  """
  keys = [stream.words('client without a seed', word).tolist() for word in range(2)]
  return tf.stack(
    [tf.strings.to_hash_bucket_strong(label, _LARGEST, key) for key in keys]
  )
