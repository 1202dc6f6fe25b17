"""Smoothed attention under central differential privacy: a quotient of noisy sums.

With clip norm C and lambda = 2 C^2, a client of update v, d = |v|^2, counts
w = lambda / (lambda + d), and sends w (v, C). The length of that,

  w sqrt(d + C^2) = lambda sqrt(d + lambda / 2) / (lambda + d) <= C,

is bounded whatever the update is, so that clipping at C, which is what the promise rests on,
changes nothing. The server divides the noisy mean of w v by the noisy mean of w.
"""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import of_mechanism
from tff_textpriv.iterative_processes import (
  client_results,
  common_settings,
  optimizers,
  seeded_client_work,
  server_step,
)
from tff_textpriv.privacy.mechanism import Mechanism

# The mean weight is taken for no less: clients at twice the usual distance have more, and
# noise must not be divided by next to nothing.
_LEAST_WEIGHT = 0.1


def build(
  model: tff.learning.models.FunctionalModel,
  settings: common_settings.LocalTrainingSettings,
  mechanism: Mechanism,
) -> tff.learning.templates.LearningProcess:
  """Builds the process; see `fed_att.build_fed_att`."""
  # What one message can be at most.
  clip = mechanism.largest_step(1)
  initial_weights = seeded_client_work.initial_weights(model)
  weights_type = initial_weights.type_signature.result
  work = _client_work(model, settings, clip)
  message_type = work.next.type_signature.result.result.member.update
  mean = of_mechanism.mean(mechanism, by_examples=False)

  def gradient(weights: Any, aggregate: Any) -> Any:
    del weights
    weight = tf.maximum(aggregate['weight'][0] / clip, _LEAST_WEIGHT)
    return tf.nest.map_structure(lambda part: part / weight, aggregate['update'])

  return tff.learning.templates.compose_learning_process(
    initial_weights,
    tff.learning.templates.build_broadcast_process(weights_type),
    work,
    mean.create(message_type, tff.TensorType(np.float32)),
    server_step.finalizer(
      optimizers.server_optimizer(settings), weights_type, message_type, gradient
    ),
  )


def message(update: Any, clip: float) -> collections.OrderedDict:
  """Returns what a client sends in place of its update: w v and [w C], w as above."""
  scale = 2 * clip**2
  distance = tf.add_n([2 * tf.nn.l2_loss(leaf) for leaf in tf.nest.flatten(update)])
  weight = scale / (scale + distance)
  # Infinite distances have no weight; what is not finite itself the mean leaves out.
  return collections.OrderedDict(
    update=tf.nest.map_structure(lambda leaf: weight * leaf, update),
    weight=tf.reshape(clip * weight, [1]),
  )


def _client_work(
  model: tff.learning.models.FunctionalModel,
  settings: common_settings.LocalTrainingSettings,
  clip: float,
) -> tff.learning.templates.ClientWorkProcess:
  """Makes local training whose update is weighted, and brings its weight."""
  training = tff.learning.templates.build_functional_model_delta_client_work(
    model=model,
    optimizer=optimizers.client_optimizer(settings),
    client_weighting=tff.learning.ClientWeighting.UNIFORM,
    loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
  )

  def weigh(
    weights: Any, batches: Any, result: tff.learning.templates.ClientResult
  ) -> tff.learning.templates.ClientResult:
    del weights, batches
    return tff.learning.templates.ClientResult(
      message(result.update, clip), result.update_weight
    )

  return client_results.changed(training, weigh)
