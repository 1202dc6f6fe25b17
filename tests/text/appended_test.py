"""Vocabularies that grow: old ids stay, and new pieces are reached."""

import numpy as np
import pytest

from tff_textpriv.datasets import embedded
from tff_textpriv.text import appended, merges, remap, subword, tokenizers
from tff_textpriv.text.normalize import normalize


@pytest.fixture(scope='module')
def data():
  return embedded.build(0, num_train_users=60, num_public_lines=2000)


@pytest.fixture(scope='module')
def texts(data):
  return [text for user in data.train.client_ids for text in data.train.read(user)]


@pytest.fixture(scope='module')
def old(data):
  return subword.train(data.public_text, 700)


@pytest.fixture(scope='module')
def sampled(texts):
  return subword.train(texts, 700)


@pytest.fixture(scope='module')
def grown(old, sampled):
  return appended.append(old, sampled, 120)


def test_old_ids_stay_and_at_most_so_many_pieces_are_appended(old, sampled, grown):
  pieces = grown.tokenizer.pieces
  assert pieces[: old.size] == old.pieces
  assert grown.num_wanted + grown.num_between == len(pieces) - old.size
  assert 100 < len(pieces) - old.size <= 120
  wanted = set(sampled.pieces) - set(old.pieces)
  assert len(set(pieces[old.size :]) & wanted) == grown.num_wanted
  # The first ones of the sample's tokenizer come first.
  first = remap.new_pieces(sampled, old, 3)
  assert [piece for piece in pieces[old.size :] if piece in first] == first


def test_every_appended_piece_is_reached_by_merges(old, grown):
  assert grown.num_reached == grown.tokenizer.size - old.size
  for number in range(old.size, grown.tokenizer.size):
    assert grown.tokenizer.encode_piece(grown.tokenizer.pieces[number]) == [number]


def test_pieces_between_are_appended_where_two_joins_are_needed(old):
  class _Sampled:
    pieces = ['', '', '', '', 'qzjx\u05d0kvw']
    size = 5

  assert len(old.encode_piece('qzjx\u05d0kvw')) > 3
  made = appended.append(old, _Sampled(), 20)
  assert (made.num_wanted, made.num_reached) == (1, 1 + made.num_between)
  assert made.num_between >= 2 and '\u05d0' in made.tokenizer.pieces
  (ids,) = made.tokenizer.encode(['aqzjx\u05d0kvw'])
  assert made.tokenizer.pieces.index('qzjx\u05d0kvw') in ids
  # Where it does not fit with all that stands between, nothing of it is appended.
  assert appended.append(old, _Sampled(), 3).tokenizer.pieces == old.pieces


def test_texts_become_the_old_tokens_or_joins_of_them(old, grown, texts):
  shorter = 0
  for text in [*texts[:300], 'plain ünïcode 日本 \U0001f600', 'zzz qqq jjj']:
    text = normalize(text)
    (before,), (after,) = old.encode([text]), grown.tokenizer.encode([text])
    assert after.max() < grown.tokenizer.size
    assert grown.tokenizer.decode(after) == old.decode(before) == text
    ends = [
      np.cumsum([len(subword.piece_bytes(t.pieces[i])) for i in ids[1:-1]])
      for t, ids in ((old, before), (grown.tokenizer, after))
    ]
    assert set(ends[1]) <= set(ends[0])
    shorter += len(after) < len(before)
  assert shorter > 100


def test_the_remap_is_the_identity_on_old_ids(old, grown):
  matrix = remap.remap_matrix(grown.tokenizer, old)
  assert matrix.shape == (grown.tokenizer.size, old.size)
  np.testing.assert_array_equal(matrix[: old.size].toarray(), np.eye(old.size))
  np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-6)


def test_a_grown_tokenizer_survives_its_bytes_and_grows_again(grown, sampled):
  again = appended.append(
    subword.SubwordTokenizer(grown.tokenizer.to_bytes()), sampled, 30
  )
  size = grown.tokenizer.size
  assert again.tokenizer.pieces[:size] == grown.tokenizer.pieces
  assert size < again.tokenizer.size <= size + 30


def test_our_segmentation_is_sentencepiece_s(old, sampled, texts):
  scores = merges.scores(old)
  words = {word for text in texts for word in text.split()}
  for word in sorted(words)[:500]:
    marked = subword.WORD_START + word
    ids = old.encode_piece(marked)
    if all(i >= tokenizers.NUM_CONTROL_IDS + subword.NUM_BYTES for i in ids):
      assert merges.segment(marked, scores) == [old.pieces[i] for i in ids]


def test_models_of_another_kind_are_refused(old):
  model = merges.read(old)
  model.trainer_spec.model_type = model.trainer_spec.UNIGRAM
  unigram = subword.SubwordTokenizer(model.SerializeToString())
  with pytest.raises(tokenizers.TokenizerError, match='not BPE'):
    appended.append(unigram, old, 5)
  model = merges.read(old)
  model.pieces[400].type = 4
  with pytest.raises(tokenizers.TokenizerError, match='user-defined'):
    merges.scores(subword.SubwordTokenizer(model.SerializeToString()))
