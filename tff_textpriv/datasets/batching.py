"""A user's posts as the batches that one local training pass sees."""

import collections
import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from tff_textpriv.text import tokenizers

# Inputs and targets, each int32 [batch, time]; targets are the next tokens.
Batch = tuple[np.ndarray, np.ndarray]
# Tokens per word of a window's limit, beyond which it is cut once more.
_TOKENS_PER_WORD = 4


@dataclasses.dataclass(frozen=True, eq=False)
class WindowRule:
  """Where posts are cut into windows: after so many words, whatever the tokenizer.

  A tokenizer with short encodings gets no more text into a window than another one. But
  a word may be enormous, as an address in bytes is: a window of more tokens than
  `longest` is cut once more, which costs some context and no token.

  Attributes:
    max_words: The most words of a window.
    starts_word: Which token ids begin a word [vocab].
  """

  max_words: int
  starts_word: np.ndarray

  @property
  def longest(self) -> int:
    """The most predictions of a window.

    One per word and the end of the post, where every token is a word; else so many per
    word that only words which hardly are words are cut.
    """
    if self.starts_word[tokenizers.NUM_CONTROL_IDS :].all():
      return self.max_words + 1
    return _TOKENS_PER_WORD * self.max_words

  def cut(self, posts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Cuts posts into windows.

    A post that is longer goes on in the next window, which starts with the last
    token of the one before: every token but the BOS is predicted exactly once.

    Args:
      posts: Token ids, each int32 [length].

    Returns:
      Windows, each int32 [2 .. longest + 1].
    """
    return [
      post[start : end + 1]
      for post in posts
      for start, end in self._parts(post, self.max_words, self.longest)
    ]

  def slide(self, post: np.ndarray) -> list[tuple[np.ndarray, int]]:
    """Cuts a post into windows that overlap by half, for models without a state.

    Args:
      post: Token ids, int32 [length].

    Returns:
      Windows, no longer than those of `cut`, and how many predictions at the beginning
      of each belong to the one before; the others, of all windows, are those of the post.
    """
    parts = list(self._parts(post, max(1, self.max_words // 2), self.longest // 2))
    if len(parts) < 2:
      return [(post, 0)] if parts else []
    (first, _), (_, end) = parts[:2]
    return [(post[first : end + 1], 0)] + [
      (post[start : end + 1], middle - start)
      for (start, middle), (_, end) in itertools.pairwise(parts[1:])
    ]

  def _parts(
    self, post: np.ndarray, max_words: int, max_tokens: int
  ) -> Iterator[tuple[int, int]]:
    """Yields where so many words begin and end among the predictions of a post."""
    targets = post[1:]
    if targets.size <= min(max_words, max_tokens):
      # Most posts are short, and their words need not be counted.
      if targets.size:
        yield 0, targets.size
      return
    words_before = np.maximum(np.cumsum(self.starts_word[targets]) - 1, 0)
    inner = np.flatnonzero(np.diff(words_before // max_words)) + 1
    for start, end in itertools.pairwise([0, *inner.tolist(), len(targets)]):
      # Evenly, lest a single token is left over and has no context.
      number = math.ceil((end - start) / max_tokens)
      yield from itertools.pairwise(
        start + (end - start) * part // number for part in range(number + 1)
      )


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
  examples: Sequence[np.ndarray],
  *,
  batch_size: int,
  num_epochs: int,
  rng: np.random.Generator,
) -> list[Batch]:
  """Makes a user's batches for one round, shuffled anew in each epoch.

  All batches of a user have one shape, which is what TFF sends fast; models cut
  the padding off again (see `language_models.trim`).

  Args:
    examples: Windows of the user's posts, as `WindowRule.cut` makes them.
    batch_size: Windows in a batch, at most; see `dealt_evenly`.
    num_epochs: Passes over all windows.
    rng: Shuffles.
  """
  if not examples:
    return []
  longest = max(map(len, examples)) - 1
  batches = []
  for _ in range(num_epochs):
    parts = dealt_evenly(rng.permutation(len(examples)), batch_size)
    for part in parts:
      batches.append(pad([examples[i] for i in part], len(parts[0]), longest))
  return batches


def dealt_evenly(order: np.ndarray, batch_size: int) -> list[np.ndarray]:
  """Deals rows to as few batches as will do, which differ by one row at most.

  Full batches and what is left over would make a last step of the full length on the
  mean gradient of very few rows, perhaps of one word: it throws a model further than all
  the steps before it.

  Args:
    order: The numbers of rows, in the order in which they are dealt.
    batch_size: The most rows of a batch.

  Returns:
    The rows of each batch, the largest batches first; none if there are no rows.
  """
  return np.array_split(order, math.ceil(len(order) / batch_size)) if len(order) else []


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
