"""Frequent words are found, from no more than what each user may report."""

import collections
import math

import numpy as np
import pytest

from tff_textpriv import randomness
from tff_textpriv.datasets import embedded
from tff_textpriv.iterative_processes import heavy_hitters
from tff_textpriv.privacy import word_estimates
from tff_textpriv.privacy.count_mean_sketch import HeavyHittersSettings
from tff_textpriv.runtime.execution import execution
from tff_textpriv.text import statistics

# Hardly a bit is flipped and hardly two words collide: counts come out exact.
_EXACT = HeavyHittersSettings(
  heavy_hitters_epsilon=120.0,
  heavy_hitters_hashes=16,
  heavy_hitters_width=8192,
)
_DICTIONARY = ['a', 'b', 'c', 'd', 'e']


def _discover(texts, settings=_EXACT, seed=0, **changes):
  words = {user: text.split() for user, text in texts.items()}
  estimates = heavy_hitters.estimate_words(
    list(words),
    words.__getitem__,
    _DICTIONARY,
    settings,
    randomness.Stream.of_seed(seed),
    **changes,
  )
  return estimates.accepted_counts


def test_users_report_so_many_words_of_the_dictionary_and_no_occurrence_twice(
  tff_runtime,
):
  # Words outside the dictionary take no report from those in it.
  texts = {f'u{number}': 'x y a x b y c x x x' for number in range(20)}
  assert _discover(texts) == {'a': 20, 'b': 20, 'c': 20}
  assert _discover({'u': 'x a y a'}) == {'a': 2}
  many = _discover({f'u{number}': 'a a b b c x ' * 50 for number in range(40)})
  assert sum(many.values()) == 40 * 3


def test_words_are_drawn_as_often_as_they_are_written(tff_runtime):
  counts = _discover({f'u{number}': 'a a a a a a b b b c' for number in range(200)})
  # Without replacement a draw of 3 varies less than the binomial assumed here.
  for word, share in [('a', 0.6), ('b', 0.3), ('c', 0.1)]:
    assert abs(counts[word] - 600 * share) < 5 * math.sqrt(600 * share * (1 - share))


def test_all_users_weigh_the_same(tff_runtime):
  texts = {'writer': 'a ' * 1000} | {f'u{number}': 'b b b' for number in range(9)}
  assert _discover(texts) == {'b': 27, 'a': 3}


def test_users_without_any_word_of_the_dictionary_count_for_nothing(tff_runtime):
  texts = {'u0': '', 'u1': 'x y z', 'u2': 'd'}
  settings = HeavyHittersSettings(
    heavy_hitters_epsilon=120.0, heavy_hitters_hashes=16, heavy_hitters_width=8192
  )
  assert _discover(texts, settings) == {'d': 1}


def test_without_users_there_are_no_words(tff_runtime):
  assert _discover({}) == {}


@pytest.mark.parametrize('dictionary', [[], ['a', 'b', 'a']])
def test_a_dictionary_that_is_empty_or_repeats_words_is_refused(dictionary):
  with pytest.raises(ValueError, match='dictionary'):
    heavy_hitters.estimate_words(
      ['u'], lambda _: ['a'], dictionary, HeavyHittersSettings(), 0
    )


def test_the_result_depends_on_the_seed_and_not_on_batches_or_workers(
  tff_runtime, tmp_path
):
  settings = HeavyHittersSettings(
    heavy_hitters_hashes=8, heavy_hitters_width=64, heavy_hitters_error=0.9
  )
  texts = {f'u{number}': 'a b c a a d' for number in range(30)}
  counts = _discover(texts, settings)
  assert _discover(texts, settings, batch_size=7) == counts
  assert _discover(texts, settings, seed=1) != counts
  with execution(num_workers=2, log_dir=tmp_path):
    assert _discover(texts, settings) == counts


def _expected_counts(texts, dictionary) -> np.ndarray:
  """How often each word would be reported on average."""
  index_of = {word: index for index, word in enumerate(dictionary)}
  expected = np.zeros(len(dictionary))
  for words in texts:
    indices = [index_of[word] for word in words if word in index_of]
    np.add.at(expected, indices, 3 / len(indices))
  return expected


def test_frequent_words_of_the_embedded_corpus_are_found(tff_runtime):
  data = embedded.build(seed=0, num_train_users=2000, num_public_lines=3000)
  public = collections.Counter(w for line in data.public_text for w in line.split())
  dictionary = [word for word, _ in public.most_common()]
  texts = {
    user: ' '.join(data.train.read(user)).split() for user in data.train.client_ids
  }
  settings = HeavyHittersSettings()
  estimates = heavy_hitters.estimate_words(
    list(texts), texts.__getitem__, dictionary, settings, randomness.Stream.of_seed(3)
  )
  counts = estimates.accepted_counts
  expected = _expected_counts(texts.values(), dictionary)
  found = np.array([counts.get(word, 0) for word in dictionary])
  parameters, reports = settings.sketch(3), 3 * len(texts)
  error = math.sqrt(parameters.variance(reports, 0, (expected**2).sum()))

  # What is well above the threshold is found, with the right count; drawing the words
  # adds at most the variance of the count itself.
  bounds = 5 * np.sqrt(error**2 + expected)
  frequent = expected > estimates.smallest + bounds
  assert frequent.any()
  assert np.all(np.abs(found - expected)[frequent] < bounds[frequent])
  # What is found is not noise: no rare word comes with the frequent ones.
  assert not found[expected < error].any()
  # And what comes of it is nearer to the users than the public text is.
  real = dict(zip(dictionary, expected.tolist(), strict=True))
  combined = word_estimates.combine(estimates, public)
  assert statistics.unigram_kl(real, combined) < statistics.unigram_kl(real, public)
