"""A user's posts as the batches that one local training pass sees."""

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


def pad(sequences: Sequence[np.ndarray]) -> Batch:
  """Stacks windows into inputs and targets, padded to the longest of them."""
  length = max(len(sequence) for sequence in sequences)
  tokens = np.full((len(sequences), length), tokenizers.PAD_ID, np.int32)
  for row, sequence in zip(tokens, sequences, strict=True):
    row[: len(sequence)] = sequence
  inputs, targets = tokens[:, :-1], tokens[:, 1:]
  return np.ascontiguousarray(inputs), np.ascontiguousarray(targets)


def training_batches(
  posts: Sequence[np.ndarray],
  *,
  batch_size: int,
  num_epochs: int,
  max_length: int,
  rng: np.random.Generator,
) -> list[Batch]:
  """Makes a user's batches for one round, shuffled anew in each epoch."""
  examples = windows(posts, max_length)
  batches = []
  for _ in range(num_epochs):
    order = rng.permutation(len(examples))
    for start in range(0, len(order), batch_size):
      batches.append(pad([examples[i] for i in order[start : start + batch_size]]))
  return batches


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
