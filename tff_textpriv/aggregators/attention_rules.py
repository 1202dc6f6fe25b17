"""The rules of attentive aggregation: what each sums over clients, and what comes of it.

With theta the server's model, v_k = theta - theta_k the update of client k of m,
d_k = |v_k|^2, n the number of coordinates and a = softmax(s), s_k = theta . theta_k /
sqrt(n). Everything is [unit]: whole models, or weight tensors (`attention_sums.Units`).

A rule says how clients are scored, which sums and softmax means of updates it needs, with
which weights, and how the step is made of them. `attention_sums` adds up.
"""

import abc
import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

# Clients that are nearer, by squared distance, count as clients that did not move: the
# pull 2 / d_k towards them is not defined.
_LEAST_DISTANCE = 1e-30
# Distances are counted by their logarithm to base 2, in bins of this width.
_BINS_PER_OCTAVE = 2
_LEAST_OCTAVE, _LAST_OCTAVE = -64, 64


class OfClient(NamedTuple):
  """What a rule sees of a client, [unit] each.

  Attributes:
    distance: d_k, from the server's model or from the centre that was asked for.
    product: theta . v_k. That of theta and theta_k is |theta|^2 - theta . v_k, of which
      the first is the same for all clients, and drops out of a softmax.
    root_size: sqrt(n).
    work: The number of examples that it trained on, a scalar.
    usual: What the rule remembers of the round before (`Rule.remember`), or 0.
  """

  distance: tf.Tensor
  product: tf.Tensor
  root_size: tf.Tensor
  work: tf.Tensor
  usual: tf.Tensor

  @property
  def similarity(self) -> tf.Tensor:
    """s_k, but for what is the same for all clients."""
    return -self.product / self.root_size

  @property
  def pull(self) -> tf.Tensor:
    """2 / d_k: the gradient of log d_k is so many times v_k."""
    moved = self.distance > _LEAST_DISTANCE
    return tf.where(moved, 2.0 / tf.maximum(self.distance, _LEAST_DISTANCE), 0.0)


class Found(NamedTuple):
  """What the sums over a cohort are.

  Attributes:
    clients: m.
    weight: The sum of what updates are weighted by, [unit].
    sums: Weighted sums of updates, by name.
    means: Softmax-weighted means of updates, by name.
    numbers: Sums of numbers, [unit, ...], by name.
    mean_numbers: Softmax-weighted means of numbers, [unit], by name.
  """

  clients: tf.Tensor
  weight: tf.Tensor
  sums: Mapping[str, Any]
  means: Mapping[str, Any]
  numbers: Mapping[str, tf.Tensor]
  mean_numbers: Mapping[str, tf.Tensor]


class Step(NamedTuple):
  """How the server's gradient is made: a combination of sums and means, and a multiple of theta.

  Attributes:
    sums: What sums of updates are multiplied by, [unit], by name.
    means: What means of updates are multiplied by.
    shrinkage: What theta is multiplied by, [unit].
  """

  sums: Mapping[str, tf.Tensor]
  means: Mapping[str, tf.Tensor]
  shrinkage: tf.Tensor


class Rule(abc.ABC):
  """A rule; by default all clients are scored alike and nothing is summed.

  Attributes:
    weighs_by_distance: Whether what clients' updates are weighted by depends on how far
      they went.
    relative: Whether the step is measured in the rule's own unit, so that a step of 1
      is about a mean of updates, whatever the distances are.
  """

  weighs_by_distance: ClassVar[bool] = False

  def __init__(self, *, relative: bool = True):
    self.relative = relative

  def score(self, client: OfClient) -> tf.Tensor:
    """Returns what the softmax is taken of."""
    return tf.zeros_like(client.distance)

  def weight(self, client: OfClient) -> tf.Tensor:
    """Returns what the client's update is weighted by."""
    return tf.ones_like(client.distance)

  def sums(self, client: OfClient) -> dict[str, tf.Tensor]:
    """Returns the client's weights in sums of updates, by name."""
    return {}

  def means(self, client: OfClient) -> dict[str, tf.Tensor]:
    """Returns what the client's update counts in softmax means, by name."""
    return {}

  def numbers(self, client: OfClient) -> dict[str, tf.Tensor]:
    """Returns the client's numbers that are added up, by name."""
    return {}

  def mean_numbers(self, client: OfClient) -> dict[str, tf.Tensor]:
    """Returns the client's numbers of which softmax means are taken, by name."""
    return {}

  @abc.abstractmethod
  def step(self, found: Found, root_size: tf.Tensor) -> Step:
    """Says what the gradient is made of."""

  def remember(self, found: Found) -> tf.Tensor:
    """Returns what clients of the next round are told of this one, [unit]."""
    return tf.zeros_like(found.weight)


