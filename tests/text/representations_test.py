"""Representations: what each makes of a text, and what it refuses."""

import numpy as np
import pytest

from tff_textpriv.text import representations, rolling_hash

_TEXTS = ['Good dog! Good.', 'bad cats', '']


def test_hashing_gives_a_bag_or_words_and_no_dense_numbers():
  hasher = rolling_hash.RollingHasher(31, 5000)
  good, dog = (rolling_hash.hash_word(word) for word in (b'good', b'dog'))
  bag = representations.HashedBag(hasher)
  assert bag.num_ids == 5000 and not bag.is_sequence
  assert bag.encode(_TEXTS).ids.row(0).tolist() == sorted([good, dog])
  words = representations.HashedWords(hasher, 2)
  assert words.is_sequence
  assert words.encode(_TEXTS).ids.row(0).tolist() == [good, dog]
  assert words.encode(_TEXTS).dense.shape == (3, 0)


def test_term_frequency_repeats_an_id_as_often_as_its_word():
  counts = representations.fit_term_frequency(_TEXTS)
  # The most frequent word first, then in the order of the alphabet.
  assert counts.num_ids == 4
  assert [counts.encode(_TEXTS).ids.row(i).tolist() for i in range(3)] == [
    [0, 0, 3],
    [1, 2],
    [],
  ]
  assert counts.encode(['good new word']).ids.values.tolist() == [0]
  assert representations.fit_term_frequency(_TEXTS, 1).num_ids == 1


def test_vectors_are_averaged_over_the_words_that_have_one(tmp_path):
  file = tmp_path / 'vectors.txt'
  file.write_text('3 2\ngood 1 2\nDOG 3 6\ndog 9 9\n! 4 4\n', encoding='utf-8')
  vectors = representations.read_vectors(file)
  assert vectors.width == 2 and vectors.num_ids == 0
  encoded = vectors.encode([*_TEXTS, 'good unknown'])
  np.testing.assert_allclose(
    encoded.dense, [[5 / 3, 10 / 3], [0, 0], [0, 0], [1, 2]], rtol=1e-6
  )
  assert encoded.ids.num_rows == 4 and encoded.ids.values.size == 0


@pytest.mark.parametrize(
  ('content', 'problem'),
  [
    ('good 1 2\nbad 1\n', ':2: 1 numbers where there were 2 before'),
    ('good 1 two\n', ':1: a number that cannot be read'),
    ('good\n', ':1: 0 numbers'),
    ('', 'no vector'),
  ],
)
def test_a_broken_vector_file_is_refused_with_its_line(tmp_path, content, problem):
  file = tmp_path / 'vectors.txt'
  file.write_text(content)
  with pytest.raises(representations.VectorsError, match=problem):
    representations.read_vectors(file)


def test_a_missing_vector_file_is_named(tmp_path):
  with pytest.raises(representations.VectorsError, match=r'no\.txt: cannot be read'):
    representations.read_vectors(tmp_path / 'no.txt')


def test_word2vec_is_a_function_of_its_seed_and_finds_words_of_one_context():
  rng = np.random.default_rng(0)
  texts = [
    ' '.join(rng.choice(group, 12))
    for group in (['red', 'blue', 'green'], ['cat', 'dog', 'cow'])
    for _ in range(300)
  ]
  first, again = (representations.fit_word2vec(texts, 8, seed=1) for _ in range(2))
  vectors = first.encode(['red', 'blue', 'cat']).dense
  np.testing.assert_array_equal(vectors, again.encode(['red', 'blue', 'cat']).dense)
  red, blue, cat = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
  assert red @ blue > red @ cat


def test_word2vec_without_gensim_says_what_to_install(monkeypatch):
  monkeypatch.setitem(__import__('sys').modules, 'gensim.models', None)
  with pytest.raises(representations.VectorsError, match='pip install gensim'):
    representations.fit_word2vec(_TEXTS, 4, seed=0)


