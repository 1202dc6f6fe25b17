"""Adding up what rules of attention need, in one pass over the clients.

Softmax weights are kept relative to the largest score so far. So sums over parts of a
cohort merge into the sum over all, in any order, and never overflow.
"""

import collections
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import attention_rules, sound_updates

# Scores are kept within these bounds, whose differences float32 can still hold.
_LARGEST_SCORE = 1e30


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

  def squared_norms(self, tensors: Any) -> tf.Tensor:
    """Returns the squared length of each unit."""
    return self.sum([2.0 * tf.nn.l2_loss(leaf) for leaf in tf.nest.flatten(tensors)])

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


class Sums:
  """Adds up what a rule needs.

  The sums of a cohort, or of a part of it, hold

    clients, left_out   how many take part, and how many change nothing
    peak                the largest score, [unit]
    total               sum of exp(score - peak), [unit]
    moment              sum of exp(score - peak) * (score - peak), [unit]
    weight              sum of the rule's weights, [unit]
    largest_weight      the largest of them, [unit]
    sums, numbers       weighted sums of updates, and of numbers, by the rule's names
    means, mean_numbers the same times exp(score - peak)
  """

  def __init__(self, rule: attention_rules.Rule, units: Units):
    """Adds up for a rule."""
    self._rule = rule
    self._units = units

  def lift(
    self,
    update: Any,
    products: tf.Tensor,
    work: tf.Tensor,
    usual: tf.Tensor,
    centre: Any | None = None,
  ) -> collections.OrderedDict:
    """Returns the sums over one client.

    Args:
      update: v_k.
      products: theta . v_k, [number of tensors].
      work: The number of examples that it trained on; 0 if it takes no part.
      usual: What the rule remembers of the round before, [unit].
      centre: What distances are measured from, in place of no update.
    """
    rule, units = self._rule, self._units
    away = update
    if centre is not None:
      away = tf.nest.map_structure(tf.subtract, update, centre)
    client = attention_rules.OfClient(
      units.squared_norms(away),
      units.sum(products),
      tf.constant(units.root_sizes),
      work,
      usual,
    )
    score = rule.score(client)
    numbers = tf.concat([client.distance, score], axis=0)
    leaves = tf.nest.flatten(update)
    sound = tf.reduce_all(tf.math.is_finite(numbers)) & sound_updates.are_sound(leaves)
    present = sound & tf.greater(work, tf.zeros_like(work))
    left_out = ~present | sound_updates.are_nothing(leaves)

    def where_present(value: Any, otherwise: float = 0.0) -> Any:
      return tf.nest.map_structure(
        lambda leaf: tf.where(present, leaf, tf.fill(tf.shape(leaf), otherwise)), value
      )

    update = where_present(update)
    client = client._replace(
      distance=where_present(client.distance), product=where_present(client.product)
    )
    peak = tf.clip_by_value(score, -_LARGEST_SCORE, _LARGEST_SCORE)
    return collections.OrderedDict(
      clients=tf.cast(present, tf.float32),
      largest_weight=where_present(rule.weight(client)),
      left_out=tf.cast(left_out, tf.float32),
      mean_numbers=_ordered(where_present(rule.mean_numbers(client))),
      means=self._weighted(update, rule.means(client)),
      moment=tf.zeros_like(score),
      numbers=_ordered(where_present(rule.numbers(client))),
      peak=where_present(peak, -_LARGEST_SCORE),
      sums=self._weighted(update, rule.sums(client)),
      total=where_present(tf.ones_like(score)),
      weight=where_present(rule.weight(client)),
    )

  def zero(self, sums_type: tff.Type) -> Any:
    """Returns the sums over no client, of the type of those over one."""
    nothing = tff.types.structure_from_tensor_type_tree(
      lambda tensor: tf.zeros(tensor.shape, tensor.dtype), sums_type
    )
    return collections.OrderedDict(nothing, peak=nothing['peak'] - _LARGEST_SCORE)

  def merge(self, first: Any, second: Any) -> collections.OrderedDict:
    """Returns the sums over the clients of both."""
    peak = tf.maximum(first['peak'], second['peak'])
    parts = [self._seen_from(peak, sums) for sums in (first, second)]
    merged = tf.nest.map_structure(tf.add, *parts)
    return collections.OrderedDict(
      merged,
      peak=peak,
      largest_weight=tf.maximum(first['largest_weight'], second['largest_weight']),
    )

  def report(
    self, sums: Any
  ) -> tuple[tf.Tensor, collections.OrderedDict, collections.OrderedDict]:
    """Turns the sums over a cohort into what is remembered, the step and measurements."""
    units = self._units
    someone = sums['total'] > 0
    total = tf.where(someone, sums['total'], 1.0)
    found = attention_rules.Found(
      clients=sums['clients'],
      weight=sums['weight'],
      sums=sums['sums'],
      means={
        name: units.scale(value, 1.0 / total) for name, value in sums['means'].items()
      },
      numbers=sums['numbers'],
      mean_numbers={
        name: value / total for name, value in sums['mean_numbers'].items()
      },
    )
    step = self._rule.step(found, tf.constant(units.root_sizes))
    terms = [
      units.scale(values[name], factor)
      for values, factors in ((found.sums, step.sums), (found.means, step.means))
      for name, factor in factors.items()
    ]
    gradient = tf.nest.map_structure(lambda *leaves: tf.add_n(leaves), *terms)
    # The weights sum to 1, but rounding may leave an entropy of -1e-8.
    entropy = tf.maximum(tf.math.log(total) - sums['moment'] / total, 0.0)
    measurements = collections.OrderedDict(
      attention_entropy=tf.reduce_mean(entropy),
      attention_max=tf.reduce_max(tf.where(someone, 1.0 / total, 0.0)),
    )
    if self._rule.weighs_by_distance:
      measurements['distance_weight_max'] = tf.reduce_max(
        sums['largest_weight'] * tf.math.reciprocal_no_nan(sums['weight'])
      )
    measurements['attended_clients'] = sums['clients']
    measurements['left_out_clients'] = sums['left_out']
    result = collections.OrderedDict(
      gradient=gradient, shrinkage=tf.gather(step.shrinkage, units.of_tensor)
    )
    return self._rule.remember(found), result, measurements

  def _weighted(
    self, update: Any, weights: dict[str, tf.Tensor]
  ) -> collections.OrderedDict:
    return _ordered(
      {name: self._units.scale(update, weight) for name, weight in weights.items()}
    )

  def _seen_from(self, peak: tf.Tensor, sums: Any) -> collections.OrderedDict:
    """Returns sums relative to a peak that is at least their own."""
    shift = sums['peak'] - peak
    factor = tf.exp(shift)
    return collections.OrderedDict(
      sums,
      total=factor * sums['total'],
      moment=factor * (sums['moment'] + sums['total'] * shift),
      means=_ordered(
        {
          name: self._units.scale(value, factor)
          for name, value in sums['means'].items()
        }
      ),
      mean_numbers=_ordered(
        {name: factor * value for name, value in sums['mean_numbers'].items()}
      ),
    )


def _ordered(by_name: dict[str, Any]) -> collections.OrderedDict:
  return collections.OrderedDict(sorted(by_name.items()))
