"""Attentive aggregation: clients train and randomize, the server attends to them.

The four parts stand below: TFF's broadcast; local training with momentum SGD, then
Eq. 11's noise on the device and the products with the server's model that attention
needs; `aggregators.attentive`; and a server step along the aggregated gradient.
"""

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import attentive, local_gaussian
from tff_textpriv.iterative_processes import (
  algorithm_settings,
  optimizers,
  seeded_client_work,
)
from tff_textpriv.privacy import local_gaussian as privacy


def build(
  model: tff.learning.models.FunctionalModel,
  settings: algorithm_settings.FedAttSettings,
  plan: privacy.LocalGaussianPlan,
  seed: int = 0,
) -> tff.learning.templates.LearningProcess:
  """Builds the process; see `registry.Algorithm.build`."""
  del seed  # Clients bring seeds of their own.
  initial_weights = seeded_client_work.initial_weights(model)
  weights_type = initial_weights.type_signature.result
  client_work = _client_work(model, settings, plan)
  client_result_type = client_work.next.type_signature.result.result.member
  aggregator = attentive.AttentiveFactory(
    settings.attention, settings.granularity, settings.attention_step
  ).create(client_result_type.update, client_result_type.update_weight)
  return tff.learning.templates.compose_learning_process(
    initial_weights,
    tff.learning.templates.build_broadcast_process(weights_type),
    client_work,
    aggregator,
    _finalizer(
      optimizers.server_optimizer(settings),
      weights_type,
      aggregator.next.type_signature.result.result.member,
    ),
  )


def _client_work(
  model: tff.learning.models.FunctionalModel,
  settings: algorithm_settings.FedAttSettings,
  plan: privacy.LocalGaussianPlan,
) -> tff.learning.templates.ClientWorkProcess:
  """Makes local training whose update is randomized and ready for attention."""
  training = seeded_client_work.build(
    model,
    optimizers.client_optimizer(settings),
    tff.learning.ClientWeighting.UNIFORM,
  )
  state_type, weights_type, data_type = training.next.type_signature.parameter

  @tff.tensorflow.computation(
    weights_type.member, training.next.type_signature.result.result.member
  )
  def prepare(weights, result):
    delta, seed = result.update['delta'], result.update['seed']
    update = local_gaussian.randomize(delta, seed, plan)
    weight = result.update_weight
    if plan.clip_norm is not None:
      # A mechanism answers whatever happened: a client whose training blew up, and so
      # counts as having learnt nothing, must not be told from the others.
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


def _finalizer(
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
