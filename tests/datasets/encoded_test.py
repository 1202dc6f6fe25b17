import stat

import numpy as np
import pytest

from tff_textpriv.datasets import batching, clients, encoded
from tff_textpriv.text import tokenizers


class _Letters(tokenizers.Tokenizer):
  """One token a letter; counts how often it is asked."""

  kind = 'bpe'
  size = 200
  starts_word = np.zeros(200, bool)
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
      _TEXTS, _Letters(), max_tokens_per_user=limit, cache_dir=tmp_path
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
  ('limit', 'lengths'), [(None, [5, 4]), (9, [5, 4]), (7, [5, 2]), (6, [5]), (3, [3])]
)
def test_a_users_text_is_cut_off_at_the_limit(limit, lengths):
  posts = encoded.EncodedClients(_TEXTS, _Letters(), max_tokens_per_user=limit)
  assert [len(post) for post in posts.posts('ann')] == lengths


def test_windows_predict_every_token_but_the_first_exactly_once():
  rng = np.random.default_rng(0)
  posts = [np.arange(length, dtype=np.int32) for length in rng.integers(2, 40, 50)]
  cut = batching.windows(posts, max_length=7)
  assert max(map(len, cut)) == 8 and min(map(len, cut)) >= 2
  predicted = np.concatenate([window[1:] for window in cut])
  np.testing.assert_array_equal(predicted, np.concatenate([post[1:] for post in posts]))


def test_an_epoch_of_batches_holds_every_example_once():
  posts = [np.array([2, 10 + i, 3], np.int32) for i in range(21)]
  batches = batching.training_batches(
    posts,
    batch_size=8,
    num_epochs=2,
    max_length=10,
    rng=np.random.default_rng(0),
  )
  # One shape for all; the last batch of an epoch ends in three empty rows.
  assert {inputs.shape for inputs, _ in batches} == {(8, 2)}
  rows = [[row for row in targets[:, 0].tolist() if row] for _, targets in batches]
  assert [len(batch) for batch in rows] == [8, 8, 5, 8, 8, 5]
  epochs = [sum(rows[:3], []), sum(rows[3:], [])]
  assert sorted(epochs[0]) == sorted(epochs[1]) == [10 + i for i in range(21)]
  assert epochs[0] != epochs[1]


def test_evaluation_batches_cover_all_examples():
  examples = [np.arange(n, dtype=np.int32) for n in (5, 2, 9, 3, 3)]
  seen = [
    p for positions, _ in batching.evaluation_batches(examples, 2) for p in positions
  ]
  assert sorted(seen) == [0, 1, 2, 3, 4]
