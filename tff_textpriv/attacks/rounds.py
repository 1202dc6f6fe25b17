"""What a client computes its message from: one batch, or its data in a round of training."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tff_textpriv.datasets import labelled_batching
from tff_textpriv.text import ragged

# One step on one batch, or a round as in training.
BATCH, ROUND = 'batch', 'round'
MESSAGES = (BATCH, ROUND)


@dataclasses.dataclass(frozen=True, repr=False)
class Sentence:
  """A private text: its tokens, and its class."""

  tokens: tuple[str, ...]
  label: int


class RoundData(NamedTuple):
  """What a client trains on.

  Attributes:
    adaptation: Batches on which its own part adapts first, if it has one.
    batches: Those on which all is trained.
  """

  adaptation: Sequence[labelled_batching.Batch]
  batches: Sequence[labelled_batching.Batch]


class Dealer:
  """Deals sentences into the batches that local training reads."""

  def __init__(self, vocabulary: Sequence[str], length: int):
    """Takes what it encodes with.

    Args:
      vocabulary: The tokens of the table's rows; the last row is that of all others.
      length: Tokens of the longest text: batches of one step are all as wide.
    """
    self._row_of = {token: row for row, token in enumerate(vocabulary)}
    self._unknown = len(vocabulary) - 1
    self._pad_id = len(vocabulary)
    self._length = length

  def rows(self, sentence: Sentence) -> list[int]:
    """Returns the rows of a sentence's tokens."""
    return [self._row_of.get(token, self._unknown) for token in sentence.tokens]

  def batch(
    self, sentences: Sequence[Sentence], rng: np.random.Generator
  ) -> labelled_batching.Batch:
    """Makes one batch, in order; padding is an id beyond the table."""
    number = len(sentences)
    return self._examples(sentences).batch(
      np.arange(number),
      (number, self._length),
      rng.integers(0, 2**31, 2, np.int32),
    )

  def one_step(
    self, sentences: Sequence[Sentence], rng: np.random.Generator
  ) -> RoundData:
    """Makes the data of a round of one step."""
    batches = [self.batch(sentences, rng)]
    return RoundData(batches, batches)

  def round(
    self,
    sentences: Sequence[Sentence],
    batch_size: int,
    num_epochs: int,
    rng: np.random.Generator,
  ) -> RoundData:
    """Makes the data of a round as training does: dealt anew for each pass.

    Args:
      sentences: All texts of the client.
      batch_size: Sentences in a batch, at most.
      num_epochs: Passes over the texts; adaptation makes one of its own.
      rng: Decides the order.
    """
    examples, rows = self._examples(sentences), np.arange(len(sentences))
    adaptation, batches = (
      labelled_batching.training_batches(
        examples, rows, batch_size=batch_size, num_epochs=number, rng=rng
      )
      for number in (1, num_epochs)
    )
    return RoundData(adaptation, batches)

  def _examples(
    self, sentences: Sequence[Sentence]
  ) -> labelled_batching.EncodedExamples:
    number = len(sentences)
    return labelled_batching.EncodedExamples(
      ragged.RaggedIds.from_rows(map(self.rows, sentences)),
      self._pad_id,
      text_of=np.arange(number),
      text_dense=np.zeros((number, 0), np.float32),
      dense=np.zeros((number, 0), np.float32),
      labels=np.array([sentence.label for sentence in sentences], np.int32),
    )
