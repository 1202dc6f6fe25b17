"""Client work whose results are changed on the client, before they are sent."""

from collections.abc import Callable
from typing import Any

import tensorflow_federated as tff

# Makes a client's result of the weights that it received, what it read, and its own.
Change = Callable[
  [tff.learning.models.ModelWeights, Any, tff.learning.templates.ClientResult],
  tff.learning.templates.ClientResult,
]


def changed(
  work: tff.learning.templates.ClientWorkProcess, change: Change
) -> tff.learning.templates.ClientWorkProcess:
  """Returns client work that hands on what `change` makes of each result.

  Args:
    work: What clients do.
    change: TensorFlow code that runs on the client.
  """
  state_type, weights_type, data_type = work.next.type_signature.parameter
  result_type = work.next.type_signature.result.result
  on_client = tff.tensorflow.computation(
    change, (weights_type.member, data_type.member, result_type.member)
  )

  @tff.federated_computation(state_type, weights_type, data_type)
  def next_round(state, weights, client_data):
    output = work.next(state, weights, client_data)
    result = tff.federated_map(on_client, (weights, client_data, output.result))
    return tff.templates.MeasuredProcessOutput(
      output.state, result, output.measurements
    )

  return tff.learning.templates.ClientWorkProcess(work.initialize, next_round)
