import random

import numpy as np
import pytest

from tff_textpriv.text import subword, tokenizers


@pytest.fixture(scope='module')
def texts():
  rng = random.Random(0)
  stems = [''.join(rng.choices('bdfgklmnprstvaeiou', k=4)) for _ in range(200)]
  words = [stem + ending for stem in stems for ending in ('', 's', 'ing', 'ed')]
  return [' '.join(rng.choices(words, k=8)) for _ in range(500)]


@pytest.fixture(scope='module')
def tokenizer(texts):
  return subword.train(texts, 500)


def test_every_text_survives_encoding_even_in_letters_never_seen(tokenizer, texts):
  for text in [*texts[:20], 'Ünïcödé 日本語 🙂 x']:
    (ids,) = tokenizer.encode([text])
    assert ids.dtype == np.int32
    assert ids[0] == tokenizers.BOS_ID and ids[-1] == tokenizers.EOS_ID
    assert tokenizers.UNKNOWN_ID not in ids
    assert tokenizer.decode(ids) == text


def test_word_starts_count_the_words_of_white_space(tokenizer):
  for text in ['one two three', '日本 x é', 'a', 'odd \u2581 mark\u2581here']:
    (ids,) = tokenizer.encode([text])
    expected = len(text.replace('\u2581', ' ').split())
    assert tokenizer.starts_word[ids].sum() == expected


def test_the_same_text_gives_the_same_tokenizer(texts, tokenizer):
  again = subword.train(texts, 500)
  assert again.fingerprint == tokenizer.fingerprint
  assert subword.train(texts, 501).fingerprint != tokenizer.fingerprint


def test_a_tokenizer_survives_serialization(tokenizer):
  restored = subword.SubwordTokenizer(tokenizer.to_bytes())
  assert restored.pieces == tokenizer.pieces
  assert restored.size == 500


@pytest.mark.parametrize(
  ('lines', 'vocab_size', 'message'),
  [
    (['a few words'] * 3, 5000, r'--vocab_size=5000: the text \(3 lines\) supports at'),
    ([], 500, 'there is no text'),
    (['', ''], 500, 'there is no text'),
    (['some text'], 260, 'needs more than 261 ids'),
    (
      [chr(i) for i in range(300, 900)],
      400,
      'the characters of the text .* alone need',
    ),
  ],
)
def test_impossible_vocabularies_are_refused(lines, vocab_size, message):
  with pytest.raises(tokenizers.TokenizerError, match=message):
    subword.train(lines, vocab_size)


def test_a_foreign_file_is_refused():
  for content in (b'', b'not a model'):
    with pytest.raises(tokenizers.TokenizerError, match='not a SentencePiece model'):
      subword.SubwordTokenizer(content)
