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


def test_the_most_frequent_words_of_a_corpus_keep_their_vectors():
  vectors = {
    word: np.float32([number]) for number, word in enumerate([b'a', b'b', b'c'])
  }
  read = representations.MeanVectors(vectors, 1)
  kept = representations.most_frequent(read, ['c d c', 'd d a', 'b'], 2)
  # The most frequent word of all has no vector.
  assert kept.vectors == {b'c': np.float32([2])}
  np.testing.assert_array_equal(kept.encode(['a c', 'a b']).dense, [[2], [0]])
