"""How much of a client's text an attack found: bags of tokens, compared."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from scipy import special


@dataclasses.dataclass(frozen=True)
class Score:
  """Shares of tokens, each of 0 to 1; NaN where there is nothing to take a share of.

  Attributes:
    precision: The share of the reconstructed tokens that are in the text.
    recall: The share of the text's tokens that are in the reconstruction.
    private_recall: The same of the text's private tokens: the leakage ratio (PTLR).
  """

  precision: float
  recall: float
  private_recall: float

  @property
  def f1(self) -> float:
    """The harmonic mean of precision and recall; 0 if both are."""
    total = self.precision + self.recall
    return 2 * self.precision * self.recall / total if total else 0.0


def score(
  text: Sequence[str], found: Sequence[str], is_private: Callable[[str], bool]
) -> Score:
  """Compares a reconstruction with the text, without regard to the order.

  A token that is repeated counts as often as it is there, and is found if it is found
  once: several attacks tell which tokens there are, and not how often.

  Args:
    text: The tokens of the text, or of all texts of a batch.
    found: The reconstructed tokens.
    is_private: Tells private tokens.
  """
  known, guessed = set(text), set(found)
  return Score(
    precision=_share(token in known for token in found) if found else 0.0,
    recall=_share(token in guessed for token in text),
    private_recall=_share(token in guessed for token in text if is_private(token)),
  )


def mean(all_scores: Sequence[Score]) -> Score:
  """Averages scores over batches, each figure over those that have it."""

  def average(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan

  return Score(
    average([one.precision for one in all_scores]),
    average([one.recall for one in all_scores]),
    average([one.private_recall for one in all_scores]),
  )


def filled_recall(
  text: Sequence[str], found: Sequence[str], frequent: Sequence[str]
) -> float:
  """Returns the recall of an attacker who names as many tokens as the text has.

  What a reconstruction leaves free, because it is short or repeats itself, goes to the
  most frequent words: whoever knows few tokens for sure still knows these.

  Args:
    text: The tokens of the text, or of all texts of a message.
    found: The reconstructed tokens.
    frequent: The most frequent ones, as many as the text has.
  """
  named = dict.fromkeys([*dict.fromkeys(found), *frequent])
  guessed = set(list(named)[: len(text)])
  return _share(token in guessed for token in text)


def advantage(some: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
  """Compares the recall of two attacks on the same messages.

  Returns:
    The mean difference, and what is to be added and taken off for a 95% interval by
    Student's distribution; NaN for a single message.
  """
  differences = np.subtract(some, others)
  number, average = len(differences), float(np.mean(differences))
  if number == 1:
    return average, math.nan
  quantile = float(special.stdtrit(number - 1, 0.975))
  return average, quantile * float(np.std(differences, ddof=1)) / math.sqrt(number)


def _share(outcomes: Iterable[bool]) -> float:
  known = list(outcomes)
  return sum(known) / len(known) if known else math.nan
