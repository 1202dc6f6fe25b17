import numpy as np
import pytest

from tff_textpriv.datasets import embedded
from tff_textpriv.text import remap, subword


@pytest.fixture(scope='module')
def corpora():
  data = embedded.build(0, num_train_users=100, num_public_lines=3000)
  private = [text for user in data.train.client_ids for text in data.train.read(user)]
  return list(data.public_text), private


@pytest.fixture(scope='module')
def old(corpora):
  return subword.train(corpora[0], 1000)


@pytest.fixture(scope='module')
def new(corpora):
  return subword.train(corpora[1], 1200)


def test_a_tokenizer_mapped_onto_itself_gives_the_identity(old, new):
  for tokenizer in (old, new):
    matrix = remap.remap_matrix(tokenizer, tokenizer)
    np.testing.assert_array_equal(matrix.toarray(), np.eye(tokenizer.size))


def test_pieces_encode_to_themselves_without_a_look_at_the_vocabulary(old):
  """The identity does not hang on the shortcut for tokens that both know."""
  first_piece = 4 + 256
  for piece_id in range(first_piece, old.size):
    assert old.encode_piece(old.pieces[piece_id]) == [piece_id]


def test_rows_sum_to_one_and_no_token_is_unknown(old, new):
  matrix = remap.remap_matrix(new, old)
  assert matrix.shape == (1200, 1000)
  np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-6)
  assert matrix[:, 1].sum() == 1  # Only the unknown token itself.


def test_a_piece_that_occurs_twice_counts_twice(old):
  class _Repeated:
    size = 1
    pieces = [old.pieces[300].strip(subword.WORD_START) * 2 + old.pieces[301]]

  parts = old.encode_piece(_Repeated.pieces[0])
  matrix = remap.remap_matrix(_Repeated(), old)
  for part in set(parts):
    assert matrix[0, part] == pytest.approx(parts.count(part) / len(parts))


def test_a_word_start_and_the_inside_of_a_word_are_told_apart(old):
  for text in ('inging', 'ably'):
    inside = [old.pieces[i] for i in old.encode_piece(text)]
    start = [old.pieces[i] for i in old.encode_piece(subword.WORD_START + text)]
    assert not inside[0].startswith(subword.WORD_START)
    assert start[0].startswith(subword.WORD_START)
    assert ''.join(inside) == text and ''.join(start) == subword.WORD_START + text


def test_all_slices_per_token_are_remapped_and_the_rest_stays(old, new):
  matrix = remap.remap_matrix(new, old)
  rng = np.random.default_rng(0)
  weights = [rng.normal(size=s) for s in [(1000, 3), (3, 12), (3, 1000), (1000,)]]
  remapped = remap.remap_weights(weights, {0: 0, 2: 1, 3: 0}, matrix)
  dense = matrix.toarray()
  np.testing.assert_allclose(remapped[0], dense @ weights[0])
  assert remapped[1] is weights[1]
  np.testing.assert_allclose(remapped[2], weights[2] @ dense.T)
  np.testing.assert_allclose(remapped[3], dense @ weights[3])


def test_new_pieces_are_those_that_the_old_vocabulary_lacks(old, new):
  pieces = remap.new_pieces(new, old, 50)
  assert len(pieces) == 50
  assert not set(pieces) & set(old.pieces)
  assert remap.new_pieces(new, new, 50) == []
