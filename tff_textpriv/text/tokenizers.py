"""What a tokenizer is, for everything that encodes, models or compares text.

All tokenizers share the four control ids below, so that batches, models and
evaluation never ask which kind of tokenizer is in use.
"""

import abc
from collections.abc import Sequence

import numpy as np

PAD_ID = 0
UNKNOWN_ID = 1
BOS_ID = 2
EOS_ID = 3
NUM_CONTROL_IDS = 4


class TokenizerError(ValueError):
  """A tokenizer cannot be trained, read or used as asked."""


class Tokenizer(abc.ABC):
  """Turns normalised text into token ids and back.

  Attributes:
    kind: `bpe` (open vocabulary) or `word` (closed vocabulary).
    size: The number of ids, control ids included.
    starts_word: Boolean array [size]; whether an id begins a new word. Words
      are what white space separates, so the number of word starts in an encoded
      text is its number of words, whatever the tokenizer.
    fingerprint: A short hash of the tokenizer's content, for cache keys.
  """

  kind: str
  size: int
  starts_word: np.ndarray
  fingerprint: str

  @abc.abstractmethod
  def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
    """Encodes normalised texts; each result is int32, BOS first and EOS last."""

  @abc.abstractmethod
  def decode(self, ids: Sequence[int]) -> str:
    """Turns ids back into text; control ids are dropped."""

  @abc.abstractmethod
  def to_bytes(self) -> bytes:
    """Serializes the tokenizer; `from_bytes` of its module reads it."""


def surround(ids: Sequence[int]) -> np.ndarray:
  """Puts BOS before and EOS after the ids of one text; int32 [len(ids) + 2]."""
  return np.asarray([BOS_ID, *ids, EOS_ID], dtype=np.int32)
