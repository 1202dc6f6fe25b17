"""Figures that describe a text, or how a tokenizer copes with one."""

import collections
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from tff_textpriv.text import subword, tokenizers

# Texts that are encoded at once, so that a corpus need not fit into memory.
_BLOCK = 1_000
# Copies of a corpus that a floor is the mean of; it varies by a few percent at most.
_FLOOR_DRAWS = 5


def split_words(text: str) -> list[str]:
  """Splits a normalised text into the words that every tokenizer counts.

  White space separates words, and so does SentencePiece's mark of a word start,
  which sub-word tokenizers cannot tell from white space.
  """
  return text.replace(subword.WORD_START, ' ').split()


def word_counts(texts: Iterable[str]) -> collections.Counter[str]:
  """Counts the words of normalised texts."""
  counts: collections.Counter[str] = collections.Counter()
  for text in texts:
    counts.update(split_words(text))
  return counts


def top_words(counts: Mapping[str, float], number: int) -> list[str]:
  """Returns the most frequent words; of equally frequent ones the alphabet's first."""
  return sorted(counts, key=lambda word: (-counts[word], word))[:number]


def unigram_kl(
  real: Mapping[str, float], other: Mapping[str, float], top: int = 10_000
) -> float:
  """Computes the KL divergence from one corpus's words to another's, in nats.

  With W the `top` most frequent words of the real corpus and c its counts,

    p(w) = (c_real(w) + 1) / sum over v in W of (c_real(v) + 1),

  q likewise from the other corpus, and the result is sum over W of p log(p / q).
  Both are distributions over W: words of the other corpus beyond W do not count,
  so the result is 0 for equal proportions, and never negative. It tells how well
  the other corpus replaces the real one as text to train a tokenizer on. One is
  added to counts, not to proportions, so compare corpora of similar size.

  Args:
    real: Word counts of the real corpus.
    other: Word counts of the corpus that stands in for it; a private estimate
      may be fractional, and counts as 0 where it is negative.
    top: The number of words compared.

  Raises:
    ValueError: If the real corpus has no words.
  """
  words = top_words(real, top)
  if not words:
    raise ValueError('there are no words from which to measure a divergence')
  p, q = (
    np.array([max(counts.get(word, 0), 0) + 1.0 for word in words])
    for counts in (real, other)
  )
  p, q = p / p.sum(), q / q.sum()
  return float(np.sum(p * np.log(p / q)))


def unigram_kl_floor(
  real: Mapping[str, float], num_words: int, top: int = 10_000
) -> float:
  """Computes the KL divergence that a perfect copy of a corpus would have, on average.

  A text of so many words drawn from the real corpus's own distribution has a
  `unigram_kl` above 0, since its counts vary and rare words are missing. A corpus that is
  no further from the real one than this is as good as its size allows.

  Args:
    real: Word counts of the real corpus.
    num_words: The words of the copy.
    top: See `unigram_kl`.

  Returns:
    The mean over a few copies, always the same ones.
  """
  words = top_words(real, len(real))
  shares = np.array([real[word] for word in words], float)
  rng = np.random.default_rng(0)
  draws = rng.multinomial(num_words, shares / shares.sum(), size=_FLOOR_DRAWS)
  return float(
    np.mean(
      [unigram_kl(real, dict(zip(words, draw, strict=True)), top) for draw in draws]
    )
  )


class Coverage(NamedTuple):
  """How a tokenizer copes with a text; not a number where there are no words.

  Attributes:
    tokens_per_word: Tokens, without BOS and EOS, per word.
    oov_share: The share of words that the tokenizer does not know.
  """

  tokens_per_word: float
  oov_share: float


def coverage(tokenizer: tokenizers.Tokenizer, texts: Iterable[str]) -> Coverage:
  """Encodes texts, a block at a time, and counts."""
  tokens = words = unknown = 0
  for block in _blocks(texts):
    for ids in tokenizer.encode(block):
      tokens += len(ids) - 2
      words += int(tokenizer.starts_word[ids].sum())
      unknown += int((ids == tokenizers.UNKNOWN_ID).sum())
  if not words:
    return Coverage(math.nan, math.nan)
  return Coverage(tokens / words, unknown / words)


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
  iterator = iter(texts)
  while block := list(itertools.islice(iterator, _BLOCK)):
    yield block
