"""Canary users of the count-mean sketch: all their words are one of two."""

import collections

import numpy as np
import tqdm

from tff_textpriv import randomness
from tff_textpriv.aggregators import count_mean_sketch as aggregator
from tff_textpriv.audits import canaries as canaries_lib
from tff_textpriv.privacy import count_mean_sketch

# Among so many words the two are chosen.
_NUM_WORDS = 1000


def scores(
  parameters: count_mean_sketch.SketchParameters,
  canaries: canaries_lib.Canaries,
) -> np.ndarray:
  """Lets canaries report, each alone, and scores what the server sees.

  The coin decides which of two words a canary has; the two share no cell of the sketch,
  or as few as can be. The score is the number of reports that mark the one, less the
  number of those that mark the other: the reports' likelihoods differ in nothing else.

  Args:
    parameters: Those of the sketch.
    canaries: Who reports.

  Returns:
    What speaks for heads, float [number of canaries].
  """
  process = aggregator.CountMeanSketchFactory(parameters).create(
    aggregator.client_value_type(parameters.words_per_user)
  )
  cells = parameters.hashes(_NUM_WORDS)
  other = int(np.argmin(np.sum(cells == cells[:, :1], axis=0)))
  rows = np.arange(parameters.num_hashes)
  stream = randomness.Stream.of_seed(canaries.seed)
  state, found = process.initialize(), np.zeros([canaries.number])
  # `disable=None` is tqdm's way to show no bar where there is no terminal.
  for index in tqdm.trange(canaries.number, unit='report', disable=None):
    word = 0 if canaries.coins[index] else other
    value = collections.OrderedDict(
      words=np.full([parameters.words_per_user], word, np.int32),
      seed=stream.words('canary words', canaries.ids[index]),
    )
    sums = process.next(state, [value]).result['bit_sums']
    found[index] = sums[rows, cells[:, 0]].sum() - sums[rows, cells[:, other]].sum()
  return found
