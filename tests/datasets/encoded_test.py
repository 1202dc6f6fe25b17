import stat

import numpy as np
import pytest

from tff_textpriv.datasets import batching, clients, encoded
from tff_textpriv.text import subword, tokenizers, words


class _Letters(tokenizers.Tokenizer):
  """One token a letter, of which the capitals begin words; counts how often it is asked."""

  kind = 'bpe'
  size = 200
  starts_word = np.array([chr(i).isupper() for i in range(200)])
  fingerprint = 'letters'

  def __init__(self):
    self.calls = 0

  def encode(self, texts):
    self.calls += 1
    return [tokenizers.surround([ord(c) for c in text]) for text in texts]

  def decode(self, ids):
    return ''.join(chr(i) for i in ids if i >= tokenizers.NUM_CONTROL_IDS)

  def to_bytes(self):
    return b''


_TEXTS = clients.InMemoryClientText({'ann': ['abc', 'de'], 'bob': []})
_WORDS = clients.InMemoryClientText({'ann': ['AbcDeF', 'Gh', 'IJkl']})


def test_the_cache_gives_the_same_posts_without_encoding_again(tmp_path):
  first, second = _Letters(), _Letters()
  fresh = encoded.EncodedClients(_TEXTS, first, cache_dir=tmp_path)
  cached = encoded.EncodedClients(_TEXTS, second, cache_dir=tmp_path)
  for client in ('ann', 'bob'):
    for ours, theirs in zip(fresh.posts(client), cached.posts(client), strict=True):
      np.testing.assert_array_equal(ours, theirs)
  assert [cached.posts('ann')[1].tolist(), cached.posts('bob')] == [
    [2, 100, 101, 3],
    [],
  ]
  assert first.calls == 2 and second.calls == 0


def test_the_cache_is_private_and_depends_on_the_limit(tmp_path):
  for limit in (None, 100):
    clients_ = encoded.EncodedClients(
      _TEXTS, _Letters(), max_words_per_user=limit, cache_dir=tmp_path
    )
    clients_.posts('ann')
  files = list(tmp_path.iterdir())
  assert len(files) == 2
  assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)


def test_a_damaged_cache_is_made_again(tmp_path):
  encoded.EncodedClients(_TEXTS, _Letters(), cache_dir=tmp_path).posts('ann')
  (file,) = tmp_path.iterdir()
  file.write_bytes(b'garbage' * 1000)
  again = encoded.EncodedClients(_TEXTS, _Letters(), cache_dir=tmp_path)
  assert len(again.posts('ann')) == 2


@pytest.mark.parametrize(
  ('limit', 'texts'),
  [
    (None, ['AbcDeF.', 'Gh.', 'IJkl.']),
    (6, ['AbcDeF.', 'Gh.', 'IJkl.']),
    (5, ['AbcDeF.', 'Gh.', 'I']),
    (4, ['AbcDeF.', 'Gh.']),
    (3, ['AbcDeF.']),
    (2, ['AbcDe']),
    (1, ['Abc']),
  ],
)
def test_a_users_text_is_cut_off_after_whole_words(limit, texts):
  posts = encoded.EncodedClients(_WORDS, _Letters(), max_words_per_user=limit)
  found = [
    _Letters().decode(post) + '.' * (post[-1] == tokenizers.EOS_ID)
    for post in posts.posts('ann')
  ]
  assert found == texts


def test_tokenizers_with_long_and_short_encodings_get_the_same_words():
  rng = np.random.default_rng(0)
  vocabulary = ['a', 'bb', 'ccc', 'dddd', 'epsilon']
  texts = [' '.join(rng.choice(vocabulary, rng.integers(1, 30))) for _ in range(40)]
  users = clients.InMemoryClientText({'ann': texts})
  found = []
  for tokenizer in (words.train(texts, 9), subword.train(texts, 290)):
    posts = encoded.EncodedClients(users, tokenizer, max_words_per_user=333).posts(
      'ann'
    )
    cut = batching.WindowRule(7, tokenizer.starts_word).cut(posts)
    # A window starts with the last token of the one before, which it does not predict.
    found.append([tokenizer.decode(window[1:].tolist()).split() for window in cut])
  assert found[0] == found[1]
  assert sum(map(len, found[0])) == 333 and max(map(len, found[0])) == 7


