"""Client work whose step size falls, from round to round or in each of them.

TFF has a builder for this, which does not take functional models in 0.87: its training
loop begins with weights of one Python type and ends with another.
"""

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.iterative_processes import local_training, optimizers


def build(
  model: tff.learning.models.FunctionalModel,
  weights_type: tff.Type,
  data_type: tff.Type,
  train: Callable[[Any, tf.Tensor, Any], tuple[Any, Any]],
  decay_rounds: int | None,
) -> tff.learning.templates.ClientWorkProcess:
  """Makes client work of a function that trains.

  Args:
    model: Its metrics are reported.
    weights_type: The type of the weights that clients receive.
    data_type: The type of a client's data.
    train: Takes the weights, what the step size is multiplied by, and the data; returns
      a `tff.learning.templates.ClientResult` and the sums that metrics are made of.
    decay_rounds: The rounds over which the step size falls to zero, in a line; `None`
      for never.

  Returns:
    Client work whose state, the server's, is the number of rounds.
  """

  @tff.tensorflow.computation
  def first_round():
    return tf.constant(0)

  @tff.tensorflow.computation(np.int32)
  def next_number(number):
    return number + 1

  @tff.tensorflow.computation(np.int32)
  def step_scale(number):
    if decay_rounds is None:
      return tf.constant(1.0)
    return optimizers.linear_decay(number, decay_rounds)

  @tff.tensorflow.computation(weights_type, np.float32, data_type)
  @tf.function
  def train_client(weights, scale, data):
    return train(weights, scale, data)

  @tff.federated_computation
  def initialize():
    return tff.federated_eval(first_round, tff.SERVER)

  @tff.federated_computation(
    tff.FederatedType(np.int32, tff.SERVER),
    tff.FederatedType(weights_type, tff.CLIENTS),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def next_round(number, weights, client_data):
    scale = tff.federated_broadcast(tff.federated_map(step_scale, number))
    result, metrics = tff.federated_map(train_client, (weights, scale, client_data))
    measured = tff.learning.metrics.sum_then_finalize(model.finalize_metrics)(metrics)
    return tff.templates.MeasuredProcessOutput(
      tff.federated_map(next_number, number),
      result,
      tff.federated_zip(collections.OrderedDict(train=measured)),
    )

  return tff.learning.templates.ClientWorkProcess(initialize, next_round)


def model_training(
  model: tff.learning.models.FunctionalModel,
  optimizer: tff.learning.optimizers.Optimizer,
  weights_type: tff.Type,
  weighting: tff.learning.ClientWeighting,
  decay_rounds: int | None,
  decays_within_round: bool,
) -> tff.learning.templates.ClientWorkProcess:
  """Makes client work that trains the whole model and sends the difference.

  Args:
    model: What is trained.
    optimizer: Takes the local steps.
    weights_type: The type of the model's weights.
    weighting: How much an update counts.
    decay_rounds: The rounds over which the step size falls to zero; `None` for never.
    decays_within_round: Whether it also falls to zero in each round.
  """
  trainer = local_training.LocalTrainer(
    model, optimizer, num_local=0, decays=decays_within_round
  )

  def train(weights, scale, batches):
    parts = local_training.Parts((), tuple(weights.trainable))
    trained = trainer.train(
      parts, trainer.initial_optimizer(()), batches, batches, scale
    )
    weight = trained.num_examples
    if weighting is tff.learning.ClientWeighting.UNIFORM:
      weight = tf.sign(weight)
    return client_result(parts.shared, trained.parts.shared, weight), trained.metrics

  return build(
    model,
    weights_type,
    tff.SequenceType(tff.types.tensorflow_to_type(model.input_spec)),
    train,
    decay_rounds,
  )


def client_result(
  before: local_training.Tensors, after: local_training.Tensors, weight: tf.Tensor
) -> tff.learning.templates.ClientResult:
  """Returns what a client reports: nothing, if its training diverged (weight 0)."""
  update = tf.cond(
    weight > 0,
    lambda: tuple(map(tf.subtract, before, after)),
    lambda: tuple(map(tf.zeros_like, before)),
  )
  return tff.learning.templates.ClientResult(update, weight)
