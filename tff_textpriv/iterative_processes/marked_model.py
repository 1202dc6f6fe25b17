"""Models whose batches carry a mark beside their inputs, which their loss may heed.

Whatever an algorithm does with a client's gradients and updates, it does with those of a
client that is marked: audits and benchmarks make clients of their own kind so.
"""

import collections
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff


def with_mark(
  model: tff.learning.models.FunctionalModel,
  mark_spec: tf.TensorSpec,
  seen: Callable[[Any, tf.Tensor], Any],
  loss: Callable[[Callable[[], tf.Tensor], Any], tf.Tensor],
) -> tff.learning.models.FunctionalModel:
  """Lets the batches of a model carry a mark.

  Args:
    model: What is trained.
    mark_spec: What a mark is.
    seen: Makes, of the model's weights and a batch's mark, what the loss needs of both.
    loss: Makes the loss of a function that computes the model's own, and of what is seen.

  Returns:
    A model of the same weights and metrics. The inputs of its batches are an ordered
    dictionary of the model's `inputs` and a `mark`.
  """
  inputs_spec, labels_spec = model.input_spec

  @tf.function(autograph=False)
  def predict_on_batch(weights, inputs, training):
    output = model.predict_on_batch(weights, inputs['inputs'], training)
    return output, seen(weights, inputs['mark'])

  @tf.function(autograph=False)
  def marked_loss(output, label, sample_weight=None):
    inner, mark = output
    return loss(lambda: model.loss(inner, label, sample_weight), mark)

  @tf.function(autograph=False)
  def update_metrics(state, labels, batch_output, sample_weight=None):
    inner = tff.learning.models.BatchOutput(
      loss=batch_output.loss,
      predictions=batch_output.predictions[0],
      num_examples=batch_output.num_examples,
    )
    return model.update_metrics_state(state, labels, inner, sample_weight)

  return tff.learning.models.FunctionalModel(
    initial_weights=model.initial_weights,
    predict_on_batch_fn=predict_on_batch,
    loss_fn=marked_loss,
    metrics_fns=(
      model.initialize_metrics_state,
      update_metrics,
      model.finalize_metrics,
    ),
    input_spec=(
      collections.OrderedDict(inputs=inputs_spec, mark=mark_spec),
      labels_spec,
    ),
  )


def batch(inputs: Any, mark: Any, labels: Any) -> tuple[Any, Any]:
  """Returns a batch of a marked model."""
  return collections.OrderedDict(inputs=inputs, mark=mark), labels
