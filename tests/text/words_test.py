import numpy as np
import pytest

from tff_textpriv.text import loading, subword, tokenizers, words

_TEXTS = ['the cat saw the dog', 'the dog ran', 'a bird saw a cat', 'Zürich zzz']


@pytest.fixture
def tokenizer():
  return words.train(_TEXTS, 8)


def test_the_most_frequent_words_get_ids_and_ties_go_by_the_alphabet(tokenizer):
  # the 3; a, cat, dog, saw 2 each; the rest once.
  assert tokenizer.pieces[4:] == ['the', 'a', 'cat', 'dog']
  assert tokenizer.size == 8
  assert words.train(reversed(_TEXTS), 8).fingerprint == tokenizer.fingerprint
  assert words.train(_TEXTS, 9).fingerprint != tokenizer.fingerprint


def test_words_beyond_the_vocabulary_are_unknown_but_still_words(tokenizer):
  (ids,) = tokenizer.encode(['the cat ran off'])
  assert ids.dtype == np.int32
  assert ids.tolist() == [
    tokenizers.BOS_ID, 4, 6, tokenizers.UNKNOWN_ID, tokenizers.UNKNOWN_ID,
    tokenizers.EOS_ID,
  ]  # fmt: skip
  assert tokenizer.starts_word[ids].tolist() == [False, True, True, True, True, False]
  assert tokenizer.decode(ids) == 'the cat'


@pytest.mark.parametrize('text', ['', 'one two', 'odd \u2581 mark\u2581here', '日本 é'])
def test_both_kinds_of_tokenizer_count_the_same_words(tokenizer, text):
  pieces = subword.train(_TEXTS * 20, 290)
  counts = {
    int(kind.starts_word[kind.encode([text])[0]].sum()) for kind in (tokenizer, pieces)
  }
  assert len(counts) == 1


def test_a_full_vocabulary_makes_encoding_reversible():
  tokenizer = words.train(_TEXTS, 4 + 9)
  for text, ids in zip(_TEXTS, tokenizer.encode(_TEXTS), strict=True):
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize('kind', ['word', 'bpe'])
def test_a_file_of_either_kind_is_read_back(tokenizer, kind, tmp_path):
  written = tokenizer if kind == 'word' else subword.train(_TEXTS * 20, 290)
  (tmp_path / '0.model').write_bytes(written.to_bytes())
  restored = loading.read(tmp_path / '0.model')
  assert type(restored) is type(written) and restored.kind == kind
  assert restored.pieces == written.pieces
  assert restored.fingerprint == written.fingerprint


@pytest.mark.parametrize(
  ('data', 'message'),
  [
    (b'', 'not a word tokenizer: expected'),
    (b'the\ncat\n', 'not a word tokenizer: expected'),
    (words.HEADER, 'truncated'),
    (words.HEADER + b'the\nca', 'truncated'),
    (words.HEADER + b'caf\xe9\n', 'not in UTF-8'),
    (words.HEADER + b'two words\n', "'two words' in a vocabulary is not one word"),
    (words.HEADER + b'the\n\ncat\n', "'' in a vocabulary is not one word"),
    (words.HEADER + 'a\u2581b\n'.encode(), 'is not one word'),
    (words.HEADER + b'the\ncat\nthe\n', 'each of them once'),
  ],
)
def test_a_damaged_or_foreign_file_is_refused(data, message):
  with pytest.raises(tokenizers.TokenizerError, match=message):
    words.from_bytes(data)


def test_a_file_of_neither_kind_is_refused_by_name(tmp_path):
  file = tmp_path / '0.model'
  for content in (b'', b'a word\n', b'\x80\x04pickled'):
    file.write_bytes(content)
    with pytest.raises(tokenizers.TokenizerError, match='0.model: not a SentencePiece'):
      loading.read(file)
  with pytest.raises(tokenizers.TokenizerError, match='1.model: .*No such file'):
    loading.read(tmp_path / '1.model')


@pytest.mark.parametrize(
  ('lines', 'vocab_size', 'message'),
  [
    (_TEXTS, 14, r'--vocab_size=14: the text \(15 words\) supports at most 13 ids'),
    ([], 10, 'there is no text'),
    (['', ' '], 10, 'there is no text'),
    (_TEXTS, 4, 'needs more than 4 ids'),
  ],
)
def test_impossible_vocabularies_are_refused(lines, vocab_size, message):
  with pytest.raises(tokenizers.TokenizerError, match=message):
    words.train(lines, vocab_size)


def test_the_unknown_word_of_a_corpus_is_unknown_and_no_word_of_the_vocabulary():
  texts = ['the <unk> of the <unk>', 'the rest']
  tokenizer = words.train(texts, 7)
  assert tokenizer.pieces[4:] == ['the', 'of', 'rest']
  (ids,) = tokenizer.encode(['the <unk> of nowhere'])
  assert ids.tolist()[1:-1] == [4, 1, 5, 1]
