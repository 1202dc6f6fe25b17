"""Encoded users as TFF's `ClientData`, for programs that are written against TFF."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import tensorflow as tf
import tensorflow_federated as tff


class EncodedClientData(tff.simulation.datasets.ClientData):
  """Clients whose examples are encoded in Python, when they are asked for."""

  def __init__(self, client_ids: Sequence[str], read: Callable[[str], Any]):
    """Describes the clients; nothing is read but the first one's examples.

    Args:
      client_ids: All clients.
      read: Returns a client's examples as a structure of arrays, all with one row per
        example, and with the same shapes for all clients but for the number of rows.
    """
    self._client_ids = list(client_ids)
    self._known = frozenset(client_ids)
    self._read = read
    self._element_spec = tf.nest.map_structure(
      lambda rows: tf.TensorSpec(rows.shape[1:], rows.dtype), read(self._client_ids[0])
    )

  @property
  def client_ids(self) -> list[str]:
    """The ids of all clients."""
    return self._client_ids

  @property
  def element_type_structure(self) -> Any:
    """The specs of one example."""
    return self._element_spec

  @property
  def serializable_dataset_fn(self) -> NoReturn:
    """Refuses: a tokenizer cannot be a part of a TensorFlow graph.

    Raises:
      NotImplementedError: Always.
    """
    raise NotImplementedError(
      'the text of these clients is encoded in Python, which no TensorFlow graph can do: '
      'pass the data sets of create_tf_dataset_for_client to the process instead of ids'
    )

  def create_tf_dataset_for_client(self, client_id: str) -> tf.data.Dataset:
    """Reads the examples of a client; see the base class."""
    if client_id not in self._known:
      raise ValueError(f'there is no such client among the {len(self._known)} clients')
    return tf.data.Dataset.from_tensor_slices(self._read(client_id))

  def create_tf_dataset_from_all_clients(
    self, seed: int | Sequence[int] | None = None
  ) -> tf.data.Dataset:
    """Reads the examples of all clients, one after the other; see the base class."""

    def examples() -> Iterator[Any]:
      for dataset in self.datasets(seed=seed):
        yield from dataset

    return tf.data.Dataset.from_generator(examples, output_signature=self._element_spec)
