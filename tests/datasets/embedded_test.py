import collections
import hashlib
import itertools
import pickle
import subprocess
import sys
import time

import numpy as np
import pytest

from tff_textpriv.datasets import clients, embedded
from tff_textpriv.text import subword
from tff_textpriv.text.statistics import coverage, unigram_kl, word_counts

_SEEDS = (0, 1, 2)
_DIGEST_CODE = """
import hashlib
from tff_textpriv.datasets import embedded
data = embedded.build(seed=7)
lines = data.train.read('train_3') + data.test.read('test_0') + data.public_text[:300]
print(hashlib.sha256('\\n'.join(lines).encode()).hexdigest())
"""


def _lines(data):
  return [line for client_id in data.client_ids for line in data.read(client_id)]


def _kl(real, other):
  return unigram_kl(
    word_counts(real),
    word_counts(other),
  )


def _tokens_per_word(training_lines, lines):
  return coverage(subword.train(training_lines, 2_000), lines).tokens_per_word


@pytest.mark.parametrize('seed', _SEEDS)
def test_the_vocabularies_of_the_two_sides_differ_by_a_divergence_of_about_one(seed):
  data = embedded.build(seed)
  train = _lines(data.train)
  assert 0.8 < _kl(train, data.public_text) < 1.3
  # Users differ from each other far less than from the public.
  assert _kl(train, _lines(data.test)) < 0.2


@pytest.mark.parametrize('seed', _SEEDS)
def test_a_public_tokenizer_needs_more_tokens_than_a_private_one(seed):
  data = embedded.build(seed)
  test = _lines(data.test)
  assert 1.6 < _tokens_per_word(data.public_text, test) < 1.9
  assert 1.05 < _tokens_per_word(_lines(data.train), test) < 1.25


@pytest.mark.parametrize('seed', _SEEDS)
def test_word_frequencies_follow_zipfs_law(seed):
  frequencies = np.array(
    [n for _, n in word_counts(_lines(embedded.build(seed).train)).most_common()]
  )
  ranks = np.arange(1, len(frequencies) + 1)
  middle = slice(10, 1_000)
  slope, _ = np.polyfit(np.log(ranks[middle]), np.log(frequencies[middle]), 1)
  assert -1.4 < slope < -0.8


def test_jargon_is_private_but_its_endings_are_public():
  data = embedded.build(seed=0)
  public = word_counts(data.public_text)
  private = word_counts(_lines(data.train))
  frequent_jargon = [w for w, n in private.items() if n >= 20 and w not in public]
  assert len(frequent_jargon) > 50
  for ending in ('s', 'ed', 'ing', 'ness', 'able', 'ly'):
    assert any(word.endswith(ending) for word in frequent_jargon)
    assert any(word.endswith(ending) for word in public)
  assert {'the', 'of', 'and', 'is'} <= set(public) & set(private)


def test_the_previous_words_tell_much_about_the_next():
  """A bigram model's perplexity on other users is far below the unigram one's."""
  data = embedded.build(seed=0, num_train_users=1_000)
  train, test = (
    [['<s>', *line.split()] for line in _lines(part)]
    for part in (data.train, data.test)
  )
  unigrams = collections.Counter(word for line in train for word in line[1:])
  contexts = collections.Counter(word for line in train for word in line[:-1])
  bigrams = collections.Counter(
    pair for line in train for pair in itertools.pairwise(line)
  )
  total = sum(unigrams.values()) + len(unigrams) + 1
  log_unigram, log_bigram = [], []
  for previous, word in (pair for line in test for pair in itertools.pairwise(line)):
    unigram = (unigrams[word] + 1) / total
    log_unigram.append(np.log(unigram))
    # The unigram model is worth 20 observations of the context.
    count = bigrams[previous, word] + 20 * unigram
    log_bigram.append(np.log(count / (contexts[previous] + 20)))
  assert np.exp(-np.mean(log_bigram)) < 0.35 * np.exp(-np.mean(log_unigram))


def test_users_write_ten_to_forty_sentences_of_four_to_twenty_words():
  data = embedded.build(seed=3)
  sizes = [len(data.train.read(client_id)) for client_id in data.train.client_ids]
  assert min(sizes) >= 10 and max(sizes) <= 40 and len(set(sizes)) > 20
  lengths = [len(line.split()) for line in [*_lines(data.train), *data.public_text]]
  assert min(lengths) >= 4 and max(lengths) <= 20


def _topicality(texts):
  """How much more alike two halves of one user's lines are than of two users'."""
  # Words that most users have say nothing of topics; nor do words of one user.
  users_of_word = collections.Counter(w for text in texts for w in word_counts(text))
  words = [word for word, users in users_of_word.items() if 2 <= users <= 100]
  number = {word: i for i, word in enumerate(words)}

  def direction(lines):
    vector = np.zeros(len(number))
    for word, count in word_counts(lines).items():
      if word in number:
        vector[number[word]] = count
    return vector / np.linalg.norm(vector)

  even, odd = (np.stack([direction(text[i::2]) for text in texts]) for i in (0, 1))
  similarity = even @ odd.T
  return np.diag(similarity).mean() / similarity[~np.eye(len(texts), dtype=bool)].mean()


