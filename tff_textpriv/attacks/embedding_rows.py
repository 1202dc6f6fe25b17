"""The direct attack on a shared embedding: which of its rows have moved.

The gradient of an embedding table is zero in every row but those of the tokens that
were read. Whoever sees it reads the bag of words off it, exactly and at no cost.
"""

import numpy as np


def read_tokens(
  table_gradient: np.ndarray,
  num_tokens: int | None = None,
  rng: np.random.Generator | None = None,
) -> np.ndarray:
  """Returns the rows of an embedding that a client's tokens have.

  Args:
    table_gradient: The gradient, or the update, of the table [rows, width].
    num_tokens: How many rows to return at most, those that moved most; for updates
      with noise, which leaves no row at zero.
    rng: Decides among rows that moved alike, as all do in a message of bits. By
      default the first are taken, which tells what is known about the table's order.

  Returns:
    The numbers of the rows, the one that moved most first.
  """
  sizes = np.linalg.norm(np.asarray(table_gradient, np.float64), axis=1)
  chance = np.zeros(len(sizes)) if rng is None else rng.random(len(sizes))
  order = np.lexsort((chance, -sizes))
  return order[: np.count_nonzero(sizes)][:num_tokens]
