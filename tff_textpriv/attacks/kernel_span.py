"""The closed-form attack on a layer that reads embeddings.

The gradient of a kernel K that is applied to embeddings, x K, is a sum of outer products
of the embeddings x with something. As long as there are fewer different tokens than an
embedding has numbers, its columns span exactly the space of the tokens' embeddings: a
row of the attacker's table that lies in this space is a token that was read. It takes
no optimization and, unlike the rows of an embedding's gradient, no gradient of the table.

What an encoder's first kernel reads is not an embedding but its sum with a position,
normalised. Positions and normalisation are public: what each token of a table would be at
each place is compared with the span, which tells the order of tokens, too.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

# Singular values below the largest, by this factor, are rounding errors of float32.
TOLERANCE = 1e-6
# A singular value that is so many times the next one ends what was read.
_GAP = 10.0


@dataclasses.dataclass(frozen=True)
class Span:
  """The space of the embeddings that were read.

  Attributes:
    basis: An orthonormal basis [dimensions, width], the strongest direction first.
    width: The width of an embedding.
  """

  basis: np.ndarray
  width: int

  @property
  def is_everything(self) -> bool:
    """Whether all vectors are in it, so that it says nothing about tokens."""
    return len(self.basis) >= self.width

  def residuals(self, table: np.ndarray) -> np.ndarray:
    """Returns how much of each row is outside: 0 if nothing, 1 if all; [rows]."""
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    unit = np.divide(table, lengths, out=np.zeros_like(table), where=lengths > 0)
    inside = np.sum(np.square(unit @ self.basis.T.astype(table.dtype)), axis=1)
    # A row of zeros is in every space, and stands for nothing.
    return np.where(lengths[:, 0] > 0, 1 - inside, 1.0)


def of_gradients(kernel_gradients: Sequence[np.ndarray], num_tokens: int) -> Span:
  """Finds the span of the embeddings that were read.

  Args:
    kernel_gradients: Gradients [width, units] of all kernels that embeddings enter.
    num_tokens: The number of tokens that were read, or more: the most dimensions
      that there can be.
  """
  # Each by itself may be faint, in units of the others.
  parts = [
    gradient / max(np.linalg.norm(gradient), np.finfo(np.float64).tiny)
    for gradient in (np.asarray(one, np.float64) for one in kernel_gradients)
  ]
  directions, sizes, _ = np.linalg.svd(
    np.concatenate(parts, axis=1), full_matrices=False
  )
  return Span(directions[:, : _rank(sizes, num_tokens)].T, len(directions))


def _rank(sizes: np.ndarray, num_tokens: int) -> int:
  """Returns how many directions were read, of singular values that fall.

  What is left behind these are rounding errors, or noise, far smaller than the last of
  them: the rank is where the values fall by the largest factor. Where they fall
  nowhere by much, all that can be are taken.
  """
  most = min(num_tokens, np.count_nonzero(sizes > 0), len(sizes))
  if most == 0:
    return 0
  floors = np.maximum(sizes[1:], np.finfo(np.float64).tiny)
  falls = (sizes[:-1] / floors)[:most]
  if len(falls) and falls.max() > _GAP:
    return int(falls.argmax()) + 1
  return most


def read_tokens(span: Span, table: np.ndarray) -> np.ndarray:
  """Returns the rows of the attacker's table that are nearest to a span.

  Args:
    span: The space of the embeddings that were read.
    table: The attacker's [rows, width].

  Returns:
    As many rows as the span has dimensions, which is how many different tokens there
    are; the nearest first.
  """
  return np.argsort(span.residuals(np.asarray(table, np.float64)))[: len(span.basis)]


def read_places(
  span: Span,
  entered: Callable[[int], np.ndarray],
  counts: Sequence[int],
) -> np.ndarray:
  """Returns the tokens that are nearest to a span, place by place.

  Args:
    span: The space of what was read.
    entered: Returns what would be read of each row of the attacker's table at a place,
      [rows, width].
    counts: How many texts of the batch have a token at each place.

  Returns:
    Rows of the table, as many for each place as texts have a token there.
  """
  found = []
  for place, count in enumerate(counts):
    residuals = span.residuals(entered(place))
    nearest = np.argpartition(residuals, count - 1)[:count]
    found.append(nearest[np.argsort(residuals[nearest])])
  return np.concatenate(found)
