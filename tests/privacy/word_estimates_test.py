"""Which words stand out of a sketch's noise, and what is made of them and public text."""

import math

import numpy as np
import pytest

from tff_textpriv import randomness
from tff_textpriv.privacy import word_estimates
from tff_textpriv.privacy.count_mean_sketch import (
  HeavyHittersSettings,
  SketchParameters,
)

_NAMES = [str(index) for index in range(40_000)]


def _parameters(seed=0, **changes):
  values = {'num_hashes': 32, 'width': 256, 'epsilon_per_word': 8 / 3}
  stream = randomness.Stream.of_seed(seed)
  return SketchParameters(**{**values, 'words_per_user': 3, **changes}, stream=stream)


def _sketch(parameters, words, rng):
  """Reports words, -1 for none: the mechanism once more, in NumPy, row by row."""
  k, m, flip = parameters.num_hashes, parameters.width, parameters.flip_probability
  rows = rng.integers(k, size=words.size)
  known = parameters.hashes(max(1, words.max() + 1))
  cells = np.where(words < 0, rng.integers(m, size=words.size), known[rows, words])
  marked = np.zeros([k, m], np.int64)
  np.add.at(marked, (rows, cells), 1)
  row_counts = np.bincount(rows, minlength=k)
  unmarked = row_counts[:, np.newaxis] - marked
  return rng.binomial(marked, 1 - flip) + rng.binomial(unmarked, flip), row_counts


def _estimates(parameters, words, rng, names=_NAMES, family_error=0.05):
  sketch = _sketch(parameters, words, rng)
  return word_estimates.estimate(parameters, *sketch, names, family_error)


@pytest.fixture(scope='module')
def pure_noise():
  """Estimates of 40,000 words that nobody writes, of 120 sketches of 900 reports."""
  parameters = _parameters()
  rng = np.random.default_rng(0)
  # The hash functions are public, and the same; what varies is the noise.
  hashes = parameters.hashes(len(_NAMES))
  object.__setattr__(parameters, 'hashes', lambda _: hashes)
  nothing = np.full(900, -1)
  return [_estimates(parameters, nothing, rng) for _ in range(120)]


def _accepting_runs(estimates, smallest):
  return sum(bool(np.any(each.counts > smallest(each))) for each in estimates)


def test_of_a_large_dictionary_of_noise_no_word_is_accepted_more_often_than_stated(
  pure_noise,
):
  runs = len(pure_noise)
  bound = 0.05 * runs + 3 * math.sqrt(0.05 * 0.95 * runs)
  assert _accepting_runs(pure_noise, lambda each: each.smallest) <= bound
  # The broken twin, one threshold for dictionaries of all sizes, accepts in every run.
  assert _accepting_runs(pure_noise, lambda each: 3.5 * each.error) > 0.9 * runs


def test_the_threshold_grows_with_the_dictionary_and_with_certainty():
  parameters, nothing = _parameters(), np.full(900, -1)

  def smallest(size, family_error):
    rng = np.random.default_rng(0)
    return _estimates(parameters, nothing, rng, _NAMES[:size], family_error).smallest

  assert smallest(10, 0.05) < smallest(1000, 0.05) < smallest(1000, 0.001)
  # Few words and a large error: about where a normal law has it, 1.28 standard errors.
  error = math.sqrt(parameters.variance(900, 0, 900))
  assert smallest(1, 0.1) == pytest.approx(1.28 * error, rel=0.1)


def test_nearly_without_noise_all_counts_come_out_in_order():
  parameters = _parameters(num_hashes=512, width=4096, epsilon_per_word=40.0)
  counts = np.round(150 / np.arange(1, 21)).astype(int)
  words = np.repeat(np.arange(20), counts)
  found = _estimates(parameters, words, np.random.default_rng(0), _NAMES[:20])
  accepted = found.accepted_counts
  assert list(accepted)[:5] == _NAMES[:5]
  assert list(accepted.values()) == sorted(accepted.values(), reverse=True)
  for name, count in zip(_NAMES, counts, strict=False):
    assert abs(accepted[name] - count) <= 2 and isinstance(accepted[name], int)


