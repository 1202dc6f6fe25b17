"""What gradient inversion makes small, and how.

A recurrent layer forgets: tokens in the middle of a text move the gradient a hundred times
less than those at its ends, and a plain distance fits them last. A whitened one compares
not gradients G of a kernel but (G G' + f^2)^(-1/2) G, in which all directions down to the
size f count alike.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.optimize
import tensorflow as tf

from tff_textpriv.attacks import kernel_span

# A function of a vector: its value and its gradient.
Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]

# A floor at which all directions count by their size: the plain distance.
NO_WHITENING = 1e6

_EPSILON = 1e-12


class Measure(NamedTuple):
  """How different gradients are from those that were seen.

  Attributes:
    gradients: Those that were seen.
    whiteners: What each, as a matrix, is multiplied with before distances are taken.
    cosine_share: 1 for angles in place of distances, else 0.
  """

  gradients: list[tf.Tensor]
  whiteners: list[tf.Tensor]
  cosine_share: tf.Tensor

  @classmethod
  def distance(cls, gradients: list[tf.Tensor], floor: float) -> 'Measure':
    """Makes a distance in which directions above a floor count alike."""
    whiteners = [
      tf.constant(_whitener(_matrix(gradient).numpy(), floor), tf.float32)
      for gradient in gradients
    ]
    return cls(gradients, whiteners, tf.constant(0.0))

  def misfit(self, dummies: list[tf.Tensor]) -> tf.Tensor:
    """Sums the differences over all weights."""
    total = tf.constant(0.0)
    for dummy, gradient, whitener in zip(
      dummies, self.gradients, self.whiteners, strict=True
    ):
      cosine = tf.reduce_sum(dummy * gradient) / (_length(dummy) * _length(gradient))
      difference = tf.matmul(whitener, _matrix(dummy - gradient))
      distance = tf.reduce_sum(tf.square(difference))
      total += self.cosine_share * (1 - cosine) + (1 - self.cosine_share) * distance
    return total


def adam(
  objective: Objective, start: np.ndarray, steps: int, step_size: float
) -> np.ndarray:
  """Minimizes with Adam; the step size falls to zero along a cosine."""
  vector, mean, square = start.copy(), np.zeros_like(start), np.zeros_like(start)
  for step in range(1, steps + 1):
    _, slopes = objective(vector)
    mean = 0.9 * mean + 0.1 * slopes
    square = 0.999 * square + 0.001 * slopes**2
    direction = mean / (1 - 0.9**step)
    direction /= np.sqrt(square / (1 - 0.999**step)) + _EPSILON
    vector -= step_size * 0.5 * (1 + np.cos(np.pi * (step - 1) / steps)) * direction
  return vector


def lbfgs(objective: Objective, start: np.ndarray, steps: int) -> np.ndarray:
  """Minimizes with L-BFGS, in so many steps."""
  return scipy.optimize.minimize(
    objective,
    start,
    jac=True,
    method='L-BFGS-B',
    options={'maxiter': steps, 'maxcor': 30, 'ftol': 0.0, 'gtol': 0.0},
  ).x


def _matrix(tensor: tf.Tensor) -> tf.Tensor:
  return tensor[tf.newaxis] if len(tensor.shape) == 1 else tensor


def _whitener(gradient: np.ndarray, floor: float) -> np.ndarray:
  """Returns what makes the directions [rows] of a gradient count alike.

  Args:
    gradient: A matrix G [rows, columns].
    floor: The size, over the largest, below which directions count less.

  Returns:
    A matrix W [k, rows], k the smaller of rows and columns, such that |W G| is 1.
  """
  directions, sizes, _ = np.linalg.svd(gradient.astype(np.float64), full_matrices=False)
  scales = 1 / np.sqrt(sizes**2 + (floor * sizes[0]) ** 2 + _EPSILON**2)
  # A direction that is not there at all says nothing: it is a rounding error.
  scales = np.where(sizes > kernel_span.TOLERANCE * sizes[0], scales, 0.0)
  return (directions * scales).T / max(np.linalg.norm(sizes * scales), _EPSILON)


def _length(tensor: tf.Tensor) -> tf.Tensor:
  return tf.sqrt(tf.reduce_sum(tf.square(tensor)) + _EPSILON)