def _some_posts(rng):
  """Posts of ids whose upper half begins words; a few of them are enormous words."""
  posts = [rng.integers(4, 20, rng.integers(1, 60)) for _ in range(50)]
  posts += [np.full(100, 5), np.concatenate([[15], np.full(57, 5), [15, 5, 15]])]
  return [tokenizers.surround(post) for post in posts]


_STARTS = np.arange(20) >= 12


def test_windows_predict_every_token_but_the_first_exactly_once():
  posts = _some_posts(np.random.default_rng(0))
  rule = batching.WindowRule(3, _STARTS)
  cut = rule.cut(posts)
  assert rule.longest == 12 == max(map(len, cut)) - 1 and min(map(len, cut)) >= 2
  assert max(_STARTS[window[1:]].sum() for window in cut) == 3
  predicted = np.concatenate([window[1:] for window in cut])
  np.testing.assert_array_equal(predicted, np.concatenate([post[1:] for post in posts]))


def test_where_every_token_is_a_word_a_window_has_room_for_words_and_the_end():
  rule = batching.WindowRule(3, np.arange(20) >= tokenizers.NUM_CONTROL_IDS)
  assert rule.longest == 4
  cut = rule.cut([tokenizers.surround([5, 6, 7]), tokenizers.surround([5, 6, 7, 8])])
  assert [len(window) - 1 for window in cut] == [4, 3, 2]


def test_sliding_windows_score_every_token_once_with_half_a_window_before_it():
  posts = _some_posts(np.random.default_rng(1))
  rule = batching.WindowRule(6, _STARTS)
  num_slid = 0
  for post in posts:
    windows = rule.slide(post)
    scored = np.concatenate([window[1 + known :] for window, known in windows])
    np.testing.assert_array_equal(scored, post[1:])
    assert max(len(window) - 1 for window, _ in windows) <= rule.longest
    assert windows[0][1] == 0
    for window, known in windows[1:]:
      # Three words, or a quarter of the tokens that a window may have.
      assert _STARTS[window[1 : 1 + known]].sum() == 3 or known >= rule.longest // 4
      num_slid += 1
  assert num_slid > 50
  assert rule.slide(np.array([tokenizers.BOS_ID])) == []


def test_an_epoch_of_batches_holds_every_example_once():
  posts = [np.array([2, 10 + i, 3], np.int32) for i in range(21)]
  batches = batching.training_batches(
    posts,
    batch_size=8,
    num_epochs=2,
    rng=np.random.default_rng(0),
  )
  # One shape for all, and no batch of what full ones leave over (8, 8, 5).
  assert {inputs.shape for inputs, _ in batches} == {(7, 2)}
  rows = [[row for row in targets[:, 0].tolist() if row] for _, targets in batches]
  assert [len(batch) for batch in rows] == [7, 7, 7, 7, 7, 7]
  epochs = [sum(rows[:3], []), sum(rows[3:], [])]
  assert sorted(epochs[0]) == sorted(epochs[1]) == [10 + i for i in range(21)]
  assert epochs[0] != epochs[1]


@pytest.mark.parametrize(
  ('rows', 'most', 'sizes'),
  [
    (0, 4, []),
    (1, 4, [1]),
    (4, 4, [4]),
    (5, 4, [3, 2]),
    (17, 16, [9, 8]),
    (33, 16, [11, 11, 11]),
  ],
)
def test_rows_are_dealt_to_few_batches_of_nearly_the_same_size(rows, most, sizes):
  order = np.random.default_rng(0).permutation(rows)
  parts = batching.dealt_evenly(order, most)
  assert list(map(len, parts)) == sizes
  assert np.array_equal(np.concatenate([[], *parts]), order)


def test_evaluation_batches_cover_all_examples():
  examples = [np.arange(n, dtype=np.int32) for n in (5, 2, 9, 3, 3)]
  seen = [
    p for positions, _ in batching.evaluation_batches(examples, 2) for p in positions
  ]
  assert sorted(seen) == [0, 1, 2, 3, 4]