class Uniform(Rule):
  """sum_k v_k / m: the plain mean, for comparison."""

  def means(self, client: OfClient) -> dict[str, tf.Tensor]:
    """See the base class."""
    return {'attended': tf.ones_like(client.distance)}

  def step(self, found: Found, root_size: tf.Tensor) -> Step:
    """See the base class."""
    ones = tf.ones_like(root_size)
    return Step({}, {'attended': ones}, tf.zeros_like(root_size))


class Layerwise(Uniform):
  """sum_k a_k v_k with a = softmax(|v|): the same authors' earlier rule."""

  def score(self, client: OfClient) -> tf.Tensor:
    """See the base class."""
    return tf.sqrt(client.distance)


class Paper(Rule):
  """Algorithm 3 to the letter, its line 11's sum over all clients included.

    sum_k [ theta_k / sqrt(n)  +  1 / d_k  sum_j 2 v_j ]
      =  m theta / sqrt(n)  +  (sum_k 2 / d_k  -  1 / sqrt(n))  sum_j v_j

  The softmax cancels (1 / a_k times a_k). Relative to the total pull, the step is the
  *sum* of all updates: m times their mean.
  """

  def weight(self, client: OfClient) -> tf.Tensor:
    """See the base class."""
    return client.pull

  def sums(self, client: OfClient) -> dict[str, tf.Tensor]:
    """See the base class."""
    return {'plain': tf.ones_like(client.distance)}

  def step(self, found: Found, root_size: tf.Tensor) -> Step:
    """See the base class."""
    pull = found.weight
    unit = tf.math.reciprocal_no_nan(pull) if self.relative else tf.ones_like(pull)
    return Step(
      {'plain': (pull - 1.0 / root_size) * unit},
      {},
      found.clients / root_size * unit,
    )


class Exact(Rule):
  """The gradient of sum_k (log a_k + log d_k).

  sum_k (2 / d_k - 1 / sqrt(n)) v_k  +  m / sqrt(n) sum_k a_k v_k
  """

  weighs_by_distance = True

  def score(self, client: OfClient) -> tf.Tensor:
    """See the base class."""
    return client.similarity

  def weight(self, client: OfClient) -> tf.Tensor:
    """See the base class."""
    return client.pull

  def sums(self, client: OfClient) -> dict[str, tf.Tensor]:
    """See the base class."""
    return {'direct': client.pull - 1.0 / client.root_size}

  def means(self, client: OfClient) -> dict[str, tf.Tensor]:
    """See the base class."""
    return {'attended': tf.ones_like(client.distance)}

  def step(self, found: Found, root_size: tf.Tensor) -> Step:
    """See the base class."""
    pull = found.weight
    unit = tf.math.reciprocal_no_nan(pull) if self.relative else tf.ones_like(pull)
    return Step(
      {'direct': unit},
      {'attended': found.clients / root_size * unit},
      tf.zeros_like(root_size),
    )


