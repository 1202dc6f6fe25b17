"""The count-mean sketch as an aggregation: devices randomize, the server adds up.

See `tff_textpriv.privacy.count_mean_sketch` for the mechanism and its privacy.
"""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.privacy import count_mean_sketch

NO_WORD = -1
_POWERS_OF_TWO = 2 ** np.arange(8, dtype=np.int32)


def client_value_type(words_per_user: int) -> tff.StructWithPythonType:
  """The type of what a device holds.

  Args:
    words_per_user: The number of words that each user reports.

  Returns:
    A structure of `words`, indices in the dictionary or `NO_WORD`, and `seed`, which
    must differ between clients and between rounds.
  """
  return tff.to_type(
    collections.OrderedDict(words=(np.int32, [words_per_user]), seed=(np.int64, [2]))
  )


def report_type(parameters: count_mean_sketch.SketchParameters) -> tff.Type:
  """The type of what leaves a device: for each word a row and `width` packed bits."""
  num_words = parameters.words_per_user
  return tff.to_type(
    collections.OrderedDict(
      rows=(np.int32, [num_words]), bits=(np.uint8, [num_words, parameters.width // 8])
    )
  )


class CountMeanSketchFactory(tff.aggregators.UnweightedAggregationFactory):
  """Sums randomized reports of words into a sketch.

  Clients hold values of `client_value_type` and send values of `report_type`. The
  result is `bit_sums`, int32 [num_hashes, width], and `row_counts`, int32
  [num_hashes], both plain sums over the clients: they merge in any order, and sketches
  of several rounds may be added. There is no state.
  """

  def __init__(self, parameters: count_mean_sketch.SketchParameters):
    """Makes the factory of a sketch."""
    self._parameters = parameters

  def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
    """Builds the aggregation; see the base class."""
    parameters = self._parameters
    expected_type = client_value_type(parameters.words_per_user)
    if value_type != expected_type:
      raise TypeError(f'The clients hold {value_type}; expected {expected_type}.')

    @tff.federated_computation
    def initialize():
      return tff.federated_value((), tff.SERVER)

    @tff.tensorflow.computation(value_type)
    def client_report(value):
      return randomize(parameters, value['words'], value['seed'])

    @tff.tensorflow.computation
    def zero():
      return empty_sketch(parameters)

    sketch_type = zero.type_signature.result

    @tff.tensorflow.computation(sketch_type, report_type(parameters))
    def accumulate(sketch, report):
      return add_report(sketch, report)

    @tff.tensorflow.computation(sketch_type, sketch_type)
    def merge(first, second):
      return tf.nest.map_structure(tf.add, first, second)

    @tff.tensorflow.computation(sketch_type)
    def finish(sketch):
      return sketch

    @tff.federated_computation(
      initialize.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
    )
    def next_round(state, values):
      reports = tff.federated_map(client_report, values)
      sketch = tff.federated_aggregate(reports, zero(), accumulate, merge, finish)
      measurements = tff.federated_value((), tff.SERVER)
      return tff.templates.MeasuredProcessOutput(state, sketch, measurements)

    return tff.templates.AggregationProcess(initialize, next_round)


def randomize(
  parameters: count_mean_sketch.SketchParameters, words: tf.Tensor, seed: tf.Tensor
) -> collections.OrderedDict:
  """Makes the reports of words; runs on the client.

  Each word is reported independently, so their number may be any.

  Args:
    parameters: Those of the sketch.
    words: Indices in the dictionary, int32 [num_words]; a negative one is no word.
    seed: Decides all draws, integers [2].

  Returns:
    `rows`, the hash function of each report, int32 [num_words], and `bits`, uint8
    [num_words, width / 8], where cell c is bit c % 8 of byte c // 8.
  """
  num_words, width = tf.shape(words)[0], parameters.width
  seeds = tf.random.experimental.stateless_split(seed, 3)
  rows = tf.random.stateless_uniform(
    [num_words], seeds[0], maxval=parameters.num_hashes, dtype=tf.int32
  )
  any_cell = tf.random.stateless_uniform(
    [num_words], seeds[1], maxval=width, dtype=tf.int32
  )
  coefficients = tf.gather(tf.constant(parameters.hash_coefficients), rows)
  hashes = count_mean_sketch.hash_words(coefficients, tf.cast(words, tf.int64), width)
  cells = tf.where(words < 0, any_cell, tf.cast(hashes, tf.int32))
  marked = tf.one_hot(cells, width, on_value=True, off_value=False)
  draws = tf.random.stateless_uniform(
    [num_words, width], seeds[2], minval=None, maxval=None, dtype=tf.uint32
  )
  flips = draws < tf.constant(parameters.flip_threshold, tf.uint32)
  bits = tf.cast(tf.math.logical_xor(marked, flips), tf.int32)
  packed = tf.reduce_sum(
    tf.reshape(bits, [num_words, width // 8, 8]) * _POWERS_OF_TWO, axis=-1
  )
  return collections.OrderedDict(rows=rows, bits=tf.cast(packed, tf.uint8))


def empty_sketch(
  parameters: count_mean_sketch.SketchParameters,
) -> collections.OrderedDict:
  """The sketch of nobody's reports."""
  return collections.OrderedDict(
    bit_sums=tf.zeros([parameters.num_hashes, parameters.width], tf.int32),
    row_counts=tf.zeros([parameters.num_hashes], tf.int32),
  )


def add_report(
  sketch: collections.OrderedDict, report: collections.OrderedDict
) -> collections.OrderedDict:
  """Adds the reports of one client to a sketch; runs on the server.

  Args:
    sketch: `bit_sums`, int32 [num_hashes, width], and `row_counts`, int32 [num_hashes].
    report: What `randomize` made.

  Returns:
    The new sketch.
  """
  packed = tf.cast(report['bits'], tf.int32)[:, :, tf.newaxis]
  bits = tf.reshape(
    tf.bitwise.bitwise_and(packed, _POWERS_OF_TWO) // _POWERS_OF_TWO,
    [-1, sketch['bit_sums'].shape[1]],
  )
  rows = report['rows'][:, tf.newaxis]
  return collections.OrderedDict(
    bit_sums=tf.tensor_scatter_nd_add(sketch['bit_sums'], rows, bits),
    row_counts=tf.tensor_scatter_nd_add(
      sketch['row_counts'], rows, tf.ones_like(report['rows'])
    ),
  )
