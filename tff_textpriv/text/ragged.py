"""Lists of ids of different lengths, kept flat: how texts are held once encoded."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np


class RaggedIds(NamedTuple):
  """The ids of many texts, one after the other.

  Attributes:
    values: All ids, int32 [total].
    offsets: Where each text starts, and the total, int64 [texts + 1].
  """

  values: np.ndarray
  offsets: np.ndarray

  @classmethod
  def from_rows(cls, rows: Iterable[Sequence[int] | np.ndarray]) -> 'RaggedIds':
    """Lays rows of ids end to end."""
    parts = [np.asarray(row, np.int32) for row in rows]
    lengths = np.array([len(part) for part in parts], np.int64)
    values = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    return cls(values, np.concatenate([[0], np.cumsum(lengths)]))

  @property
  def num_rows(self) -> int:
    """The number of texts."""
    return len(self.offsets) - 1

  @property
  def lengths(self) -> np.ndarray:
    """The number of ids of each text, int64 [texts]."""
    return np.diff(self.offsets)

  def row(self, number: int) -> np.ndarray:
    """Returns the ids of one text."""
    return self.values[self.offsets[number] : self.offsets[number + 1]]

  def padded(
    self, rows: np.ndarray, pad_id: int, shape: tuple[int, int] | None = None
  ) -> np.ndarray:
    """Returns some texts as a matrix, padded at the end.

    Args:
      rows: Numbers of texts [n], in the order wanted.
      pad_id: What stands where there is no id.
      shape: Rows and columns of the matrix; longer texts are cut off, and rows
        beyond `rows` are all padding. By default as large as the texts need.

    Returns:
      The ids, int32 [n or more, length].
    """
    starts = self.offsets[rows]
    lengths = self.offsets[rows + 1] - starts
    if shape is None:
      shape = len(rows), int(lengths.max(initial=0))
    matrix = np.full(shape, pad_id, np.int32)
    columns = np.arange(shape[1])
    is_id = columns < np.minimum(lengths, shape[1])[:, np.newaxis]
    places = (starts[:, np.newaxis] + columns)[is_id]
    matrix[: len(rows)][is_id] = self.values[places]
    return matrix
