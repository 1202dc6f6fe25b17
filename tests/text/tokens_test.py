"""Tokens, vocabularies, word pieces and vector files."""

import numpy as np
import pytest

from tff_textpriv.text import tokens, word_vectors, wordpieces


def test_words_numbers_and_marks_are_tokens():
  assert tokens.split_words("It's 6:49 a.m., $2.5-million in 2004!") == [
    "it's", '6', ':', '49', 'a', '.', 'm', '.', ',', '$', '2.5', '-', 'million', 'in',
    '2004', '!',
  ]  # fmt: skip


@pytest.mark.parametrize(
  ('token', 'is_private'),
  [('2004', True), ('b2b', True), ('##7', True), ('two', False)],
)
def test_tokens_with_digits_are_private(token, is_private):
  assert tokens.has_digit(token) == is_private


def _index(*texts):
  index = tokens.TokenIndex(str.split)
  return index, index.encode(texts)


def test_a_vocabulary_has_a_row_for_each_token_one_for_others_and_none_for_padding():
  index, ids = _index('a b a', 'c')
  lookup = tokens.Vocabulary(['b', 'a']).lookup(index)
  assert lookup[ids.row(0)].tolist() == [1, 0, 1]
  assert lookup[ids.row(1)].tolist() == [2]  # The row of all other tokens.
  assert lookup[-1] == 3  # Padding: beyond the table of three rows.


def test_a_user_s_vocabulary_is_that_of_its_texts_alone():
  index, ids = _index('a b b', 'secret', 'b c')
  vocabulary = tokens.most_frequent(ids, np.array([0, 2]), index)
  assert vocabulary.tokens == ['b', 'a', 'c']
  assert tokens.most_frequent(ids, np.array([0, 2]), index, 1).tokens == ['b']
  beside = tokens.most_frequent(ids, np.array([0]), index, 1, ['z', 'b', '[UNK]'])
  assert beside.tokens == ['b', 'z']


def test_a_vocabulary_survives_its_file():
  vocabulary = tokens.Vocabulary(['ä', '##b', '1.5'])
  assert tokens.Vocabulary.from_bytes(vocabulary.to_bytes()).tokens == vocabulary.tokens


def test_words_are_split_into_the_longest_pieces():
  pieces = ['un', '##aff', '##able', '##a', 'cafe', '!', '[UNK]']
  split = wordpieces.WordPieces(pieces).split
  assert split('Unaffable  Café!') == ['un', '##aff', '##able', 'cafe', '!']
  assert split('unaffx') == ['[UNK]']
  assert split('un' * 60) == ['[UNK]']
  assert wordpieces.WordPieces(pieces, is_cased=True).split('Un un') == ['[UNK]', 'un']


def test_vectors_are_read_for_some_words_and_for_the_first(tmp_path):
  file = tmp_path / 'vectors.txt'
  file.write_text('4 2\nthe 1 0\nof 0 1\nrare 3 4\nother 5 6\n')
  vectors, mean = word_vectors.read_some(file, {'rare', 'absent'}, first=1)
  assert {word: vector.tolist() for word, vector in vectors.items()} == {
    'the': [1, 0],
    'rare': [3, 4],
  }
  # That of all words, not only of those that were asked for.
  np.testing.assert_allclose(mean, [9 / 4, 11 / 4])


@pytest.mark.parametrize(
  ('content', 'message'),
  [
    ('a 1 2\nb 1\n', r':2: 1 numbers where there were 2'),
    ('a 1 x\n', ':1: a number that cannot be read'),
    ('', 'no vector'),
  ],
)
def test_a_broken_vector_file_is_named_with_its_line(tmp_path, content, message):
  file = tmp_path / 'vectors.txt'
  file.write_text(content)
  with pytest.raises(word_vectors.VectorsError, match=message):
    list(word_vectors.read(file))


def test_a_table_is_filled_and_drawn_rows_have_the_vectors_size():
  drawn = np.array([[1, 0], [0, 2], [3, 0]], np.float32)
  filled = word_vectors.fill(drawn, ['a', 'b'], {'b': np.array([6, 8], np.float32)})
  np.testing.assert_allclose(filled, [[10, 0], [6, 8], [10, 0]])


@pytest.mark.parametrize(('folder', 'width'), [('glove', 50), ('glove-100d', 100)])
def test_real_vectors_are_read_whatever_their_width(real_data, folder, width):
  (file,) = (real_data / folder).glob('*.txt')
  word, vector = next(word_vectors.read(file))
  assert (word, vector.shape) == ('the', (width,))