@pytest.mark.parametrize('seed', _SEEDS)
def test_users_write_on_topics_of_their_own(seed):
  data = embedded.build(seed)
  texts = [data.train.read(client_id) for client_id in data.train.client_ids[:200]]
  lines = [line for text in texts for line in text]
  ends = np.cumsum([len(text) for text in texts])[:-1]
  # Users to whom the lines are dealt at random, as many to each as before, have no
  # topics: their spread is what chance and the users' lengths alone would give.
  rng = np.random.default_rng(0)
  *deals, broken = (
    _topicality(np.split(rng.permutation(lines), ends)) for _ in range(11)
  )
  bound = np.mean(deals) + 5 * np.std(deals)
  assert _topicality(texts) > bound
  assert broken < bound


def test_users_have_personal_words():
  data = embedded.build(seed=0)
  texts = [
    word_counts(data.train.read(client_id)) for client_id in data.train.client_ids
  ]
  users_of_word = collections.Counter(word for counts in texts for word in counts)
  own_words = [
    [word for word, n in counts.items() if n >= 2 and users_of_word[word] == 1]
    for counts in texts
  ]
  assert np.mean([bool(words) for words in own_words]) > 0.15


def test_another_process_generates_the_same_text():
  outputs = {
    subprocess.run(
      [sys.executable, '-c', _DIGEST_CODE],
      env={'PYTHONHASHSEED': hash_seed, 'PYTHONPATH': ':'.join(sys.path)},
      capture_output=True,
      text=True,
      check=True,
    ).stdout.strip()
    for hash_seed in ('1', '2')
  }
  data = embedded.build(seed=7)
  lines = data.train.read('train_3') + data.test.read('test_0') + data.public_text[:300]
  assert outputs == {hashlib.sha256('\n'.join(lines).encode()).hexdigest()}


def test_seed_group_and_number_of_a_user_each_change_the_text():
  data = embedded.build(seed=0)
  text = data.train.read('train_1')
  assert data.train.read('train_1') == text
  assert data.train.read('train_2') != text
  assert data.validation.read('validation_1') != text
  assert embedded.build(seed=1).train.read('train_1') != text


def test_more_users_leave_the_others_texts_as_they_were():
  small, large = embedded.build(seed=0), embedded.build(seed=0, num_train_users=5_000)
  assert small.train.read('train_7') == large.train.read('train_7')
  assert small.test.read('test_7') == large.test.read('test_7')
  assert small.train.fingerprint != large.train.fingerprint
  assert small.test.fingerprint == large.test.fingerprint
  assert embedded.build(seed=1).test.fingerprint != small.test.fingerprint


def test_groups_are_disjoint_and_of_the_sizes_asked_for():
  data = embedded.build(
    seed=0, num_train_users=12, num_validation_users=3, num_test_users=4
  )
  data.check_disjoint()
  sizes = [len(part.client_ids) for part in (data.train, data.validation, data.test)]
  assert sizes == [12, 3, 4]


def test_a_million_users_cost_nothing_until_they_are_read():
  start = time.process_time()
  data = embedded.build(seed=0, num_train_users=1_000_000)
  assert data.train.client_ids[-1] == 'train_999999'
  assert len(data.train.read('train_999999')) >= 10
  assert time.process_time() - start < 1.0


def test_generation_is_fast():
  data = embedded.build(seed=0)
  start = time.process_time()
  num_words = sum(len(line.split()) for line in _lines(data.train))
  # An idle core makes two to three times as many.
  assert num_words / (time.process_time() - start) > 100_000


@pytest.mark.parametrize(
  'client_id',
  ['train_300', 'test_0', 'train_-1', 'train_01', 'train_', 'nobody', 'train_²'],
)
def test_an_unknown_user_is_refused(client_id):
  with pytest.raises(clients.UnknownClientError, match='among the 300 users'):
    embedded.build(seed=0).train.read(client_id)


def test_public_text_is_a_sequence():
  text = embedded.build(seed=0, num_public_lines=300).public_text
  lines = list(text)
  assert len(text) == len(lines) == 300
  assert text[0] == lines[0] and text[-1] == text[299] == lines[299]
  assert text[126:130] == lines[126:130]
  assert len(set(lines)) > 290
  with pytest.raises(IndexError):
    text[300]


def test_a_data_set_can_be_sent_to_another_process():
  data = embedded.build(seed=0)
  copy = pickle.loads(pickle.dumps(data))
  assert copy.train.read('train_0') == data.train.read('train_0')
