"""A substitution cipher of vectors, made of an artificial language, is solved."""

import numpy as np
import pytest

from tff_textpriv.attacks import decipher, public_text

_WORDS = 80
_WIDTH = 16


def _language(seed):
  """Which word follows which: few ones each, by the frequencies of natural language."""
  rng = np.random.default_rng(seed)
  shares = 1 / np.arange(1, _WORDS + 1)
  chances = shares * rng.gamma(0.3, size=(_WORDS, _WORDS))
  return chances / chances.sum(axis=1, keepdims=True)


def _write(chances, num_texts, rng):
  texts = []
  for _ in range(num_texts):
    text = [int(rng.integers(_WORDS))]
    while len(text) < 25:
      text.append(int(rng.choice(_WORDS, p=chances[text[-1]])))
    texts.append(np.array(text))
  return texts


@pytest.fixture(name='public', scope='module')
def _public():
  texts = _write(_language(0), 600, np.random.default_rng(1))
  # The last row, of unknown words, is in no text.
  return public_text.PublicText(texts, _WORDS + 1)


@pytest.fixture(name='texts', scope='module')
def _texts():
  return _write(_language(0), 120, np.random.default_rng(2))


@pytest.fixture(name='table', scope='module')
def _table():
  return np.random.default_rng(3).normal(size=(_WORDS + 1, _WIDTH))


def _rotated(table, noise, seed=4):
  """Vectors that are alike to public ones but for a rotation."""
  rng = np.random.default_rng(seed)
  rotation, _ = np.linalg.qr(rng.normal(size=(_WIDTH, _WIDTH)))
  return table @ rotation + noise * rng.normal(size=table.shape)


def _recovered(texts, table, noise, seed=5):
  rng = np.random.default_rng(seed)
  return [table[text] + noise * rng.normal(size=(len(text), _WIDTH)) for text in texts]


def _share_read(cipher, names, texts):
  """The share of all tokens that are named rightly."""
  return np.mean(
    names[np.concatenate(cipher.texts)] == np.concatenate(texts), dtype=float
  )


def test_vectors_of_one_token_are_linked_over_texts_in_spite_of_noise(texts, table):
  cipher = decipher.link(_recovered(texts, table, noise=0.05))
  of_token = {}
  for symbol, token in zip(
    np.concatenate(cipher.texts), np.concatenate(texts), strict=True
  ):
    assert of_token.setdefault(symbol, token) == token
  assert len(of_token) == len(np.unique(np.concatenate(texts))) == len(cipher.vectors)
  assert [len(text) for text in cipher.texts] == [len(text) for text in texts]


def test_a_table_that_is_all_its_own_is_read_by_what_follows_what(public, texts):
  own = np.random.default_rng(6).normal(size=(_WORDS + 1, _WIDTH))
  cipher = decipher.link(_recovered(texts, own, noise=0.05))
  names = decipher.solve(cipher, public)
  assert len(set(names)) == len(names)
  assert _share_read(cipher, names, texts) > 0.8


def test_vectors_alike_to_public_ones_are_named_by_their_angles(public, texts, table):
  few = texts[:12]
  own = _rotated(table, noise=0.05)
  cipher = decipher.link(_recovered(few, own, noise=0.05))
  by_counts = _share_read(cipher, decipher.solve(cipher, public), few)
  by_both = _share_read(cipher, decipher.solve(cipher, public, table), few)
  assert by_both > 0.9 and by_both > by_counts


def test_vectors_of_another_kind_do_no_harm(public, texts, table):
  own = np.random.default_rng(6).normal(size=(_WORDS + 1, _WIDTH))
  cipher = decipher.link(_recovered(texts, own, noise=0.05))
  assert _share_read(cipher, decipher.solve(cipher, public, table), texts) > 0.8


def test_another_language_tells_nothing(texts, table):
  rng = np.random.default_rng(7)
  # The same frequencies would name the most frequent symbols: words are renamed.
  renamed = [rng.permutation(_WORDS)[text] for text in _write(_language(8), 300, rng)]
  public = public_text.PublicText(renamed, _WORDS + 1)
  cipher = decipher.link(_recovered(texts, table, noise=0.05))
  assert _share_read(cipher, decipher.solve(cipher, public), texts) < 0.2


def test_a_text_is_its_names_and_frequent_words_that_are_no_other_symbol(public):
  names = public.most_frequent(5)[[4, 2, 0, 1]]
  found = decipher.read(np.array([1, 0, 1, 1]), names, public)
  # The third and first are named; the most frequent are other symbols, the fourth is not.
  expected = [*names[:2], public.most_frequent(4)[3]]
  assert list(found[:3]) == expected
  assert len(found) == len(set(found)) == 4 and not set(found) & set(names[2:])


def test_more_symbols_than_words_are_refused(public):
  texts = [np.random.default_rng(0).normal(size=(200, 300))]
  with pytest.raises(ValueError, match='200 symbols are more than 80 words'):
    decipher.solve(decipher.link(texts), public)
