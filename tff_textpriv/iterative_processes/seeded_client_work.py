"""Local training by clients that also hold a seed, for mechanisms on the device.

TFF's client work turns batches into a model update. A mechanism that randomizes the
update on the device needs random numbers that differ between clients and rounds,
and that a resumed run can repeat. So a client reads two sequences, its `batches` and one
`seed`, and the seed goes to the aggregator along with the update.
"""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.privacy.mechanism import Mechanism

SEED_TYPE = tff.TensorType(np.int64, [2])


def build(
  model: tff.learning.models.FunctionalModel,
  optimizer: tff.learning.optimizers.Optimizer,
  client_weighting: tff.learning.ClientWeighting,
  mechanism: Mechanism,
) -> tff.learning.templates.ClientWorkProcess:
  """Wraps TFF's local training, so that seeds pass beside it.

  The work on the batches is TFF's own: an update that is not finite becomes zero,
  with weight zero, and its metrics are left out.

  Args:
    model: What is trained.
    optimizer: Takes the local steps.
    client_weighting: What the update's weight is.
    mechanism: What clients are promised; if that is something local, their losses and
      counts stay with them.

  Returns:
    Client work on data of two sequences, `batches` and `seed`, of which the second has
    one element of `SEED_TYPE`. The update that it hands to the aggregator is
    an ordered dictionary of `delta` (the initial weights minus the trained ones)
    and `seed`.
  """
  training = tff.learning.templates.build_functional_model_delta_client_work(
    model=model,
    optimizer=optimizer,
    client_weighting=client_weighting,
    loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
    metrics_aggregator=_no_metrics if mechanism.is_local_promise else None,
  )
  state_type, weights_type, batches_type = training.next.type_signature.parameter
  seeds_type = tff.SequenceType(SEED_TYPE)

  @tff.tensorflow.computation(seeds_type)
  def only_seed(seeds):
    # Its one element; the sum of one is the element itself.
    return seeds.reduce(tf.zeros([2], tf.int64), tf.add)

  @tff.tensorflow.computation(
    training.next.type_signature.result.result.member, SEED_TYPE
  )
  def add_seed(result, seed):
    return tff.learning.templates.ClientResult(
      update=collections.OrderedDict(delta=result.update, seed=seed),
      update_weight=result.update_weight,
    )

  @tff.federated_computation(
    state_type,
    weights_type,
    tff.FederatedType(
      collections.OrderedDict(batches=batches_type.member, seed=seeds_type), tff.CLIENTS
    ),
  )
  def next_round(state, weights, client_data):
    output = training.next(state, weights, client_data.batches)
    seeds = tff.federated_map(only_seed, client_data.seed)
    result = tff.federated_map(add_seed, (output.result, seeds))
    return tff.templates.MeasuredProcessOutput(
      output.state, result, output.measurements
    )

  return tff.learning.templates.ClientWorkProcess(training.initialize, next_round)


def _no_metrics(finalizers: Any) -> tff.Computation:
  """Makes the aggregation of clients' metrics that takes none of them."""
  del finalizers  # There is nothing to finalize.

  @tff.federated_computation
  def aggregate(metrics):
    del metrics  # They stay with the clients.
    return tff.federated_value(collections.OrderedDict(), tff.SERVER)

  return aggregate


def initial_weights(
  model: tff.learning.models.FunctionalModel,
) -> tff.framework.ConcreteComputation:
  """Makes the computation of a model's first weights, for composing a process."""

  @tff.tensorflow.computation
  def first_weights():
    trainable, other = model.initial_weights
    return tff.learning.models.ModelWeights(
      tuple(tf.convert_to_tensor(weight) for weight in trainable),
      tuple(tf.convert_to_tensor(weight) for weight in other),
    )

  return first_weights
