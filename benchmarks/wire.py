"""What a round sends between the program and its workers, from TFF's types.

Importing this module imports TFF.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow_federated as tff
from tensorflow_federated.python.core.backends.native import mergeable_comp_compiler

from tff_textpriv.runtime import spread


@dataclasses.dataclass(frozen=True)
class RoundBytes:
  """Bytes of a round, without the clients' data.

  Attributes:
    update: One client's upload in a real deployment: the sum's own type.
    model: One client's download there: the model.
    to_workers: What the program sends to all its workers.
    from_workers: What they send back.
  """

  update: int
  model: int
  to_workers: int
  from_workers: int


def round_bytes(
  process: tff.learning.templates.LearningProcess, num_workers: int
) -> RoundBytes:
  """Adds up the tensors that travel in a round.

  One worker gets the server state and returns the next one. Of several, each gets
  the state and returns a partial sum; the first merges these, two at a time, and
  finishes the round.

  Args:
    process: A learning process.
    num_workers: The workers that share the cohort.

  Returns:
    The bytes; messages are larger by less than a thousandth.
  """
  model = spread.type_bytes(process.get_model_weights.type_signature.result)
  form = mergeable_comp_compiler.compile_to_mergeable_comp_form(process.next)
  partial = spread.type_bytes(form.up_to_merge.type_signature.result)
  state = spread.type_bytes(process.next.type_signature.parameter)
  result = spread.type_bytes(process.next.type_signature.result)
  if num_workers == 1:
    return RoundBytes(partial, model, to_workers=state, from_workers=result)
  merges = num_workers - 1
  return RoundBytes(
    partial,
    model,
    to_workers=num_workers * state + merges * 2 * partial + state + partial,
    from_workers=num_workers * partial + merges * partial + result,
  )


def data_bytes(cohort: Sequence[Sequence[tuple[np.ndarray, ...]]]) -> int:
  """Adds up the batches of a cohort."""
  return sum(array.nbytes for batches in cohort for b in batches for array in b)
