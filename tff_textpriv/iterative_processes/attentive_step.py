"""The two parts of attentive aggregation that are not TFF's: client work and server step.

Clients train, randomize the update on the device and add its products with the server's
model, which attention needs; the server steps along the aggregated gradient.
"""

from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import attentive, of_mechanism
from tff_textpriv.iterative_processes import (
  common_settings,
  optimizers,
  seeded_client_work,
)
from tff_textpriv.privacy.mechanism import Mechanism


def client_work(
  model: tff.learning.models.FunctionalModel,
  settings: common_settings.LocalTrainingSettings,
  mechanism: Mechanism,
) -> tff.learning.templates.ClientWorkProcess:
  """Makes local training whose update is randomized and ready for attention."""
  training = seeded_client_work.build(
    model,
    optimizers.client_optimizer(settings),
    tff.learning.ClientWeighting.NUM_EXAMPLES,
    mechanism,
  )
  state_type, weights_type, data_type = training.next.type_signature.parameter

  @tff.tensorflow.computation(
    weights_type.member, training.next.type_signature.result.result.member
  )
  def prepare(weights, result):
    delta, seed = result.update['delta'], result.update['seed']
    update = of_mechanism.seen(mechanism, delta, seed, 'server')
    weight = result.update_weight
    if mechanism.covered:
      # A mechanism answers whatever happened, and how much a client has is its secret: one
      # whose training blew up, and so counts as having learnt nothing, must not be told
      # from the others.
      weight = tf.ones_like(weight)
    # Of the randomized update, so that they reveal nothing more.
    value = attentive.client_value(weights.trainable, update)
    return tff.learning.templates.ClientResult(value, weight)

  @tff.federated_computation(state_type, weights_type, data_type)
  def next_round(state, weights, client_data):
    output = training.next(state, weights, client_data)
    result = tff.federated_map(prepare, (weights, output.result))
    return tff.templates.MeasuredProcessOutput(
      output.state, result, output.measurements
    )

  return tff.learning.templates.ClientWorkProcess(training.initialize, next_round)


def whole_gradient(weights: tff.learning.models.ModelWeights, aggregate: Any) -> Any:
  """Returns the server's gradient: the aggregated one, with its theta term."""
  shrinkage = tf.unstack(aggregate['shrinkage'])
  return tuple(
    gradient + factor * weight
    for gradient, factor, weight in zip(
      aggregate['gradient'], shrinkage, weights.trainable, strict=True
    )
  )
