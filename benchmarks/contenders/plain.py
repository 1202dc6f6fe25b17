"""The same training in a plain TensorFlow loop, with no federated framework.

python -m benchmarks.contenders.plain keras|fast
"""

import sys
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from benchmarks import workloads
from benchmarks.contenders import server
from tff_textpriv.models import language_models, output_layer


class Plain:
  """A loop over clients around a compiled training step."""

  def __init__(self, layer: str):
    """Makes the loop with Keras's LSTM (`keras`) or with ours (`fast`)."""
    self._layer = layer

  def prepare(self, workload: workloads.Workload) -> None:
    """Compiles the step; see `server.Contender`."""
    self._workload = workload
    self._global = [tf.constant(weight) for weight in workload.weights]
    make_loss = {'keras': _keras_loss, 'fast': _fast_loss}[self._layer]
    loss, variables = make_loss(workload)
    optimizer = tf.keras.optimizers.SGD(workloads.CLIENT_LEARNING_RATE)
    tokens = tf.TensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[tokens, tokens])
    def step(inputs, targets):
      with tf.GradientTape() as tape:
        value = loss(inputs, targets)
      optimizer.apply_gradients(
        zip(tape.gradient(value, variables), variables, strict=True)
      )

    @tf.function
    def start(weights):
      for variable, weight in zip(variables, weights, strict=True):
        variable.assign(weight)

    @tf.function
    def add_difference(total, weights):
      differences = [v - w for v, w in zip(variables, weights, strict=True)]
      if workload.private:
        differences, _ = tf.clip_by_global_norm(differences, workloads.CLIP)
      return [t + d for t, d in zip(total, differences, strict=True)]

    @tf.function
    def finish(total, weights):
      if workload.private:
        stddev = workloads.NOISE_MULTIPLIER * workloads.CLIP
        total = [t + tf.random.normal(tf.shape(t), stddev=stddev) for t in total]
      num_clients = len(workload.batches)
      return [w + t / num_clients for w, t in zip(weights, total, strict=True)]

    self._functions = start, step, add_difference, finish

  def run_round(self) -> None:
    """Trains client after client, batches padded to their longest row."""
    start, step, add_difference, finish = self._functions
    total = [tf.zeros_like(weight) for weight in self._global]
    for batches in self._workload.batches:
      start(self._global)
      for rows in batches:
        step(*workloads.pad(rows))
      total = add_difference(total, self._global)
    self._global = finish(total, self._global)

  def weights(self) -> list[np.ndarray]:
    """Returns the weights; see `server.Contender`."""
    return [weight.numpy() for weight in self._global]


def _keras_loss(workload: workloads.Workload) -> tuple[Callable, list[tf.Variable]]:
  """Makes the loss of the Keras model, and its variables."""
  model = language_models.build(workload.preset, workload.vocab_size, tied=False)
  network = model.to_keras(workload.weights)
  cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(
    from_logits=True, ignore_class=workloads.PAD_ID
  )
  return (
    lambda inputs, targets: cross_entropy(targets, network(inputs)),
    network.trainable_variables,
  )


def _fast_loss(workload: workloads.Workload) -> tuple[Callable, list[tf.Variable]]:
  """Makes the loss of our layers, and their variables."""
  model = language_models.build(workload.preset, workload.vocab_size, tied=False)
  variables = [tf.Variable(weight) for weight in workload.weights]

  def loss(inputs, targets):
    return output_layer.masked_loss(
      model.hidden(variables, inputs),
      *model.output_layer(variables),
      targets,
      tf.not_equal(targets, workloads.PAD_ID),
      tied=False,
    )

  return loss, variables


if __name__ == '__main__':
  server.serve(Plain(sys.argv[1]))
