"""The client optimizer of FedProx.

TFF 0.87's own builder adds the proximal term's gradient with the opposite sign,
which drives clients away from the server model. Here the term is a part of the
client optimizer, and the rest is federated averaging.
"""

import collections
from typing import TYPE_CHECKING

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.iterative_processes import optimizers

if TYPE_CHECKING:
  from tff_textpriv.iterative_processes import fed_prox


def optimizer(settings: 'fed_prox.FedProxSettings') -> 'ProximalOptimizer':
  """Makes the optimizer of local training."""
  return ProximalOptimizer(
    optimizers.client_optimizer(settings), settings.proximal_strength
  )


class ProximalOptimizer(tff.learning.optimizers.Optimizer):
  """Adds the gradient of strength / 2 * ||w - w_0||^2 before another optimizer.

  w_0, the weights at the first step, are the server's: local training starts there.
  """

  def __init__(self, inner: tff.learning.optimizers.Optimizer, strength: float):
    """Wraps an optimizer.

    Args:
      inner: What applies the gradients.
      strength: The proximal term's weight (mu in Li et al., 2020).
    """
    self._inner = inner
    self._strength = strength

  def initialize(self, specs):
    """See the base class; the starting weights are not known yet."""
    return collections.OrderedDict(
      inner=self._inner.initialize(specs),
      start=tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), specs),
      has_started=tf.constant(False),
    )

  def next(self, state, weights, gradients):
    """See the base class."""
    start = tf.nest.map_structure(
      lambda kept, now: tf.where(state['has_started'], kept, now),
      state['start'],
      weights,
    )
    pulled = tf.nest.map_structure(
      lambda gradient, weight, origin: gradient + self._strength * (weight - origin),
      gradients,
      weights,
      start,
    )
    inner, weights = self._inner.next(state['inner'], weights, pulled)
    new_state = collections.OrderedDict(
      inner=inner, start=start, has_started=tf.constant(True)
    )
    return new_state, weights

  def get_hparams(self, state):
    """See the base class."""
    return self._inner.get_hparams(state['inner'])

  def set_hparams(self, state, hparams):
    """See the base class."""
    inner = self._inner.set_hparams(state['inner'], hparams)
    return collections.OrderedDict(state, inner=inner)
