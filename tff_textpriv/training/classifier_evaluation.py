"""How well a classifier tells the classes of examples it was not trained on."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from scipy import stats

from tff_textpriv.datasets import labelled_batching
from tff_textpriv.models import classifiers

_BATCH_SIZE = 1024


class ClassifierEvaluator:
  """Scores examples in batches of similar length."""

  def __init__(
    self,
    model: classifiers.Classifier,
    weight_specs: Sequence[tf.TensorSpec] | None = None,
  ):
    """Traces the scoring of a batch.

    Args:
      model: The classifier.
      weight_specs: Types and shapes of its weights; by default those it starts with.
    """
    self._num_outputs = model.num_outputs
    if weight_specs is None:
      weight_specs = [
        tf.TensorSpec(weight.shape, tf.float32) for weight in model.initial_weights(0)
      ]
    inputs_spec = {
      'ids': tf.TensorSpec([None, None], tf.int32),
      'dense': tf.TensorSpec([None, model.width], tf.float32),
      **model.extra_specs,
    }

    @tf.function(input_signature=[weight_specs, inputs_spec], autograph=False)
    def score(weights, inputs):
      return model.logits(weights, classifiers.Inputs(**inputs))

    self._score = score
    self._names = list(inputs_spec)

  def logits(
    self,
    weights: Sequence[np.ndarray],
    examples: labelled_batching.EncodedExamples,
  ) -> np.ndarray:
    """Returns the logits of all examples, float32 [examples, outputs]."""
    lengths = examples.ids.lengths[examples.text_of]
    order = np.argsort(lengths, kind='stable')
    logits = np.zeros((len(examples), self._num_outputs), np.float32)
    weights = [tf.constant(weight) for weight in weights]
    for start in range(0, len(order), _BATCH_SIZE):
      rows = order[start : start + _BATCH_SIZE]
      inputs, _ = examples.batch(rows)
      read = {name: tf.constant(inputs[name]) for name in self._names}
      logits[rows] = self._score(weights, read).numpy()
    return logits

  def evaluate(
    self,
    weights: Sequence[np.ndarray],
    examples: labelled_batching.EncodedExamples,
  ) -> dict[str, float]:
    """Returns `loss`, `accuracy`, `num_examples` and, of two classes, `auc`."""
    logits = self.logits(weights, examples)
    predicted = classifiers.predictions(tf.constant(logits)).numpy()
    losses = classifiers.losses(tf.constant(logits), tf.constant(examples.labels))
    metrics = {
      'loss': float(tf.reduce_mean(losses)),
      'accuracy': float(np.mean(predicted == examples.labels)),
    }
    if self._num_outputs == 1:
      metrics['auc'] = auc(logits[:, 0], examples.labels)
    return {**metrics, 'num_examples': len(examples)}


def auc(scores: np.ndarray, labels: np.ndarray) -> float:
  """Returns the area under the ROC curve: how often a positive outranks a negative.

  Args:
    scores: The higher, the more positive [n]; equal scores count as half.
    labels: 1 for positive and 0 for negative [n].

  Returns:
    A number from 0 to 1; NaN if one class is missing, or a score is not a number.
  """
  num_positive = int(labels.sum())
  num_pairs = num_positive * (len(labels) - num_positive)
  if num_pairs == 0 or np.isnan(scores).any():
    return float('nan')
  ranks = stats.rankdata(scores)
  above = ranks[labels == 1].sum() - num_positive * (num_positive + 1) / 2
  return float(above / num_pairs)
