import collections
import math

import numpy as np
import pytest

from tff_textpriv.text import statistics, subword, words

_TEXTS = ['the cat saw the dog', 'the dog ran', 'a bird saw a cat']


def test_words_are_counted_over_all_texts():
  counts = statistics.word_counts(iter(['the cat', '', 'the\u2581dog']))
  assert counts == {'the': 2, 'cat': 1, 'dog': 1}


def test_the_divergence_follows_its_definition():
  real = collections.Counter(a=3, b=1, c=1)
  other = collections.Counter(a=1, z=100)
  # With one added: p = (4, 2, 2) / 8, q = (2, 1, 1) / 4, so z does not count ...
  assert statistics.unigram_kl(real, other) == pytest.approx(0)
  # ... and here q = (1, 1, 6) / 8.
  expected = 4 / 8 * math.log(4) + 2 / 8 * math.log(2) + 2 / 8 * math.log(2 / 6)
  assert statistics.unigram_kl(real, {'c': 5}) == pytest.approx(expected)


def test_only_the_real_corpus_s_top_words_count():
  real = collections.Counter(a=3, c=1, b=1)
  # Of the equally frequent b and c, b is taken: p = (4, 2) / 6, q = (1, 3) / 4.
  expected = 4 / 6 * math.log(16 / 6) + 2 / 6 * math.log(8 / 18)
  assert statistics.unigram_kl(real, {'b': 2, 'c': 9}, top=2) == pytest.approx(expected)


def test_the_divergence_is_zero_only_for_the_corpus_itself_and_has_a_direction():
  ours, theirs = (statistics.word_counts(t) for t in (_TEXTS, ['the end', 'a cat']))
  assert statistics.unigram_kl(ours, ours) == 0
  forward, backward = (
    statistics.unigram_kl(ours, theirs),
    statistics.unigram_kl(theirs, ours),
  )
  assert forward > 0 and backward > 0 and forward != pytest.approx(backward)


def test_a_negative_estimate_counts_as_nothing():
  real = collections.Counter(a=3, b=1)
  assert statistics.unigram_kl(real, {'a': 2.5, 'b': -7.0}) == statistics.unigram_kl(
    real, {'a': 2.5}
  )


def test_a_divergence_from_nothing_is_refused():
  with pytest.raises(ValueError, match='no words'):
    statistics.unigram_kl({}, {'a': 1})


def test_a_word_tokenizer_has_one_token_a_word_and_misses_rare_words():
  tokenizer = words.train(_TEXTS, 4 + 3)  # the, a, cat
  texts = ['the cat saw the', 'a dog', '']
  assert statistics.coverage(tokenizer, texts).tokens_per_word == 1
  assert statistics.coverage(tokenizer, texts).oov_share == pytest.approx(2 / 6)


def test_a_sub_word_tokenizer_needs_more_tokens_for_strange_words_but_misses_none():
  tokenizer = subword.train(['ab ab ab'] * 10, 265)
  texts = ['ab'] * 2_500
  assert statistics.coverage(tokenizer, iter(texts)).tokens_per_word == 1
  # A mark of a word start and three bytes.
  assert statistics.coverage(tokenizer, ['日', 'ab']).tokens_per_word == (4 + 1) / 2
  assert statistics.coverage(tokenizer, ['日', 'ab']).oov_share == 0


def test_figures_per_word_are_undefined_without_words():
  tokenizer = words.train(_TEXTS, 6)
  for texts in ([], ['', '']):
    assert math.isnan(statistics.coverage(tokenizer, texts).tokens_per_word)
    assert math.isnan(statistics.coverage(tokenizer, texts).oov_share)


def test_the_floor_of_a_divergence_is_that_of_chance():
  # With counts that are large everywhere, half of a chi-square over the number of words.
  real = {str(word): 1000 + word for word in range(500)}
  assert statistics.unigram_kl_floor(real, 500_000) == pytest.approx(
    499 / (2 * 500_000), rel=0.15
  )


def test_no_copy_of_so_many_words_is_nearer_than_the_floor():
  shares = 1 / np.arange(1, 2001)
  real = {str(i): 1 + round(100_000 * share) for i, share in enumerate(shares)}
  names, weights = list(real), np.array(list(real.values())) / sum(real.values())
  for num_words in (1000, 100_000):
    floor = statistics.unigram_kl_floor(real, num_words)
    draws = np.random.default_rng(7).multinomial(num_words, weights, size=20)
    found = [
      statistics.unigram_kl(real, dict(zip(names, draw, strict=True))) for draw in draws
    ]
    error = np.std(found)
    # The floor is a mean of five, what it is compared with one of twenty.
    assert abs(np.mean(found) - floor) < 5 * error * math.sqrt(1 / 5 + 1 / 20)
    # A model that is wrong is further away.
    wrong = dict(zip(names, draws[0][::-1], strict=True))
    assert statistics.unigram_kl(real, wrong) > 2 * floor
  assert statistics.unigram_kl_floor(real, 1000) > 10 * floor
