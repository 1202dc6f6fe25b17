"""The decipherer: names for vectors that come from a table which nobody else has.

A private table keeps its names to itself, but one token has nearly one vector in all of a
user's messages. So whoever recovers vectors from messages holds the texts in a substitution
cipher. It is solved as such ciphers are: by how often a symbol occurs and by which symbols
follow which, both against public text; and by the angles among vectors against those among
public ones, which are the same in whatever coordinates a table is.

The most frequent symbols are named first, and their names decide about the others.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import scipy.optimize

from tff_textpriv.attacks import public_text

# Vectors at a wider angle than that of this cosine are taken for two tokens: public vectors of
# numbers and names are at 0.97 and more.
LIKENESS = 0.99
# How many symbols are named first, and how often before there are twice as many.
_FIRST_SYMBOLS = 8
_REPEATS = 3
# Words that a symbol may stand for, at the least.
_LEAST_WORDS = 500
# Named symbols to whose vectors those of others are compared, and how many it takes.
_ANCHORS = 64
_LEAST_ANCHORS = 16


@dataclasses.dataclass(frozen=True, repr=False)
class Cipher:
  """Texts in symbols.

  Attributes:
    texts: The symbols of each text in its order; integers from 0.
    vectors: The mean of each symbol's vectors, of length one [symbols, width].
  """

  texts: Sequence[np.ndarray]
  vectors: np.ndarray


def link(texts: Sequence[np.ndarray], likeness: float = LIKENESS) -> Cipher:
  """Finds which recovered vectors are those of one token, over all texts.

  Args:
    texts: The vectors of each text in its order [tokens, width].
    likeness: The cosine above which two vectors are one token's: tables move little.
  """
  every = np.concatenate(texts)
  lengths = np.linalg.norm(every, axis=1, keepdims=True)
  every = np.divide(every, lengths, out=np.zeros_like(every), where=lengths > 0)
  sums = np.zeros_like(every)
  symbols = np.zeros(len(every), np.int64)
  number = 0
  for place, vector in enumerate(every):
    known = sums[:number]
    cosines = known @ vector / np.maximum(np.linalg.norm(known, axis=1), 1e-12)
    nearest = int(cosines.argmax()) if number else 0
    if not number or cosines[nearest] < likeness:
      nearest, number = number, number + 1
    sums[nearest] += vector
    symbols[place] = nearest
  ends = np.cumsum([len(text) for text in texts])
  return Cipher(np.split(symbols, ends[:-1]), _unit(sums[:number]))


def solve(
  cipher: Cipher, text: public_text.PublicText, table: np.ndarray | None = None
) -> np.ndarray:
  """Names the symbols of a cipher.

  Args:
    cipher: The texts.
    text: What is known of the language.
    table: Public vectors [rows, width]; by default only counts decide.

  Returns:
    The row of the vocabulary that each symbol is taken for, all different [symbols].
  """
  counts = np.bincount(np.concatenate(cipher.texts), minlength=len(cipher.vectors))
  order = np.argsort(-counts, kind='stable')
  most = max(_LEAST_WORDS, 2 * len(order))
  words = text.most_frequent(most)
  if len(words) < len(order):
    raise ValueError(f'{len(order)} symbols are more than {len(words)} words')
  log_shares = np.log(text.frequencies[words])
  # How much more often words follow each other than by chance.
  follows = text.log_following(words[:, np.newaxis], words) - log_shares
  followed = _followed(cipher, order)
  # The logarithm of Poisson's probability, but for what is the same for all words.
  by_count = counts[order, np.newaxis] * log_shares - counts.sum() * np.exp(log_shares)
  theirs = None if table is None else _unit(table[words] - table[words].mean(axis=0))
  mine = _unit(cipher.vectors[order] - cipher.vectors.mean(axis=0))
  names = np.zeros(by_count.shape)
  picked = np.zeros(0, np.int64)
  for number in _growing(len(order)):
    score = by_count[:number].copy()
    score += followed[:number] @ (names @ follows.T)
    score += followed[:, :number].T @ (names @ follows)
    if theirs is not None:
      score += _by_vectors(mine, theirs, picked, number)
    _, picked = scipy.optimize.linear_sum_assignment(score, maximize=True)
    names /= 2  # Half of what was thought before: two readings may alternate for ever.
    names[np.arange(number), picked] += 0.5
  found = np.empty(len(order), np.int64)
  found[order] = words[picked]
  return found


def read(
  symbols: np.ndarray, names: np.ndarray, text: public_text.PublicText
) -> np.ndarray:
  """Returns the tokens of a text, and frequent words in the place of repetitions.

  Args:
    symbols: Those of the text.
    names: The row that each symbol is taken for.
    text: What is known of the language; words that symbols of other texts are taken for
      are not in this one.

  Returns:
    As many rows of the vocabulary as there are symbols, all different.
  """
  named = names[np.unique(symbols)]
  frequent = text.most_frequent(len(names) + len(symbols))
  others = frequent[~np.isin(frequent, names)]
  return np.concatenate([named, others[: len(symbols) - len(named)]])


def _growing(most: int) -> Iterator[int]:
  """Yields how many symbols are named in each pass."""
  number = min(_FIRST_SYMBOLS, most)
  while True:
    for _ in range(_REPEATS):
      yield number
    if number == most:
      return
    number = min(2 * number, most)


def _followed(cipher: Cipher, order: np.ndarray) -> np.ndarray:
  """Counts which symbol follows which [symbols, symbols], in an order of them."""
  place = np.empty(len(order), np.int64)
  place[order] = np.arange(len(order))
  counts = np.zeros((len(order), len(order)))
  for symbols in cipher.texts:
    places = place[symbols]
    np.add.at(counts, (places[:-1], places[1:]), 1)
  return counts


def _by_vectors(
  mine: np.ndarray, theirs: np.ndarray, picked: np.ndarray, number: int
) -> np.ndarray | float:
  """Scores words by their vectors' angles to those of words that are named [number, words].

  Angles are the same however vectors are turned. A share of the names is wrong, and then
  a difference of cosines is that of any two words. How large the share is, and how large
  differences are where names are right, is seen of the names among themselves; nothing
  counts if vectors are of another kind.

  Args:
    mine: The symbols' unit vectors, the most frequent first.
    theirs: The words' unit vectors.
    picked: The words that the most frequent symbols are taken for.
    number: How many symbols to score.
  """
  known = picked[:_ANCHORS]
  if len(known) < _LEAST_ANCHORS:
    return 0.0
  of_mine, of_theirs = mine[:number] @ mine[: len(known)].T, theirs @ theirs[known].T
  wide = float(np.sqrt(np.var(of_mine) + np.var(of_theirs)))
  above = np.triu_indices(len(known), 1)
  share, narrow = _alike((of_mine[: len(known)] - of_theirs[known])[above], wide)
  right = np.sqrt(share)  # Both names of a pair must be.
  score = np.zeros((number, len(theirs)))
  for some, others in zip(of_mine.T, of_theirs.T, strict=True):
    differences = np.square(some[:, np.newaxis] - others)
    ratio = np.exp(differences * (0.5 / wide**2 - 0.5 / narrow**2)) * wide / narrow
    score += np.log1p(right * (ratio - 1))
  return score


def _alike(differences: np.ndarray, wide: float) -> tuple[float, float]:
  """Fits a mixture to differences: a share is narrow, the rest as wide as by chance.

  Returns:
    The share, and the narrow part's standard deviation.
  """
  share, narrow = 0.5, wide / 4
  for _ in range(50):
    ratio = np.exp(np.square(differences) * (0.5 / wide**2 - 0.5 / narrow**2))
    belongs = share * ratio * wide / narrow
    belongs /= belongs + 1 - share
    share = float(np.clip(np.mean(belongs), 1e-6, 1 - 1e-6))
    spread = np.sum(belongs * np.square(differences)) / max(np.sum(belongs), 1e-12)
    narrow = float(np.clip(np.sqrt(spread), wide / 50, wide / 2))
  return share, narrow


def _unit(vectors: np.ndarray) -> np.ndarray:
  return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
