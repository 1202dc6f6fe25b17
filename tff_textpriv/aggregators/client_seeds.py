"""Seeds for clients that are given none, as in processes that TFF's own builders make.

There a client knows neither its number nor the round, and the server can send all of them
only the same. So it takes a label from the operating system, and a keyed hash makes a
seed of it. The label tells clients and rounds apart and need not be secret; the key is.
A seed that followed from the client's data would not do: two clients with the same update
would send the same report, and so tell that they have the same.
"""

import tensorflow as tf

from tff_textpriv import randomness

# Each reading is a new UUID with 122 random bits of the kernel.
_LABELS = '/proc/sys/kernel/random/uuid'
_LARGEST = 2**63 - 1


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
