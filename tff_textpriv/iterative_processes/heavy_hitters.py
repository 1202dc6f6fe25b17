"""Finding the users' frequent words under local differential privacy.

Each user reports a few words of their own text through a count-mean sketch. What
the server sees is randomized on the devices; a user spends the whole budget once,
by taking part.
"""

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tqdm

from tff_textpriv import randomness
from tff_textpriv.aggregators import count_mean_sketch as aggregator
from tff_textpriv.privacy import count_mean_sketch, word_estimates

_INT32 = np.iinfo(np.int32)
# TFF keeps every intermediate sum of an aggregation until the batch is done: one
# sketch for each client.
_MAX_BATCH_BYTES = 2**28


def estimate_words(
  users: Sequence[str],
  words_of: Callable[[str], Sequence[str]],
  dictionary: Sequence[str],
  settings: count_mean_sketch.HeavyHittersSettings,
  stream: randomness.Stream,
  *,
  batch_size: int = 100,
  progress: bool = True,
) -> word_estimates.WordEstimates:
  """Estimates how often users write the words of a public dictionary.

  A user reports `heavy_hitters_words_per_user` words, drawn without replacement from
  the occurrences in the user's text of words that are in the dictionary; where there
  are too few, reports without a word fill up. Words outside the dictionary could not
  be counted and are passed over before the draw, so that they waste no report. All
  users weigh the same, however much they write: a count estimates the number of
  reports of the word, of which there are `len(users) * words_per_user` in all.

  Args:
    users: The ids of those who take part, each once.
    words_of: Reads the words of a user, in text order.
    dictionary: The words to count, without repetition, made without looking at the
      users' text.
    settings: Budget and size of the sketch.
    stream: Decides the words that users draw, the hash functions and the noise.
    batch_size: The number of users who report at a time; fewer if the sketch is so
      large that a worker's memory would not do. The result does not depend on it.
    progress: Whether to show a progress bar, on a terminal.

  Returns:
    Estimates of all words, and which of them stand out of the noise.
  """
  index_of = {word: index for index, word in enumerate(dictionary)}
  if not index_of or len(index_of) < len(dictionary):
    raise ValueError('the dictionary is empty or has a word twice')
  parameters = settings.sketch(stream)
  process = aggregator.CountMeanSketchFactory(parameters).create(
    aggregator.client_value_type(parameters.words_per_user)
  )
  bit_sums = np.zeros([parameters.num_hashes, parameters.width], np.int64)
  row_counts = np.zeros([parameters.num_hashes], np.int64)
  batch_size = max(1, min(batch_size, _MAX_BATCH_BYTES // (4 * bit_sums.size)))
  state = process.initialize()
  # `disable=None` is tqdm's way to show no bar where there is no terminal.
  with tqdm.tqdm(
    total=len(users),
    desc='heavy hitters',
    unit='user',
    disable=None if progress else True,
  ) as bar:
    for cohort in _cohorts(users, words_of, index_of, parameters, stream, batch_size):
      output = process.next(state, cohort)
      state = output.state
      bit_sums += output.result['bit_sums']
      row_counts += output.result['row_counts']
      bar.update(len(cohort))
  return word_estimates.estimate(
    parameters, bit_sums, row_counts, dictionary, settings.heavy_hitters_error
  )


def _cohorts(
  users: Sequence[str],
  words_of: Callable[[str], Sequence[str]],
  index_of: Mapping[str, int],
  parameters: count_mean_sketch.SketchParameters,
  stream: randomness.Stream,
  batch_size: int,
) -> Iterator[list[collections.OrderedDict]]:
  """Yields what the devices of each batch of users hold."""
  for start in range(0, len(users), batch_size):
    yield [
      _client_value(
        words_of(user),
        index_of,
        parameters.words_per_user,
        stream.child('heavy hitters', user),
      )
      for user in users[start : start + batch_size]
    ]


def _client_value(
  words: Sequence[str],
  index_of: Mapping[str, int],
  words_per_user: int,
  stream: randomness.Stream,
) -> collections.OrderedDict:
  """Draws the words that a user reports, and the seed of the device's noise."""
  indices = np.array([index_of[word] for word in words if word in index_of], np.int32)
  rng = stream.generator('words')
  drawn = rng.choice(indices, min(words_per_user, len(indices)), replace=False)
  reported = np.full([words_per_user], aggregator.NO_WORD, np.int32)
  reported[: len(drawn)] = drawn
  return collections.OrderedDict(
    words=reported,
    seed=stream.words('noise'),
  )
