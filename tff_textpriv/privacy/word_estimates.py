"""From the noisy counts of a sketch to shares of words: which stand out, and what to believe.

Post-processing: nothing here costs privacy.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from tff_textpriv.privacy.count_mean_sketch import SketchParameters


@dataclasses.dataclass(frozen=True, eq=False)
class WordEstimates:
  """What a sketch says of the words of a dictionary.

  Attributes:
    words: The dictionary.
    counts: Estimated counts of its words, without bias, float64 [words].
    num_reports: The number of reports, those without a word included.
    error: The standard error of the count of a word that nobody reported.
    smallest: What a count must exceed to stand out of the noise.
  """

  words: Sequence[str]
  counts: np.ndarray
  num_reports: int
  error: float
  smallest: float

  @property
  def accepted(self) -> np.ndarray:
    """The indices of the words that stand out, those with the largest counts first."""
    order = np.argsort(-self.counts, kind='stable')
    return order[self.counts[order] > self.smallest]

  @property
  def accepted_counts(self) -> dict[str, int]:
    """The counts of the words that stand out, each at least 1; the largest first."""
    return {self.words[index]: round(self.counts[index]) for index in self.accepted}


def estimate(
  parameters: SketchParameters,
  bit_sums: np.ndarray,
  row_counts: np.ndarray,
  dictionary: Sequence[str],
  family_error: float,
) -> WordEstimates:
  """Turns a sketch into estimates, and says which of them stand out of the noise.

  Of a word that nobody reported, the marked cells are Binomial(n, p + (1 - 2p) / m): a
  report marks the word's cell by a flip, or by a collision. With d words in the
  dictionary, each may exceed the threshold with probability `family_error` / d
  (Bonferroni), so that together they do with at most `family_error`, however many they
  are. Frequent words collide more often together than the binomial has it; the
  threshold is wider by the ratio of the standard errors.

  Args:
    parameters: Those of the sketch.
    bit_sums: The sketch, integers [num_hashes, width].
    row_counts: The number of reports in each row, integers [num_hashes].
    dictionary: The words, in the order of their indices.
    family_error: The probability that any word which nobody reported stands out.
  """
  from scipy import stats  # Takes a second to import.

  hashes = parameters.hashes(len(dictionary))
  counts = parameters.estimate(bit_sums, row_counts, hashes)
  num_reports = int(row_counts.sum())
  flip, width = parameters.flip_probability, parameters.width
  marked = flip + (1 - 2 * flip) / width
  most = stats.binom.isf(family_error / len(dictionary), num_reports, marked)
  threshold = (most - marked * num_reports) / (1 - 2 * flip) * width / (width - 1)
  # As if each report were of another word; then with the words that are frequent.
  least = math.sqrt(parameters.variance(num_reports, 0, num_reports))
  squares = float((counts[counts > threshold] ** 2).sum())
  error = math.sqrt(parameters.variance(num_reports, 0, max(squares, num_reports)))
  if num_reports:
    threshold *= error / least
  return WordEstimates(dictionary, counts, num_reports, error, max(threshold, 0.5))


def combine(
  estimates: WordEstimates, public_counts: Mapping[str, int]
) -> dict[str, int]:
  """Joins what users reported with what public text says, each by what it is worth.

  Before any report the share s of a word is taken to be that of public text, pi, give or
  take: of mean pi and variance v pi (1 - pi), as if public text were a sample of the
  users' language. The estimate has the variance t of the sketch and of drawing n
  reports. For a word that stands out, the share is the posterior mean

    pi + k (estimate - pi),  k = v pi (1 - pi) / (v pi (1 - pi) + t).

  How far users are from public text, v, is found from all words together, by moments: v
  is such that the sum of pi ((estimate - pi)^2 - t) is what it is expected to be, or 0.
  Users who write like public text leave it as it is; reports without number replace it.
  All other words share what is left, as in public text.

  Args:
    estimates: The estimates of words, all of which public text has.
    public_counts: Counts of the public text.

  Returns:
    Counts of all words of the public text, each at least 1, in all as many as there.
  """
  total = sum(public_counts.values())
  if not estimates.num_reports:
    return dict(public_counts)
  public = np.array([public_counts[word] / total for word in estimates.words])
  spread = public * (1 - public)
  found = estimates.counts / estimates.num_reports
  noise = (estimates.error / estimates.num_reports) ** 2
  noise = noise + spread / estimates.num_reports
  beyond = np.sum(public * ((found - public) ** 2 - noise))
  distance = max(0.0, beyond / np.sum(public * spread))
  weight = distance * spread / (distance * spread + noise)
  shares = np.maximum(public + weight * (found - public), 0)
  accepted = estimates.accepted
  known = {estimates.words[index]: float(shares[index]) for index in accepted}
  left = max(0.0, 1 - sum(known.values()))
  others = 1 - float(public[accepted].sum())
  scale = left / others if others > 0 else 0.0
  return {
    word: max(1, round(total * known.get(word, scale * count / total)))
    for word, count in public_counts.items()
  }