class Loss(Rule):
  """The gradient of Eq. 1 itself, sum_k a_k d_k, with a temperature T of the softmax.

    2 sum_k a_k v_k  -  (sum_k a_k d_k v_k - sum_k a_k d_k  sum_k a_k v_k) / (T sqrt(n))

  (Eq. 5 takes the logarithm of the sum for the sum of logarithms, which is `Exact`'s.)
  """

  def __init__(self, temperature: float, *, relative: bool = True):
    """Makes the rule.

    Args:
      temperature: T; the higher, the more alike clients are.
      relative: See the base class.
    """
    super().__init__(relative=relative)
    self._temperature = temperature

  def score(self, client: OfClient) -> tf.Tensor:
    """See the base class."""
    return client.similarity / self._temperature

  def means(self, client: OfClient) -> dict[str, tf.Tensor]:
    """See the base class."""
    return {'attended': tf.ones_like(client.distance), 'by_distance': client.distance}

  def mean_numbers(self, client: OfClient) -> dict[str, tf.Tensor]:
    """See the base class."""
    return {'distance': client.distance}

  def step(self, found: Found, root_size: tf.Tensor) -> Step:
    """See the base class."""
    slope = 1.0 / (self._temperature * root_size)
    attended = 2.0 + slope * found.mean_numbers['distance']
    # Relative: half of it, so that what leads is the mean.
    unit = 0.5 if self.relative else 1.0
    return Step(
      {},
      {'attended': unit * attended, 'by_distance': -unit * slope},
      tf.zeros_like(root_size),
    )


class Smoothed(Rule):
  """sum_k w_k v_k / sum_k w_k with w_k = 1 / (1 + r_k / (lambda R)), r_k = d_k / work_k^2.

  1 / d_k without its pole: R is the median r of the round before, so that a usual client
  counts 1 / (1 + 1 / lambda), one that did not move 1, at most, and one that is c times as
  far about lambda / c^2. Relative to its work a client with much text is not far because
  it took more steps. Before there is an R all count alike.
  """

  weighs_by_distance = True

  def __init__(self, smoothing: float, *, by_work: bool):
    """Makes the rule.

    Args:
      smoothing: lambda; the larger, the more alike clients are.
      by_work: Whether distances are relative to the work done; work_k is 1 otherwise.
    """
    super().__init__()
    self._smoothing = smoothing
    self._by_work = by_work

  def weight(self, client: OfClient) -> tf.Tensor:
    """See the base class."""
    far = self._smoothing * client.usual
    return tf.where(far > 0, far / (far + self._covered(client)), 1.0)

  def sums(self, client: OfClient) -> dict[str, tf.Tensor]:
    """See the base class."""
    return {'smoothed': self.weight(client)}

  def numbers(self, client: OfClient) -> dict[str, tf.Tensor]:
    """See the base class: which bin the client's r is in, so that sums are a histogram."""
    octave = tf.math.log(self._covered(client)) / math.log(2)
    # log 0 is -inf, which the first bin takes.
    octave = tf.clip_by_value(octave, _LEAST_OCTAVE, _LAST_OCTAVE - 1e-3)
    number = tf.cast((octave - _LEAST_OCTAVE) * _BINS_PER_OCTAVE, tf.int32)
    bins = (_LAST_OCTAVE - _LEAST_OCTAVE) * _BINS_PER_OCTAVE
    return {'histogram': tf.one_hot(number, bins)}

  def step(self, found: Found, root_size: tf.Tensor) -> Step:
    """See the base class."""
    unit = tf.math.reciprocal_no_nan(found.weight)
    return Step({'smoothed': unit}, {}, tf.zeros_like(root_size))

  def remember(self, found: Found) -> tf.Tensor:
    """See the base class: R, the middle of the bin in which the median is."""
    up_to = tf.cumsum(found.numbers['histogram'], axis=1)
    below = tf.reduce_sum(tf.cast(2.0 * up_to < found.clients, tf.float32), axis=1)
    usual = 2.0 ** (_LEAST_OCTAVE + (below + 0.5) / _BINS_PER_OCTAVE)
    return tf.where(found.clients > 0, usual, 0.0)

  def _covered(self, client: OfClient) -> tf.Tensor:
    """r_k."""
    if not self._by_work:
      return client.distance
    return client.distance / tf.square(tf.maximum(client.work, 1.0))
