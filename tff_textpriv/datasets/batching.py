"""A user's posts as the batches that one local training pass sees."""

import collections
from collections.abc import Iterator, Sequence

import numpy as np

from tff_textpriv.text import tokenizers

# Inputs and targets, each int32 [batch, time]; targets are the next tokens.
Batch = tuple[np.ndarray, np.ndarray]


def windows(posts: Sequence[np.ndarray], max_length: int) -> list[np.ndarray]:
  """Cuts posts into windows of at most `max_length` predictions.

  A post that is longer goes on in the next window, which starts with the last
  token of the one before: every token but the BOS is predicted exactly once.

  Args:
    posts: Token ids, each int32 [length].
    max_length: The largest number of predictions in a window.

  Returns:
    Windows, each int32 [2 .. max_length + 1].
  """
  return [
    post[start : start + max_length + 1]
    for post in posts
    for start in range(0, len(post) - 1, max_length)
  ]


def pad(
  sequences: Sequence[np.ndarray],
  num_rows: int | None = None,
  length: int | None = None,
) -> Batch:
  """Stacks windows into inputs and targets, padded at the end.

  Args:
    sequences: Windows, each int32 [2 or more].
    num_rows: Rows of the batch, those beyond the windows empty; by default none.
    length: Predictions in a row; by default those of the longest window.

  Returns:
    Inputs and targets; where a target is padding, its input is too.
  """
  num_rows = len(sequences) if num_rows is None else num_rows
  length = max(map(len, sequences)) - 1 if length is None else length
  inputs = np.full((num_rows, length), tokenizers.PAD_ID, np.int32)
  targets = np.full((num_rows, length), tokenizers.PAD_ID, np.int32)
  for row, sequence in enumerate(sequences):
    inputs[row, : len(sequence) - 1] = sequence[:-1]
    targets[row, : len(sequence) - 1] = sequence[1:]
  return inputs, targets


def training_batches(
  posts: Sequence[np.ndarray],
  *,
  batch_size: int,
  num_epochs: int,
  max_length: int,
  rng: np.random.Generator,
) -> list[Batch]:
  """Makes a user's batches for one round, shuffled anew in each epoch.

  All batches of a user have one shape, which is what TFF sends fast; models cut
  the padding off again (see `language_models.trim`).
  """
  examples = windows(posts, max_length)
  if not examples:
    return []
  shape = min(batch_size, len(examples)), max(map(len, examples)) - 1
  batches = []
  for _ in range(num_epochs):
    order = rng.permutation(len(examples))
    for start in range(0, len(order), batch_size):
      rows = [examples[i] for i in order[start : start + batch_size]]
      batches.append(pad(rows, *shape))
  return batches


def with_dropout_seeds(
  batches: Sequence[Batch], rng: np.random.Generator
) -> list[tuple[collections.OrderedDict[str, np.ndarray], np.ndarray]]:
  """Adds a seed to the inputs of each batch, for models with dropout.

  Args:
    batches: Inputs and targets.
    rng: Draws the seeds.

  Returns:
    The batches, whose inputs are ordered dictionaries of `dropout_seed`, int32 [2],
    and `tokens`, int32 [batch, time].
  """
  return [
    (
      collections.OrderedDict(
        dropout_seed=rng.integers(0, 2**31, 2, np.int32), tokens=inputs
      ),
      targets,
    )
    for inputs, targets in batches
  ]


def evaluation_batches(
  examples: Sequence[np.ndarray], batch_size: int
) -> Iterator[tuple[np.ndarray, Batch]]:
  """Yields batches of windows of similar length, with the windows' positions.

  Sorting by length keeps padding small; the positions put results back in order.
  """
  order = np.argsort([len(example) for example in examples], kind='stable')
  for start in range(0, len(order), batch_size):
    positions = order[start : start + batch_size]
    yield positions, pad([examples[i] for i in positions])
