"""The core of methods whose clients keep a part of the model: the four parts of a process.

The server holds, sends, receives and sums the shared part only. The local part, with the
state of its optimizer, is a file of the device: the client's computation reads it, trains,
and writes it anew (see `device_state`). So the process is an ordinary TFF learning
process, and its type signature shows all that the server can see.

A client reads three sequences in a round: batches for `adaptation` of the local part,
`batches` for training, and `state`, one pair of file names, to read and to write.
"""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import of_mechanism
from tff_textpriv.iterative_processes import (
  clients,
  common_settings,
  device_state,
  optimizers,
  scheduled_work,
)
from tff_textpriv.privacy.mechanism import Mechanism


def build(
  model: tff.learning.models.FunctionalModel,
  client: clients.Client,
  settings: common_settings.PersonalSettings,
  mechanism: Mechanism,
) -> tff.learning.templates.LearningProcess:
  """Builds the process.

  Args:
    model: The whole model; its initial weights are where the shared part starts.
    client: What trains, and what is kept.
    settings: How the clients' step size changes, and how the server steps.
    mechanism: Makes the mean, weighted by the number of examples.

  Returns:
    A process whose model weights are the shared part.
  """
  num_local = client.num_local

  @tff.tensorflow.computation
  def initial_weights():
    shared = model.initial_weights[0][num_local:]
    return tff.learning.models.ModelWeights(tuple(map(tf.constant, shared)), ())

  weights_type = initial_weights.type_signature.result
  mean = of_mechanism.mean(mechanism, by_examples=True)
  return tff.learning.templates.compose_learning_process(
    initial_weights,
    tff.learning.templates.build_broadcast_process(weights_type),
    _client_work(model, client, weights_type, settings.decay_rounds),
    mean.create(weights_type.trainable, tff.TensorType(np.float32)),
    tff.learning.templates.build_apply_optimizer_finalizer(
      optimizers.server_optimizer(settings), weights_type
    ),
  )


def _client_work(
  model: tff.learning.models.FunctionalModel,
  client: clients.Client,
  weights_type: tff.Type,
  decay_rounds: int | None,
) -> tff.learning.templates.ClientWorkProcess:
  """Makes the work of a client: reads its state, trains, writes the state anew."""

  def train(weights, scale, data):
    before, after = device_state.file_names(data['state'])
    leaves = device_state.read(before, client.specs)
    parts, optimizer = client.assemble(leaves, weights.trainable)
    trained = client.trainer.train(
      parts, optimizer, data['adaptation'], data['batches'], scale
    )
    device_state.write(after, client.new_state(trained))
    result = scheduled_work.client_result(
      tuple(weights.trainable), trained.parts.shared, trained.num_examples
    )
    return result, trained.metrics

  batches_type = tff.SequenceType(tff.types.tensorflow_to_type(model.input_spec))
  data_type = tff.to_type(
    collections.OrderedDict(
      adaptation=batches_type, batches=batches_type, state=device_state.FILES_TYPE
    )
  )
  return scheduled_work.build(model, weights_type, data_type, train, decay_rounds)
