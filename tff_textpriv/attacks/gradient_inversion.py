"""Deep leakage from gradients, in embedding space.

The attacker does not see the tokens, only gradients of the weights above the embedding.
It looks for dummy embeddings whose gradients are the same (Zhu et al., 2019), and then
for the rows of a table of its own that are nearest to them. The classes are read off the
gradient of the output bias (Zhao et al., 2020, for a single example; here for batches).

The fit begins with the measure that was chosen, and ends with whitened distances (see
`matching`) whose floor is made smaller step by step.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tff_textpriv.attacks import class_counts, kernel_span, matching, targets
from tff_textpriv.attacks.inversion_settings import InversionSettings

# The sizes f, over that of the strongest direction, of the last fits.
_FLOORS = (0.1, 0.01, 0.001)


@dataclasses.dataclass(frozen=True)
class Inversion:
  """What an attack came to.

  Attributes:
    embeddings: The fitted embeddings [batch, time, width]; those of padding are zero.
    labels: The probability of each output [batch, outputs].
    misfit: What is left of the difference of gradients.
  """

  embeddings: np.ndarray
  labels: np.ndarray
  misfit: float


class Inverter:
  """Attacks gradients of one model. Batches of one shape share a graph."""

  def __init__(self, model: targets.Target, chosen: InversionSettings):
    """Prepares attacks.

    Args:
      model: The classifier that was trained.
      chosen: How to attack.
    """
    self._model = model
    self._chosen = chosen
    self._misfit_and_slopes = tf.function(self._misfit, autograph=False)
    self._first_order = tf.function(self._difference, autograph=False)

  def invert(
    self,
    shared_weights: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray | None],
    mask: np.ndarray,
    scale: float,
    rng: np.random.Generator,
  ) -> Inversion:
    """Fits embeddings to the gradients of a batch.

    Where the gradient of a kernel says which space the embeddings span, they are
    looked for in that space.

    Args:
      shared_weights: The weights above the embedding, at which gradients were taken.
      gradients: Their gradients; `None` for those that the attacker did not see.
      mask: Where there are tokens, booleans [batch, time]: the attacker knows how long
        the texts are.
      scale: The standard deviation of an embedding's numbers.
      rng: Draws the dummies.

    Returns:
      The best fit of all restarts.
    """
    seen = [number for number, one in enumerate(gradients) if one is not None]
    if not seen:
      raise ValueError('no gradient was seen, and so there is none to match')
    span = None
    if not targets.reads_places(self._model):  # It is that of the embeddings.
      span = find_span(self._model, gradients, np.count_nonzero(mask))
    width = self._model.embedding_size
    problem = _Problem(
      weights=[tf.constant(weight) for weight in shared_weights],
      seen=seen,
      gradients=[tf.constant(gradients[number], tf.float32) for number in seen],
      mask=mask,
      basis=np.eye(width) if span is None else span.basis,
    )
    attempts = [
      self._attempt(problem, scale, rng) for _ in range(self._chosen.attack_restarts)
    ]
    return min(attempts, key=lambda attempt: attempt.misfit)

  def misfit(
    self,
    shared_weights: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray | None],
    mask: np.ndarray,
    labels: np.ndarray,
  ) -> Callable[[np.ndarray], float]:
    """Returns how different gradients of a batch are from those that were seen.

    Args:
      shared_weights: The weights above the embedding, at which gradients were taken.
      gradients: Those that were seen; `None` for others.
      mask: Where there are tokens, booleans [batch, time].
      labels: The probability of each output [batch, outputs].

    Returns:
      A function of embeddings [batch, time, width].
    """
    seen = [number for number, one in enumerate(gradients) if one is not None]
    measure = matching.Measure.distance(
      [tf.constant(gradients[number], tf.float32) for number in seen], _FLOORS[0]
    )
    weights = [tf.constant(weight) for weight in shared_weights]
    target, places = tf.constant(labels, tf.float32), tf.constant(mask)

    def of_embeddings(embedded: np.ndarray) -> float:
      dummies = tf.constant(embedded, tf.float32)
      return float(
        self._first_order(dummies, target, places, weights, measure, tuple(seen))
      )

    return of_embeddings

  def _attempt(
    self, problem: '_Problem', scale: float, rng: np.random.Generator
  ) -> Inversion:
    """Fits from one start."""
    batch_size, time = problem.mask.shape
    dimensions, width = problem.basis.shape
    # So that embeddings have the length that they should have in any space.
    start = rng.normal(
      scale=scale * np.sqrt(width / dimensions), size=(batch_size, time, dimensions)
    )
    outputs = self._model.num_outputs
    label_logits = np.zeros((batch_size, outputs))
    is_soft = self._chosen.labels == 'soft'
    if not is_soft:
      predicted = self._predict(problem, start @ problem.basis)
      labels = class_counts.infer_labels(_bias(problem), batch_size, predicted)

    def unpack(vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
      coordinates, logits = np.split(vector, [start.size])
      return coordinates.reshape(start.shape) @ problem.basis, logits.reshape(
        label_logits.shape
      )

    def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
      embedded, logits = unpack(vector)
      target = _probabilities(logits) if is_soft else labels
      misfit, slopes, label_slopes = self._misfit_and_slopes(
        tf.constant(embedded, tf.float32),
        tf.constant(target, tf.float32),
        tf.constant(problem.mask),
        problem.weights,
        measure,
        tuple(problem.seen),
      )
      by_logits = np.zeros_like(logits)
      if is_soft:
        by_logits = _through_probabilities(target, label_slopes.numpy())
      by_coordinates = slopes.numpy().astype(np.float64) @ problem.basis.T
      return float(misfit), np.concatenate([by_coordinates.ravel(), by_logits.ravel()])

    vector = np.concatenate([start.ravel(), label_logits.ravel()])
    steps, optimizer = self._chosen.attack_steps, self._chosen.attack_optimizer
    first = measure = self._measure(problem.gradients)
    if optimizer == 'lbfgs':
      vector = matching.lbfgs(objective, vector, steps)
    else:
      vector = matching.adam(
        objective, vector, steps, scale * self._chosen.attack_step_size
      )
    if optimizer == 'staged':
      for floor in _FLOORS:
        measure = matching.Measure.distance(problem.gradients, floor)
        vector = matching.lbfgs(objective, vector, steps)
    measure = first
    embedded, logits = unpack(vector)
    return Inversion(
      embedded * problem.mask[..., np.newaxis],
      _probabilities(logits) if is_soft else labels,
      objective(vector)[0],
    )

  def _measure(self, gradients: list[tf.Tensor]) -> matching.Measure:
    """Makes the measure that was chosen."""
    measure = matching.Measure.distance(gradients, matching.NO_WHITENING)
    if self._chosen.matching == 'cosine':
      return measure._replace(cosine_share=tf.constant(1.0))
    return measure

  def _difference(self, embedded, labels, mask, weights, measure, seen):
    """Returns the misfit of dummies."""
    with tf.GradientTape() as tape:
      tape.watch(weights)
      logits = targets.logits_from_embeddings(self._model, weights, embedded, mask)
      loss = _loss(logits, labels)
    dummies = tape.gradient(loss, [weights[number] for number in seen])
    return measure.misfit([tf.convert_to_tensor(dummy) for dummy in dummies])

  def _misfit(self, embedded, labels, mask, weights, measure, seen):
    """Returns the misfit of dummies, and its slopes by embeddings and labels."""
    with tf.GradientTape() as tape:
      tape.watch([embedded, labels])
      misfit = self._difference(embedded, labels, mask, weights, measure, seen)
    slopes = tape.gradient(misfit, [embedded, labels], unconnected_gradients='zero')
    return misfit, *map(tf.convert_to_tensor, slopes)

  def _predict(self, problem: '_Problem', embedded: np.ndarray) -> np.ndarray:
    """Returns the mean probability of each output on dummies."""
    logits = targets.logits_from_embeddings(
      self._model,
      problem.weights,
      tf.constant(embedded, tf.float32),
      tf.constant(problem.mask),
    )
    return _probabilities(logits.numpy()).mean(axis=0)


@dataclasses.dataclass(frozen=True)
class _Problem:
  """The gradients of a batch, and what is known about it."""

  weights: list[tf.Tensor]
  seen: list[int]
  gradients: list[tf.Tensor]
  mask: np.ndarray
  basis: np.ndarray


def find_span(
  model: targets.Target,
  gradients: Sequence[np.ndarray | None],
  num_tokens: int,
) -> kernel_span.Span | None:
  """Finds the space of a batch's embeddings, if the gradients tell it.

  Args:
    model: The classifier.
    gradients: Those of the weights above the embedding.
    num_tokens: The number of tokens that were read.
  """
  seen = [gradients[number] for number in targets.first_kernels(model)]
  kernels = [gradient for gradient in seen if gradient is not None]
  return kernel_span.of_gradients(kernels, num_tokens) if kernels else None


def nearest_rows(
  embeddings: np.ndarray,
  table: np.ndarray,
  candidates: np.ndarray | None = None,
) -> np.ndarray:
  """Returns the nearest row of a table for each embedding.

  Args:
    embeddings: Float [..., width].
    table: The attacker's table [rows, width].
    candidates: The rows that may be; by default all.

  Returns:
    Integers [...].
  """
  rows = np.arange(len(table)) if candidates is None else candidates
  chosen = table[rows]
  # The squared distance, but for what is the same for all rows.
  distances = np.square(chosen).sum(axis=1) - 2 * embeddings @ chosen.T
  return rows[distances.argmin(axis=-1)]


def _bias(problem: _Problem) -> np.ndarray | None:
  """Returns the gradient of the last weight, the output bias, if it was seen."""
  if problem.seen[-1] != len(problem.weights) - 1:
    return None
  return problem.gradients[-1].numpy()


def _loss(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
  """The loss of training, for labels that may be probabilities."""
  if logits.shape[1] == 1:
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
  # TensorFlow's own cross-entropy forgets the labels in its second derivative.
  return -tf.reduce_mean(tf.reduce_sum(labels * tf.nn.log_softmax(logits), axis=1))


def _probabilities(logits: np.ndarray) -> np.ndarray:
  if logits.shape[1] == 1:
    return 1 / (1 + np.exp(-logits))
  powers = np.exp(logits - logits.max(axis=1, keepdims=True))
  return powers / powers.sum(axis=1, keepdims=True)


def _through_probabilities(probabilities: np.ndarray, slopes: np.ndarray) -> np.ndarray:
  """Turns slopes by probabilities into slopes by logits."""
  if probabilities.shape[1] == 1:
    return slopes * probabilities * (1 - probabilities)
  mean = np.sum(slopes * probabilities, axis=1, keepdims=True)
  return probabilities * (slopes - mean)
