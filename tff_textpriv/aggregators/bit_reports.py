"""What a client reports of its update, and what the server reads in it.

See `tff_textpriv.privacy.randomized_response` for the law of a bit.
"""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import coordinates, messages
from tff_textpriv.privacy import randomized_bits, randomized_response


def message_type(plan: randomized_bits.RandomizedBits, weighted: bool) -> tff.Type:
  """Returns the type of what leaves a client in a round.

  Args:
    plan: What is reported.
    weighted: Whether the client's weight goes along.

  Returns:
    A structure of `bits`, uint8 [ceil(s / 8)] for s reported coordinates; with
    coordinate sampling of `selection`, int64 [2]; and of `weight`, int32.
  """
  fields: dict[str, Any] = {
    'bits': (np.uint8, [messages.packed_size(plan.num_reported)])
  }
  if plan.samples_coordinates:
    fields['selection'] = (np.int64, [2])
  if weighted:
    fields['weight'] = np.int32
  return tff.to_type(collections.OrderedDict(fields))


def randomize(
  plan: randomized_bits.RandomizedBits, values: tf.Tensor, seed: tf.Tensor
) -> collections.OrderedDict:
  """Makes the message of one client, without a weight; runs on the client.

  Args:
    plan: Epsilon, the range q, and how many coordinates are reported.
    values: The update, finite floats [d].
    seed: Decides all draws, int64 [2].

  Returns:
    `bits` and, with coordinate sampling, `selection`; see `message_type`.
  """
  seeds = tf.random.experimental.stateless_split(seed, 2)
  message = collections.OrderedDict()
  if plan.samples_coordinates:
    # From a stream of its own: the server gets to know this one.
    selection = coordinates.all_integers([2], seeds[1], tf.int64)
    values = tf.gather(values, _selected(plan, selection))
    message['selection'] = selection
  # In double precision, because the thresholds are whole numbers up to 2^32.
  bound = plan.bound
  clipped = tf.clip_by_value(tf.cast(values, tf.float64), -bound, bound)
  flip_draws = plan.response.flip_draws
  spread = randomized_response.NUM_DRAWS - 2 * flip_draws
  share = (clipped + bound) / (2 * bound)
  thresholds = flip_draws + tf.cast(tf.round(spread * share), tf.int64)
  draws = coordinates.all_integers([plan.num_reported], seeds[0], tf.uint32)
  bits = messages.pack(tf.cast(draws, tf.int64) < thresholds)
  return collections.OrderedDict(bits=bits, **message)


def signs(
  plan: randomized_bits.RandomizedBits, message: collections.OrderedDict
) -> tf.Tensor:
  """Reads a message: +1 or -1 for each coordinate, 0 if not reported; int32 [d]."""
  if not plan.samples_coordinates:
    return _reported(plan, message)
  indices = _selected(plan, message['selection'])[:, tf.newaxis]
  return tf.scatter_nd(indices, _reported(plan, message), [plan.num_coordinates])


def estimate(
  plan: randomized_bits.RandomizedBits, message: collections.OrderedDict
) -> tf.Tensor:
  """Reads a message as an unbiased estimate of the update, float32 [d]."""
  return plan.sign_value * tf.cast(signs(plan, message), tf.float32)


def contribution(
  plan: randomized_bits.RandomizedBits,
  message: collections.OrderedDict,
  dtype: tf.DType,
) -> collections.OrderedDict:
  """Reads a message as what it adds to the sums of signs and of weights."""
  weight = tf.cast(message.get('weight', 1), dtype)
  return collections.OrderedDict(
    signs=weight * tf.cast(signs(plan, message), dtype), weight=weight
  )


def added(
  plan: randomized_bits.RandomizedBits,
  total: collections.OrderedDict,
  message: collections.OrderedDict,
) -> collections.OrderedDict:
  """Adds a message to the sums of signs and of weights.

  Only what is reported is touched: the s coordinates of the message, of d that the sum has.
  """
  dtype = total['weight'].dtype
  weight = tf.cast(message.get('weight', 1), dtype)
  reported = weight * tf.cast(_reported(plan, message), dtype)
  if plan.samples_coordinates:
    indices = _selected(plan, message['selection'])[:, tf.newaxis]
    summed = tf.tensor_scatter_nd_add(total['signs'], indices, reported)
  else:
    summed = total['signs'] + reported
  return collections.OrderedDict(signs=summed, weight=total['weight'] + weight)


def _reported(
  plan: randomized_bits.RandomizedBits, message: collections.OrderedDict
) -> tf.Tensor:
  """Returns the signs that a message has, +1 or -1, int32 [s]."""
  return 2 * messages.unpack(message['bits'], plan.num_reported) - 1


def _selected(plan: randomized_bits.RandomizedBits, selection: tf.Tensor) -> tf.Tensor:
  """Returns the coordinates that a client reports, int64 [s]."""
  return coordinates.selected(plan.num_coordinates, plan.num_reported, selection)
