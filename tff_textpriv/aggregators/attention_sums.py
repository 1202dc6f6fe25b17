"""The arithmetic of attentive aggregation: what is summed over clients.

All rules of `attentive` are one sum over clients, if softmax weights are kept relative
to the largest score so far. Sums over parts of a cohort merge into the sum over all.
"""

import collections
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import sound_updates

# Scores are kept within these bounds, whose differences float32 can still hold.
_LARGEST_SCORE = 1e30
# Clients that are nearer, by squared distance, count as clients that did not move: the
# pull 2 / d_k towards them is not defined.
_LEAST_DISTANCE = 1e-30


class Units:
  """What is attended to: groups of weight tensors.

  Attributes:
    of_tensor: For each tensor the number of its unit, int [number of tensors].
    root_sizes: The square root of each unit's number of coordinates.
  """

  def __init__(self, of_tensor: Sequence[int], sizes: Sequence[int]):
    self.of_tensor = np.array(of_tensor)
    totals = np.bincount(self.of_tensor, weights=sizes)
    self.root_sizes = np.sqrt(totals).astype(np.float32)

  def __len__(self) -> int:
    return len(self.root_sizes)

  def sum(self, by_tensor: Sequence[tf.Tensor] | tf.Tensor) -> tf.Tensor:
    """Sums scalars of tensors over each unit."""
    return tf.math.unsorted_segment_sum(
      tf.convert_to_tensor(by_tensor), self.of_tensor, len(self)
    )

  def scale(self, tensors: Any, by_unit: tf.Tensor) -> Any:
    """Multiplies each tensor by the number of its unit."""
    leaves = [
      leaf * by_unit[unit]
      for leaf, unit in zip(tf.nest.flatten(tensors), self.of_tensor, strict=True)
    ]
    return tf.nest.pack_sequence_as(tensors, leaves)


def make_units(update_type: tff.Type, granularity: str) -> Units:
  """Groups the tensors of an update by `granularity`; their sizes must be known."""
  tensor_types = tff.structure.flatten(update_type)
  sizes = [math.prod(tensor_type.shape) for tensor_type in tensor_types]
  if granularity == 'model':
    return Units([0] * len(sizes), sizes)
  return Units(range(len(sizes)), sizes)


