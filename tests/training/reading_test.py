"""What is read for tokens that are not in a vocabulary, and how many there are."""

import numpy as np
import pytest

from tff_textpriv.datasets import labelled_batching
from tff_textpriv.text import ragged, tokens
from tff_textpriv.training import reading

_VECTORS = {
  'b': np.array([1, 2], np.float32),
  'c': np.array([3, 4], np.float32),
  'z': np.array([5, 6], np.float32),
}


def _index(*texts):
  index = tokens.TokenIndex(str.split)
  ids = index.encode(texts)
  index.number(tokens.UNKNOWN)
  return index, [ids.row(number) for number in range(ids.num_rows)]


def _vocabulary(words):
  return tokens.Vocabulary(words.split())


def test_examples_are_read_with_a_user_s_vocabulary():
  index, _ = _index('a b', 'c', 'b c c')
  examples = labelled_batching.EncodedExamples(
    ragged.RaggedIds.from_rows([[0, 1], [2], [1, 2, 2]]),
    len(index),
    np.array([2, 0, 1]),
    np.zeros((3, 0), np.float32),
    np.zeros((3, 0), np.float32),
    np.array([0, 1, 0], np.int32),
  )
  own = reading.ByRow(_vocabulary('c b'), index).examples(examples, np.array([0, 1]))
  inputs, labels = own.batch(np.arange(2))
  assert inputs['ids'].tolist() == [[1, 0, 0], [2, 1, 3]]  # 2 is unknown, 3 padding.
  assert labels.tolist() == [0, 1]
  assert 'vectors' not in inputs


def test_a_word_without_a_row_is_read_by_its_public_vector():
  index, texts = _index('a b d a', 'c b', 'a')
  reader = reading.ByVector(_vocabulary('a b'), index, _VECTORS, 2)
  read = reader.read(texts)
  # Rows of the table are those of a, b and the unknown word; what follows are vectors.
  assert [row.tolist() for row in read.rows] == [[0, 1, 2, 0], [3, 1], [0]]
  np.testing.assert_array_equal(read.vectors[0], _VECTORS['c'])
  # A word that has a row is not read by its vector, and z is in none of the texts.
  assert len(read.vectors) == 2 and not read.vectors[1].any()


def test_texts_that_need_no_vector_come_with_one_that_nobody_reads():
  index, texts = _index('a b')
  read = reading.ByVector(_vocabulary('a b'), index, _VECTORS, 2).read(texts)
  assert read.rows[0].tolist() == [0, 1]
  assert read.vectors.shape == (1, 2)


def test_batches_carry_the_vectors_that_their_ids_stand_for():
  index, texts = _index('a d b', 'c b c')
  examples = labelled_batching.EncodedExamples(
    ragged.RaggedIds.from_rows(texts),
    len(index),
    np.arange(2),
    np.zeros((2, 0), np.float32),
    np.zeros((2, 0), np.float32),
    np.zeros(2, np.int32),
  )
  reader = reading.ByVector(_vocabulary('a'), index, _VECTORS, 2)
  inputs, _ = reader.examples(examples, np.arange(2)).batch(
    np.arange(2), shape=(3, 4), dropout_seed=None
  )
  table = np.concatenate([np.array([[7, 7], [8, 8]], np.float32), inputs['vectors']])
  assert table[inputs['ids'][1, :3]].tolist() == [[3, 4], [1, 2], [3, 4]]
  assert table[inputs['ids'][0, :3]].tolist() == [[7, 7], [8, 8], [1, 2]]
  # Padding is no row of either.
  assert inputs['ids'][2].tolist() == [len(table)] * 4


def test_a_word_of_missing_pieces_is_split_into_pieces_that_a_user_has():
  index, texts = _index(
    '[CLS] play ##ing un ##known [SEP]', '[CLS] play [SEP]', '[CLS] [UNK] [SEP]'
  )
  own = _vocabulary('[CLS] [SEP] pl ##ay ##i ##ng play un ##kn')
  for piece in own.tokens:
    index.number(piece)
  rows = [row.tolist() for row in reading.ByPiece(own, index, 16).read(texts).rows]
  names = [*own.tokens, '?']
  assert [' '.join(names[row] for row in text) for text in rows] == [
    # No pieces of the user make `unknown`.
    '[CLS] play ##i ##ng ? [SEP]',
    '[CLS] play [SEP]',
    '[CLS] ? [SEP]',
  ]


def test_a_text_that_grows_is_cut_before_the_mark_of_its_end():
  index, texts = _index('[CLS] play play [SEP]')
  own = _vocabulary('[CLS] [SEP] p ##l ##a ##y')
  for piece in own.tokens:
    index.number(piece)
  (rows,) = reading.ByPiece(own, index, 6).read(texts).rows
  assert rows.tolist() == [0, 2, 3, 4, 5, 1]


def test_unknown_words_are_counted_before_and_after_what_is_read_for_them():
  index, texts = _index('a b c d', 'd d a a')
  by_row = reading.ByRow(_vocabulary('a'), index).shares(texts)
  assert by_row == (5 / 8, 5 / 8)
  by_vector = reading.ByVector(_vocabulary('a'), index, _VECTORS, 2).shares(texts)
  assert by_vector == (5 / 8, 3 / 8)  # Only d has no vector.
  assert reading.ByRow(_vocabulary('a'), index).shares([texts[0][:0]]) == (0, 0)


def _batch(ids):
  return ({'ids': np.array(ids, np.int32)}, np.zeros(len(ids), np.int32))


def _dropped(share, rng, ids):
  index, _ = _index('[CLS] a b [SEP]')
  reader = reading.ByRow(_vocabulary('[CLS] a b [SEP]'), index)
  batches = reading.with_dropped_words([_batch(ids)], share, reader, 5, rng)
  return batches[0][0]['ids']


def test_dropped_words_are_the_unknown_one_and_marks_and_padding_stay():
  ids = [[0, 1, 2, 1, 3], [0, 2, 3, 5, 5]]
  found = _dropped(0.999999, np.random.default_rng(0), ids)
  assert found.tolist() == [[0, 4, 4, 4, 3], [0, 4, 3, 5, 5]]
  assert found.dtype == np.int32


@pytest.mark.parametrize('share', [0.1, 0.5])
def test_the_share_of_dropped_words_is_the_one_that_was_asked_for(share):
  number = 40_000
  rng = np.random.default_rng(1)
  found = _dropped(share, rng, np.ones((200, number // 200), int))
  deviation = np.sqrt(share * (1 - share) / number)

  def is_right(measured):
    return abs(measured - share) < 5 * deviation

  assert is_right(np.mean(found == 4))
  # Words that have to be drawn twice would be caught.
  assert not is_right(np.mean(np.all(rng.random((2, number)) < share, axis=0)))
