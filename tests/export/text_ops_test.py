"""TensorFlow's way with strings gives what `text/` gives, on text of all scripts."""

import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv.export import text_ops
from tff_textpriv.text import normalize, rolling_hash, tokens, wordpieces

_BY_HAND = [
  '',
  ' ',
  'How do I… update Java\u2028to\u00a0ＪＤＫ １７?',
  "don't won''t o'clock' 'tis 1,234.5 3.14.15 1. a_b __init__ x²",
  'İstanbul ΟΔΥΣΣΕΥΣ ß ﬁ Å ½ Ⅷ ①',
  'tab\tnew\nline\x1cseparator\x85next\x0bvertical\u3000wide\u200bzero',
  '日本語 テキスト 한국어 עברית العربية हिन्दी',
  '👍🏽 emoji 👩‍👩‍👧 and (brackets) [more] {these} $5 + 6 = 11 ^~`|',
  'e\u0301 cafe\u0301 \u0300 combining',
  'x' * 150 + ' ' + 'ab' * 50,
]


# What Unicode 14 added below 0x3000, which only Python's tables have.
_NEW = {
  *(0x61D, 0x8B5, 0xC3C, 0xC5D, 0xCDD, 0x170D, 0x1715, 0x171F, 0x180F, 0x1B4C, 0x1B7D),
  *(0x1B7E, 0x1DFA, 0x20C0, 0x2C2F, 0x2C5F),
  *(*range(0x870, 0x8A0), *range(0x8C8, 0x8D3), *range(0x1AC1, 0x1ACF)),
}


def _random_texts(number=500):
  """Texts of characters that both tables have."""
  rng = np.random.default_rng(0)
  pools = [
    [chr(code) for code in codes if chr(code).isprintable() or code < 0x3000]
    for codes in (
      range(0x20, 0x7F),
      range(0x370),
      range(0x370, 0x2000),
      range(0x2000, 0x3040),
      [*range(0x3040, 0x3100), *range(0x4E00, 0x4F00), *range(0x1F600, 0x1F640)],
    )
  ]
  pools = [
    [c for c in pool if unicodedata.category(c) != 'Cn' and ord(c) not in _NEW]
    for pool in pools
  ]
  texts = []
  for _ in range(number):
    characters = []
    for _ in range(rng.integers(1, 60)):
      pool = pools[rng.choice(len(pools), p=[0.6, 0.15, 0.1, 0.1, 0.05])]
      characters.append(pool[rng.integers(len(pool))])
      if rng.random() < 0.15:
        characters.append(' ')
    texts.append(''.join(characters))
  return texts


_TEXTS = [*_BY_HAND, *_random_texts()]


def test_normalization_is_that_of_the_package():
  found = [text.decode() for text in text_ops.normalize(tf.constant(_TEXTS)).numpy()]
  assert found == [normalize.normalize(text) for text in _TEXTS]


def test_words_numbers_and_marks_are_split_alike():
  found = text_ops.split_words(tf.constant(_TEXTS)).to_list()
  assert [[token.decode() for token in row] for row in found] == [
    tokens.split_words(text) for text in _TEXTS
  ]


def test_words_of_letters_and_their_hashes_are_alike():
  found = text_ops.split_letters(tf.constant(_TEXTS))
  assert found.to_list() == [rolling_hash.split_words(text) for text in _TEXTS]


@pytest.mark.parametrize(
  ('base', 'buckets'), [(31, 5000), (1, 2), (2**40 + 7, 2**31 - 2), (97, 2**31 - 2)]
)
def test_hashes_do_not_overflow(base, buckets):
  words = text_ops.split_letters(tf.constant([*_TEXTS, 'z' * 500]))
  hasher = rolling_hash.RollingHasher(base, buckets)
  expected = hasher.word_ids([*_TEXTS, 'z' * 500])
  found = text_ops.rolling_hash(words, base, buckets)
  assert found.flat_values.numpy().tolist() == expected.values.tolist()
  assert found.row_lengths().numpy().tolist() == expected.lengths.tolist()


def test_a_batch_without_any_word_has_no_hashes():
  words = text_ops.split_letters(tf.constant(['', '123']))
  assert text_ops.rolling_hash(words, 31, 5000).to_list() == [[], []]


@pytest.mark.parametrize('is_cased', [False, True])
def test_word_pieces_are_alike(is_cased):
  letters = {c for text in _TEXTS for c in text if c.isalnum()} | set('.,!?$')
  some = sorted(letters)[::2]
  pieces = ['[UNK]', '[CLS]', 'up', '##date', 'caf', *some, *(f'##{c}' for c in some)]
  table = tf.lookup.StaticHashTable(
    tf.lookup.KeyValueTensorInitializer(
      tf.constant(pieces), tf.range(len(pieces), dtype=tf.int64)
    ),
    default_value=-1,
  )
  ours = wordpieces.WordPieces(pieces, is_cased=is_cased)
  graph = text_ops.WordPieces(table, is_cased=is_cased)
  found = graph.split(tf.constant(_TEXTS)).to_list()
  assert [[piece.decode() for piece in row] for row in found] == [
    ours.split(text) for text in _TEXTS
  ]
