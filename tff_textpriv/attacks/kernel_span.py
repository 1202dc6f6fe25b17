"""The closed-form attack on a layer that reads embeddings.

The gradient of a kernel K that is applied to embeddings, x K, is a sum of outer products
of the embeddings x with something. As long as there are fewer different tokens than an
embedding has numbers, its columns span exactly the space of the tokens' embeddings: a
row of the attacker's table that lies in this space is a token that was read. It takes
no optimization and, unlike the rows of an embedding's gradient, no gradient of the table.

With more tokens the space is everything, but not alike in all directions: those of what
was read are large. A row's leverage, by which regression tells far points from near ones,
is small if the row is one of those that the gradient is made of.

What an encoder's first kernel reads is not an embedding but its sum with a position,
normalised. Positions and normalisation are public: what each token of a table would be at
each place is compared with the span, which tells the order of tokens, too.
"""

import dataclasses
from collections.abc import Iterator, Sequence

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
    sizes: The size of each direction [dimensions].
    num_tokens: The number of tokens that were read.
  """

  basis: np.ndarray
  width: int
  sizes: np.ndarray
  num_tokens: int

  @property
  def is_everything(self) -> bool:
    """Whether all vectors are in it, so that only directions' sizes tell tokens."""
    return len(self.basis) >= self.width

  @property
  def num_different(self) -> int:
    """How many different tokens there are, or as many as there may be."""
    return self.num_tokens if self.is_everything else len(self.basis)

  def residuals(self, table: np.ndarray) -> np.ndarray:
    """Returns how far each row is from what was read: the less, the nearer; [rows].

    It is how much of a row is outside: 0 if nothing, 1 if all. If nothing can be, it is
    the row's leverage.
    """
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    unit = np.divide(table, lengths, out=np.zeros_like(table), where=lengths > 0)
    outside = self.outside(unit @ self.basis.T.astype(table.dtype), 1.0)
    # A row of zeros is in every space, and stands for nothing.
    return np.where(lengths[:, 0] > 0, outside, np.inf)

  def outside(self, products: np.ndarray, squares: np.ndarray | float) -> np.ndarray:
    """Returns the same of vectors, of their products with the basis and squared lengths.

    Args:
      products: Products [rows, dimensions].
      squares: Squared lengths [rows].
    """
    if self.is_everything:
      return (
        np.square(products / self.sizes.astype(products.dtype)).sum(axis=1) / squares
      )
    return 1 - np.square(products).sum(axis=1) / squares


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
  rank = _rank(sizes, num_tokens)
  return Span(directions[:, :rank].T, len(directions), sizes[:rank], num_tokens)


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
    As many rows as there are different tokens; the nearest first.
  """
  return np.argsort(span.residuals(np.asarray(table, np.float64)))[: span.num_different]


class PlacedTable:
  """What an encoder's first kernel would read of each token of a table, at any place.

  That is x = scale * u / |u| * sqrt(width) + shift of the centred sum u of embedding and
  position. It is never laid out: what is needed of it are a few products with the table.
  """

  def __init__(self, table: np.ndarray):
    """Takes an embedding table [rows, width]."""
    table = np.asarray(table, np.float32)
    self._centred = table - table.mean(axis=1, keepdims=True)
    self._squares = np.square(self._centred).sum(axis=1)

  def residuals(
    self,
    span: Span,
    positions: np.ndarray,
    scale: np.ndarray,
    shift: np.ndarray,
  ) -> Iterator[np.ndarray]:
    """Yields for each place how much of each token is outside of a span; [rows].

    Args:
      span: The space of what was read.
      positions: The embeddings of the places [places, width].
      scale: That of the normalisation [width].
      shift: That of the normalisation [width].
    """
    basis = span.basis.astype(np.float32)
    scaled = basis * scale
    weighed = np.square(self._centred) @ scale**2
    crossed = self._centred @ (scale * shift)
    inside = self._centred @ scaled.T
    for position in positions - positions.mean(axis=1, keepdims=True):
      squares = self._squares + 2 * self._centred @ position + position @ position
      # One over the standard deviation, by which a sum is normalised.
      size = np.sqrt(span.width / np.maximum(squares, np.finfo(np.float32).tiny))
      seen = (inside + scaled @ position) * size[:, np.newaxis] + basis @ shift
      lengths = (
        weighed
        + 2 * self._centred @ (scale**2 * position)
        + np.square(scale * position).sum()
      ) * size**2
      lengths += 2 * size * (crossed + (scale * shift) @ position) + shift @ shift
      yield span.outside(seen, lengths)


def read_places(
  span: Span,
  table: PlacedTable,
  normalization: Sequence[np.ndarray],
  counts: Sequence[int],
) -> np.ndarray:
  """Returns the tokens that are nearest to a span, each at the place where it is nearest.

  Of one text they are told place by place, in its order. Of several texts they are a bag:
  a frequent token is near at all places, and would leave no room there for others.

  Args:
    span: The space of what was read.
    table: The attacker's.
    normalization: The positions [at least places, width], and scale and shift of the
      normalisation.
    counts: How many texts have a token at each place.

  Returns:
    Rows of the table, as many as there are tokens; of several texts different ones, the
    nearest first.
  """
  positions, scale, shift = normalization
  by_place = table.residuals(span, positions[: len(counts)], scale, shift)
  if max(counts) == 1:
    nearest = [residuals.argmin() for residuals in by_place]
    return np.array(nearest)[: sum(counts)]
  least = np.minimum.reduce(list(by_place))
  return np.argsort(least, kind='stable')[: sum(counts)]
