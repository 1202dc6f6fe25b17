"""What a round costs a client in bytes, read from the types of a process."""

from typing import NamedTuple

import tensorflow_federated as tff

from tff_textpriv.aggregators import messages


class Communication(NamedTuple):
  """Bytes of one client in one round: tensors only, without framing or compression.

  Attributes:
    down: What it receives: the model.
    up: What it sends: the update, in the form in which it leaves the client.
  """

  down: int
  up: int


def per_client(process: tff.learning.templates.LearningProcess) -> Communication:
  """Reads the communication of a process that sends an update of its weights' type.

  Args:
    process: A process without compression on the way up.
  """
  weights = process.get_model_weights.type_signature.result
  return Communication(
    messages.num_bytes(weights), messages.num_bytes(weights.trainable)
  )
