"""Users' own models outside of a round: assembled, and trained once more.

A user's model is tested as it is received, its own part and the server's put together,
and after the user has trained it for a round, which is how a device would use it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tff_textpriv.iterative_processes import clients, device_state, local_training
from tff_textpriv.runtime import device_store


class UserTrainer:
  """Assembles and trains the models of users, one after the other."""

  def __init__(
    self,
    client: clients.Client,
    devices: device_store.DeviceStore | None,
    first_local: Sequence[np.ndarray],
  ):
    """Traces training.

    Args:
      client: What trains, and what is kept.
      devices: What devices keep; `None` if they keep nothing.
      first_local: The local weights of a device that keeps nothing.
    """
    self._client = client
    self._devices = devices
    self._first_local = first_local
    trainer = client.trainer
    stacked_spec = tf.nest.map_structure(
      lambda spec: tf.TensorSpec([None, *spec.shape], spec.dtype), trainer.batch_spec
    )

    @tf.function(
      input_signature=[
        trainer.local_specs,
        trainer.shared_specs,
        trainer.anchor_specs,
        trainer.optimizer_specs,
        stacked_spec,
        stacked_spec,
        tf.TensorSpec([], tf.float32),
      ]
    )
    def train(local, shared, anchor, optimizer, adaptation, batches, scale):
      return trainer.train(
        local_training.Parts(local, shared, anchor),
        optimizer,
        tf.data.Dataset.from_tensor_slices(adaptation),
        tf.data.Dataset.from_tensor_slices(batches),
        scale,
      ).parts

    self._train = train

  def assemble(
    self, user: str, weights: Sequence[np.ndarray]
  ) -> tuple[local_training.Parts, Any]:
    """Makes a user's model of its own part and the server's, and its optimizer's state."""
    shared = tuple(map(tf.constant, weights))
    if self._devices is None:
      local = tuple(map(tf.constant, self._first_local))
      return (
        local_training.Parts(local, shared),
        self._client.trainer.initial_optimizer(local),
      )
    state = tf.constant(self._devices.state(user))
    return self._client.assemble(device_state.unpack(state, self._client.specs), shared)

  def split(self, weights: Sequence[tf.Tensor]) -> tuple[local_training.Parts, Any]:
    """Makes a model of all its weights, and the first state of its optimizer."""
    number = self._client.num_local
    parts = local_training.Parts(tuple(weights[:number]), tuple(weights[number:]))
    return parts, self._client.trainer.initial_optimizer(parts.local)

  def train(
    self,
    parts: local_training.Parts,
    optimizer: Any,
    adaptation: Sequence[Any],
    batches: Sequence[Any],
    scale: float,
  ) -> local_training.Parts:
    """Trains a user's model for a round; see `LocalTrainer.train`."""
    if not (adaptation or batches):
      return parts
    stacked = _stack(batches or adaptation)
    none = tf.nest.map_structure(lambda part: part[:0], stacked)
    return self._train(
      parts.local,
      parts.shared,
      parts.anchor,
      optimizer,
      _stack(adaptation) if adaptation else none,
      stacked if batches else none,
      tf.constant(scale, tf.float32),
    )


def _stack(batches: Sequence[Any]) -> Any:
  return tf.nest.map_structure(lambda *parts: np.stack(parts), *batches)
