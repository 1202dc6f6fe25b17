"""The two parts of attentive aggregation that are not TFF's: client work and server step.

Clients train, randomize the update on the device and add its products with the server's
model, which attention needs; the server steps along the aggregated gradient.
"""

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


def finalizer(
  optimizer: tff.learning.optimizers.Optimizer,
  weights_type: tff.Type,
  aggregate_type: tff.Type,
) -> tff.learning.templates.FinalizerProcess:
  """Makes the server step: an optimizer's, on the gradient with its theta term."""
  step = tff.learning.templates.build_apply_optimizer_finalizer(optimizer, weights_type)
  state_type = step.next.type_signature.parameter[0]

  @tff.tensorflow.computation(weights_type, aggregate_type)
  def whole_gradient(weights, aggregate):
    shrinkage = tf.unstack(aggregate['shrinkage'])
    return tuple(
      gradient + factor * weight
      for gradient, factor, weight in zip(
        aggregate['gradient'], shrinkage, weights.trainable, strict=True
      )
    )

  @tff.federated_computation(
    state_type,
    tff.FederatedType(weights_type, tff.SERVER),
    tff.FederatedType(aggregate_type, tff.SERVER),
  )
  def next_round(state, weights, aggregate):
    gradient = tff.federated_map(whole_gradient, (weights, aggregate))
    return step.next(state, weights, gradient)

  return tff.learning.templates.FinalizerProcess(
    step.initialize,
    next_round,
    get_hparams_fn=step.get_hparams,
    set_hparams_fn=step.set_hparams,
  )
