"""A TFF round as TFF's tutorials write it: Keras LSTM, tf.data, default context."""

import collections

import numpy as np
import psutil
import tensorflow as tf
import tensorflow_federated as tff

from benchmarks import workloads
from benchmarks.contenders import server
from tff_textpriv.models import language_models


class Tutorial:
  """`from_keras_model` and tf.data, all sentences padded to the longest allowed."""

  def prepare(self, workload: workloads.Workload) -> None:
    """Builds the process; see `server.Contender`."""
    self._workload = workload
    language_model = language_models.build(
      workload.preset, workload.vocab_size, tied=False
    )
    tokens = tf.TensorSpec([None, workload.max_length], tf.int32)

    def model_fn():
      return tff.learning.models.from_keras_model(
        language_model.to_keras(),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(
          from_logits=True, ignore_class=workloads.PAD_ID
        ),
        input_spec=collections.OrderedDict(x=tokens, y=tokens),
        metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
      )

    if workload.private:
      aggregator = tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(
        workloads.NOISE_MULTIPLIER, len(workload.batches), workloads.CLIP
      )
    else:
      aggregator = tff.aggregators.UnweightedMeanFactory()
    self._process = tff.learning.algorithms.build_unweighted_fed_avg(
      model_fn,
      client_optimizer_fn=tff.learning.optimizers.build_sgdm(
        workloads.CLIENT_LEARNING_RATE
      ),
      server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0),
      model_aggregator=aggregator,
    )
    self._state = self._process.set_model_weights(
      self._process.initialize(),
      tff.learning.models.ModelWeights(list(workload.weights), []),
    )

  def run_round(self) -> None:
    """Makes the data sets and trains on them."""
    cohort = [self._dataset(batches) for batches in self._workload.batches]
    self._state = self._process.next(self._state, cohort).state

  def weights(self) -> list[np.ndarray]:
    """Returns the weights; see `server.Contender`."""
    trainable = self._process.get_model_weights(self._state).trainable
    return [np.asarray(weight) for weight in trainable]

  def _dataset(self, batches: list[list[np.ndarray]]) -> tf.data.Dataset:
    """Makes a client's data set, batched by tf.data."""
    rows = [row for batch in batches for row in batch]
    inputs, targets = workloads.pad(rows, self._workload.max_length)
    return tf.data.Dataset.from_tensor_slices(
      collections.OrderedDict(x=inputs, y=targets)
    ).batch(workloads.BATCH_SIZE)


if __name__ == '__main__':
  try:
    server.serve(Tutorial())
  finally:
    # TFF leaves the worker of its default context running.
    for child in psutil.Process().children():
      child.terminate()