class Rule:
  """The arithmetic of a rule: what is summed over clients, and what comes of it.

  The sums of a cohort, or of a part of it, hold

    clients, left_out     how many take part, and how many change nothing
    peak                  the largest score, [unit]
    total                 sum of exp(score - peak), [unit]
    moment                sum of exp(score - peak) * (score - peak), [unit]
    attended              sum of exp(score - peak) * update (not `paper`)
    direct                sum of (2 / d - 1 / sqrt(n)) * update (`paper`, `exact`)
    pull, largest_pull    sum and maximum of 2 / d, [unit] (`paper`, `exact`)
  """

  def __init__(self, attention: str, step: str, units: Units):
    self._units = units
    self._attention = attention
    self._has_attended = attention != 'paper'
    self._has_direct = attention in ('paper', 'exact')
    self._is_relative = step == 'relative'

  def zero(self, update_type: tff.Type) -> collections.OrderedDict:
    """Returns the sums over no client."""
    no_update = tff.types.structure_from_tensor_type_tree(
      lambda tensor: tf.zeros(tensor.shape, tensor.dtype), update_type
    )
    none = tf.zeros([len(self._units)])
    return self._sums(
      clients=tf.constant(0.0),
      left_out=tf.constant(0.0),
      peak=none - _LARGEST_SCORE,
      total=none,
      moment=none,
      attended=no_update,
      direct=no_update,
      pull=none,
      largest_pull=none,
    )

  def lift(
    self, update: Any, products: tf.Tensor, weight: tf.Tensor
  ) -> collections.OrderedDict:
    """Returns the sums over one client."""
    units = self._units
    distances = units.sum(
      [tf.reduce_sum(tf.square(leaf)) for leaf in tf.nest.flatten(update)]
    )
    scores = self._scores(distances, products)
    finite = tf.reduce_all(tf.math.is_finite(tf.concat([distances, scores], axis=0)))
    leaves = tf.nest.flatten(update)
    sound = finite & sound_updates.are_sound(leaves)
    present = sound & tf.greater(weight, tf.zeros_like(weight))
    left_out = ~present | sound_updates.are_nothing(leaves)

    def where_present(value: Any, otherwise: float = 0.0) -> Any:
      return tf.nest.map_structure(
        lambda leaf: tf.where(present, leaf, tf.fill(tf.shape(leaf), otherwise)), value
      )

    moved = distances > _LEAST_DISTANCE
    pull = tf.where(moved, 2.0 / tf.maximum(distances, _LEAST_DISTANCE), 0.0)
    pull = where_present(pull)
    update = where_present(update)
    return self._sums(
      clients=tf.cast(present, tf.float32),
      left_out=tf.cast(left_out, tf.float32),
      peak=where_present(
        tf.clip_by_value(scores, -_LARGEST_SCORE, _LARGEST_SCORE), -_LARGEST_SCORE
      ),
      total=where_present(tf.ones_like(scores)),
      moment=tf.zeros_like(scores),
      attended=update,
      direct=units.scale(update, pull - 1.0 / units.root_sizes),
      pull=pull,
      largest_pull=pull,
    )

  def merge(self, first: Any, second: Any) -> collections.OrderedDict:
    """Returns the sums over the clients of both."""
    peak = tf.maximum(first['peak'], second['peak'])
    shifts = [sums['peak'] - peak for sums in (first, second)]
    merged = {
      name: tf.nest.map_structure(tf.add, first[name], second[name])
      for name in ('clients', 'left_out', 'direct', 'pull')
      if name in first
    }
    for name in ('total', 'moment', 'attended'):
      if name in first:
        parts = [
          self._rescaled(sums, name, shift)
          for sums, shift in zip((first, second), shifts, strict=True)
        ]
        merged[name] = tf.nest.map_structure(tf.add, *parts)
    if self._has_direct:
      merged['largest_pull'] = tf.maximum(first['largest_pull'], second['largest_pull'])
    return self._sums(peak=peak, **merged)

  def report(
    self, sums: Any
  ) -> tuple[collections.OrderedDict, collections.OrderedDict]:
    """Turns the sums over a cohort into the step and its measurements."""
    units = self._units
    someone = sums['total'] > 0
    total = tf.where(someone, sums['total'], 1.0)
    strength = sums['clients'] / units.root_sizes
    shrinkage = tf.zeros([len(units)])
    if not self._has_direct:
      gradient = units.scale(sums['attended'], 1.0 / total)
    elif not self._has_attended:
      gradient = sums['direct']
      shrinkage = strength
    else:
      gradient = tf.nest.map_structure(
        tf.add, sums['direct'], units.scale(sums['attended'], strength / total)
      )
    # The weights sum to 1, but rounding may leave an entropy of -1e-8.
    entropy = tf.maximum(tf.math.log(total) - sums['moment'] / total, 0.0)
    measurements = collections.OrderedDict(
      attention_entropy=tf.reduce_mean(entropy),
      attention_max=tf.reduce_max(tf.where(someone, 1.0 / total, 0.0)),
    )
    if self._has_direct:
      inverse_pull = tf.math.reciprocal_no_nan(sums['pull'])
      if self._is_relative:
        gradient = units.scale(gradient, inverse_pull)
        shrinkage *= inverse_pull
      measurements['distance_weight_max'] = tf.reduce_max(
        sums['largest_pull'] * inverse_pull
      )
    measurements['attended_clients'] = sums['clients']
    measurements['left_out_clients'] = sums['left_out']
    result = collections.OrderedDict(
      gradient=gradient, shrinkage=tf.gather(shrinkage, units.of_tensor)
    )
    return result, measurements

  def _scores(self, distances: tf.Tensor, products: tf.Tensor) -> tf.Tensor:
    """Returns what the softmax is taken of, [unit]."""
    if self._attention == 'uniform':
      return tf.zeros_like(distances)
    if self._attention == 'layerwise':
      return tf.sqrt(distances)
    # theta . theta_k = ||theta||^2 - theta . v_k, of which the first is the same for all
    # clients, and drops out of the softmax.
    return -self._units.sum(products) / self._units.root_sizes

  def _rescaled(self, sums: Any, name: str, shift: tf.Tensor) -> Any:
    """Returns a softmax-weighted sum relative to a peak that is `-shift` higher."""
    factor = tf.exp(shift)
    if name == 'attended':
      return self._units.scale(sums[name], factor)
    if name == 'moment':
      return factor * (sums['moment'] + sums['total'] * shift)
    return factor * sums[name]

  def _sums(self, **sums: Any) -> collections.OrderedDict:
    """Keeps those sums that the rule needs, in the same order every time."""
    unused = set()
    if not self._has_attended:
      unused.add('attended')
    if not self._has_direct:
      unused |= {'direct', 'pull', 'largest_pull'}
    return collections.OrderedDict(
      sorted((name, value) for name, value in sums.items() if name not in unused)
    )