def test_weighed_vectors_tell_texts_apart_by_their_rarer_words(tmp_path):
  rng = np.random.default_rng(0)
  # What all words have in common is far larger than what tells them apart.
  words = {
    f'w{chr(97 + i // 26)}{chr(97 + i % 26)}': rng.normal(size=5) for i in range(600)
  }
  vectors = {word.encode(): np.float32(9 + own) for word, own in words.items()}
  plain = representations.MeanVectors(vectors, 5)
  weighed = plain.weighed()
  assert list(weighed.vectors) == list(plain.vectors)
  # A text by Zipf's law has nothing in particular, and coordinates as large as planned.
  shares = 1 / np.arange(1, 601)
  shares /= shares.sum()
  ours = np.array(list(weighed.vectors.values()), np.float64)
  np.testing.assert_allclose(shares @ ours, 0, atol=1e-4)
  covariance = (shares * ours.T) @ ours
  np.testing.assert_allclose(covariance, np.eye(5), atol=5e-4)
  # By hand, but for one linear map: a / (a + p) of each, less the mean of all.
  factors = 1e-2 / (1e-2 + shares)
  table = np.array(list(vectors.values()), np.float64)
  expected = factors[:, np.newaxis] * table - (shares * factors) @ table
  whitening, *_ = np.linalg.lstsq(expected, ours, rcond=None)
  np.testing.assert_allclose(expected @ whitening, ours, atol=1e-3)
  # It stretches and does not turn.
  np.testing.assert_allclose(whitening, whitening.T, atol=1e-3 * abs(whitening).max())
  assert factors[0] < 0.07 < 0.97 < factors[599]
  # What is kept of them is read again as it was.
  file = tmp_path / 'vectors.txt'
  file.write_bytes(weighed.to_bytes())
  again = representations.read_vectors(file)
  for word, vector in weighed.vectors.items():
    np.testing.assert_array_equal(again.vectors[word], vector)
  # Texts are of one length, that of a vector of five standardized numbers; an empty one
  # has none.
  texts = [' '.join(list(words)[:7]), 'wab', '']
  lengths = np.linalg.norm(weighed.encode(texts).dense, axis=1)
  np.testing.assert_allclose(lengths, [5**0.5, 5**0.5, 0], rtol=1e-6)


def test_vectors_are_whitened_by_public_documents(tmp_path):
  rng = np.random.default_rng(0)
  words = [f'w{chr(97 + i // 26)}{chr(97 + i % 26)}' for i in range(200)]
  plain = representations.MeanVectors(
    {word.encode(): np.float32(3 + rng.normal(size=4)) for word in words}, 4
  )
  # Words of a document come from one of two halves: a topic, which Zipf's law has not.
  documents = [
    ' '.join(rng.choice(words[100 * (number % 2) :][:100], size=50))
    for number in range(40)
  ]
  weighed = plain.weighed([*documents, 'too short to tell'])
  table = np.array([weighed.vectors[word.encode()] for word in words], np.float64)
  number = {word: row for row, word in enumerate(words)}
  means = np.array(
    [table[[number[word] for word in text.split()]].mean(0) for text in documents]
  )
  np.testing.assert_allclose(means.mean(0), 0, atol=1e-5)
  np.testing.assert_allclose(means.T @ means / len(means), np.eye(4), atol=1e-4)
  by_law = plain.weighed()
  assert not np.allclose(
    by_law.encode(documents).dense, weighed.encode(documents).dense
  )
  with pytest.raises(
    representations.VectorsError, match='7 documents .* twice as many'
  ):
    plain.weighed(documents[:7])


def test_directions_in_which_words_do_not_differ_stay_nothing():
  vectors = {
    word: np.float32([number, -number, 3.0])
    for number, word in enumerate([b'one', b'two', b'three', b'four'])
  }
  weighed = np.array(
    list(representations.MeanVectors(vectors, 3).weighed().vectors.values())
  )
  assert np.isfinite(weighed).all()
  # All that differs is one number, and half of its length is in each of two coordinates.
  np.testing.assert_allclose(weighed[:, 0], -weighed[:, 1], atol=1e-3)