def test_a_sketch_of_nobody_has_no_words_and_leaves_public_text_as_it_is():
  parameters = _parameters()
  sketch = np.zeros([32, 256], np.int64), np.zeros([32], np.int64)
  found = word_estimates.estimate(parameters, *sketch, ['a', 'b'], 0.05)
  assert found.accepted_counts == {}
  assert word_estimates.combine(found, {'a': 3, 'b': 2}) == {'a': 3, 'b': 2}


# Words as frequent as in English.
_SHARES = 1 / np.arange(1, 3001)
_SHARES /= _SHARES.sum()
_PUBLIC = {
  name: round(1_000_000 * share) for name, share in zip(_NAMES, _SHARES, strict=False)
}


def _kl(shares, counts):
  other = np.array([counts[name] for name in _PUBLIC], float)
  return float(np.sum(shares * np.log(shares / (other / other.sum()))))


def _replaced(found):
  """The broken twin: what passes 3.5 standard errors replaces the public count."""
  scale = sum(_PUBLIC.values()) / found.num_reports
  chosen = found.counts > 3.5 * found.error
  reported = {
    name: max(1, round(scale * count))
    for name, count, is_chosen in zip(found.words, found.counts, chosen, strict=True)
    if is_chosen
  }
  return {**_PUBLIC, **reported}


def _reports(shares, num_reports, seed):
  rng = np.random.default_rng(seed)
  settings = HeavyHittersSettings()
  words = rng.choice(shares.size, num_reports, p=shares)
  parameters = settings.sketch(randomness.Stream.of_seed(seed))
  return _estimates(parameters, words, rng, list(_PUBLIC), settings.heavy_hitters_error)


@pytest.mark.parametrize('num_users', [300, 3000, 30_000])
def test_users_who_write_like_public_text_leave_it_as_near_as_it_was(num_users):
  found = [_reports(_SHARES, 3 * num_users, seed) for seed in range(4)]
  before = _kl(_SHARES, _PUBLIC)
  after = [_kl(_SHARES, word_estimates.combine(each, _PUBLIC)) for each in found]
  # What is lost is less than a hundredth of what tells real public text from users'.
  assert max(after) < before + 0.005
  replaced = [_kl(_SHARES, _replaced(each)) for each in found]
  assert np.mean(replaced) > np.mean(after)
  if num_users == 300:
    assert np.mean(replaced) > before + 0.05


@pytest.mark.parametrize('num_users', [3000, 30_000])
def test_users_who_write_otherwise_are_followed(num_users):
  users = _SHARES.copy()
  # Some frequent words are rarer, and some rare ones frequent.
  users[:20] = users[:20][::-1]
  users[[200, 300]] = 0.05
  users /= users.sum()
  before = _kl(users, _PUBLIC)
  for seed in range(2):
    found = _reports(users, 3 * num_users, seed)
    after = _kl(users, word_estimates.combine(found, _PUBLIC))
    assert after < (0.9 if num_users == 3000 else 0.5) * before


def test_reports_without_number_replace_the_public_shares():
  public = {'the': 50, 'of': 30, 'cat': 20}
  found = word_estimates.WordEstimates(
    ['the', 'of', 'cat'], np.array([0.2e9, 0.2e9, 0.6e9]), 10**9, 1e3, 1e7
  )
  assert word_estimates.combine(found, public) == {'the': 20, 'of': 20, 'cat': 60}
  # Of one word that stands out, the others share the rest as they did.
  alone = word_estimates.WordEstimates(
    ['the', 'of', 'cat'], np.array([0.2e9, 0.2e9, 0.6e9]), 10**9, 1e3, 0.3e9
  )
  assert word_estimates.combine(alone, public) == {'the': 25, 'of': 15, 'cat': 60}
