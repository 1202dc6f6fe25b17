"""The rolling hash: the known answers, its definition, and what counts as a word."""

import re

import numpy as np
import pytest

from tff_textpriv.text import rolling_hash


def _by_definition(word: str, base: int, buckets: int) -> int:
  """Eq. 6 with the exponent starting at 0, letter by letter."""
  codes = [ord(letter) - ord('a') + 1 for letter in word]
  return sum(code * base**i for i, code in enumerate(codes)) % buckets


@pytest.mark.parametrize(
  ('word', 'expected'), [('dog', 2196), ('cats', 283), ('and', 4279), ('dogs', 3225)]
)
def test_the_known_answers_hold(word, expected):
  assert rolling_hash.hash_word(word.encode(), base=31, buckets=5000) == expected


def test_an_exponent_that_starts_at_one_misses_the_known_answers():
  assert _by_definition('dog', 31, 5000) == 2196
  assert _by_definition('dog', 31, 5000) * 31 % 5000 != 2196


@pytest.mark.parametrize('base', [1, 31, 53, 10**9 + 7, 2**61 - 1])
@pytest.mark.parametrize('buckets', [2, 5000, 1_000_000, 2**31 - 2, 2**63])
def test_any_base_buckets_and_length_give_the_exact_sum(base, buckets):
  rng = np.random.default_rng(0)
  for length in (0, 1, 7, 100, 1000):
    word = ''.join(chr(97 + code) for code in rng.integers(26, size=length))
    found = rolling_hash.hash_word(word.encode(), base, buckets)
    assert found == _by_definition(word, base, buckets)


def test_words_are_small_letters_between_white_space():
  text = (
    'Don\'t STOP!\t"Café" 3D\nnaïve-ish...x\u00a0y\u2003z 2001\x1fend\x0bof\x85it ÀÉ'
  )
  expected = re.sub(r'[^a-z\s]', '', text.lower()).split()
  assert [word.decode() for word in rolling_hash.split_words(text)] == expected
  assert expected[:4] == ['dont', 'stop', 'caf', 'd']
  assert expected[-6:] == ['y', 'z', 'end', 'of', 'it'] or expected[-1] == 'it'


def test_words_of_random_characters_are_those_of_the_definition():
  rng = np.random.default_rng(1)
  for _ in range(300):
    codes = np.concatenate([rng.integers(0, 300, 40), rng.integers(0x2000, 0x2030, 5)])
    text = ''.join(map(chr, rng.permutation(codes)))
    expected = re.sub(r'[^a-z\s]', '', text.lower()).split()
    assert [word.decode() for word in rolling_hash.split_words(text)] == expected


def test_sentence_level_ids_are_sorted_and_occur_once():
  hasher = rolling_hash.RollingHasher()
  ids = hasher.bucket_ids(['cats and dogs', '', 'dog dog cats DOG!'])
  assert [ids.row(i).tolist() for i in range(3)] == [[283, 3225, 4279], [], [283, 2196]]
  vectors = rolling_hash.binary_vectors(ids, [0, 2], 5000)
  assert vectors.shape == (2, 5000)
  assert np.flatnonzero(vectors[0]).tolist() == [283, 3225, 4279]
  assert vectors.sum() == 5


def test_word_level_ids_keep_order_and_repetition_up_to_a_length():
  hasher = rolling_hash.RollingHasher()
  ids = hasher.word_ids(['dog cats dog', 'and'], length=2)
  assert ids.padded(np.array([1, 0]), 5000, (3, 4)).tolist() == [
    [4279, 5000, 5000, 5000],
    [2196, 283, 5000, 5000],
    [5000, 5000, 5000, 5000],
  ]


def test_a_hasher_remembers_words_without_mixing_up_settings():
  small, large = (rolling_hash.RollingHasher(31, m) for m in (10, 10_000))
  for hasher, buckets in ((small, 10), (large, 10_000), (small, 10)):
    ids = hasher.word_ids(['dogs dogs'])
    assert ids.values.tolist() == [_by_definition('dogs', 31, buckets)] * 2
