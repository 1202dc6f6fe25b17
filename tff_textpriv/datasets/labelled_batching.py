"""A client's labelled examples as the batches that local training sees."""

import collections
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tff_textpriv.datasets import batching, labelled
from tff_textpriv.text import ragged, representations

# A pair of inputs and labels (int32 [batch]). Inputs are an ordered dictionary of
# `dense` float32 [batch, width], `dropout_seed` int32 [2], `ids` int32 [batch, length]
# and `num_examples` int32 []: rows after so many are padding.
Batch = tuple[collections.OrderedDict[str, np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class EncodedExamples:
  """Examples in numbers.

  Attributes:
    ids: The ids of each text.
    pad_id: What stands in a batch where there is no id.
    text_of: The number of each example's text [examples].
    text_dense: Dense numbers of each text, float32 [texts, text width].
    dense: Side features of each example, float32 [examples, width].
    labels: Classes, int32 [examples].
    vectors: Vectors that the ids before `pad_id` stand for, float32 [n, width], in place
      of rows of a table; `None` for none.
  """

  ids: ragged.RaggedIds
  pad_id: int
  text_of: np.ndarray
  text_dense: np.ndarray
  dense: np.ndarray
  labels: np.ndarray
  vectors: np.ndarray | None = None

  def __len__(self) -> int:
    return len(self.labels)

  def batch(
    self,
    rows: np.ndarray,
    shape: tuple[int, int] | None = None,
    dropout_seed: np.ndarray | None = None,
  ) -> Batch:
    """Makes one batch.

    Args:
      rows: Numbers of examples.
      shape: Rows and ids a row, both large enough; by default those that are needed.
      dropout_seed: int32 [2]; zeros by default.
    """
    texts = self.text_of[rows]
    if shape is None:
      shape = len(rows), self.longest(rows)
    dense = np.zeros(
      (shape[0], self.text_dense.shape[1] + self.dense.shape[1]), np.float32
    )
    np.concatenate(
      [self.text_dense[texts], self.dense[rows]], axis=1, out=dense[: len(rows)]
    )
    labels = np.zeros(shape[0], np.int32)
    labels[: len(rows)] = self.labels[rows]
    if dropout_seed is None:
      dropout_seed = np.zeros(2, np.int32)
    inputs: collections.OrderedDict[str, Any] = collections.OrderedDict(
      dense=dense,
      dropout_seed=dropout_seed,
      ids=self.ids.padded(texts, self.pad_id, shape),
      num_examples=np.array(len(rows), np.int32),
    )
    if self.vectors is not None:
      inputs['vectors'] = self.vectors
    return inputs, labels

  def longest(self, rows: np.ndarray) -> int:
    """Returns the largest number of ids in the texts of some examples."""
    return int(self.ids.lengths[self.text_of[rows]].max(initial=0))


def encode(
  examples: labelled.Examples,
  encoded: representations.Encoded,
  representation: representations.Representation,
) -> EncodedExamples:
  """Joins examples with what a representation made of their texts."""
  return EncodedExamples(
    encoded.ids,
    representation.num_ids,
    examples.text_of,
    encoded.dense,
    examples.dense,
    examples.labels,
  )


def whole(groups: Mapping[str, EncodedExamples], group: str, rows: np.ndarray) -> Batch:
  """Returns examples of a group in one batch that is as wide as those of all groups.

  Args:
    groups: All examples.
    group: Which of them.
    rows: The numbers of the examples in the group.

  Returns:
    Inputs, of `ids` and `dense` those that have any width, and labels.
  """
  longest = max(each.longest(np.arange(len(each))) for each in groups.values())
  inputs, labels = groups[group].batch(rows, (len(rows), longest))
  kept = {name: inputs[name] for name in ('dense', 'ids') if inputs[name].shape[1]}
  return collections.OrderedDict(kept), labels


def training_batches(
  examples: EncodedExamples,
  rows: np.ndarray,
  *,
  batch_size: int,
  num_epochs: int,
  rng: np.random.Generator,
) -> list[Batch]:
  """Makes a client's batches for one round, shuffled anew in each epoch.

  All batches of a client have one shape, which is what TFF sends fast.

  Args:
    examples: All examples.
    rows: The numbers of the client's own.
    batch_size: Examples in a batch, at most; see `batching.dealt_evenly`.
    num_epochs: Passes over the examples.
    rng: Decides the order, and the batches' dropout seeds.
  """
  longest = examples.longest(rows)
  batches = []
  for _ in range(num_epochs):
    parts = batching.dealt_evenly(rng.permutation(rows), batch_size)
    for part in parts:
      dropout_seed = rng.integers(0, 2**31, 2, np.int32)
      batches.append(examples.batch(part, (len(parts[0]), longest), dropout_seed))
  return batches


def size_for_updates(num_examples: int, num_updates: int) -> int:
  """Returns the batch size with which a pass takes (at most) so many updates."""
  return max(1, math.ceil(num_examples / num_updates))
