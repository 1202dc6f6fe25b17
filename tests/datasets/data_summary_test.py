"""What is said of the data before training."""

import numpy as np
import pytest

from tff_textpriv.datasets import client_sqlite, data_summary, own_text


def test_the_distance_of_users_from_the_whole_is_that_of_the_formula():
  # User 4 has 0, 0, 1; user 9 has 1, 2: the whole is 2/5, 2/5, 1/5.
  owners = np.array([4, 4, 9, 4, 9])
  values = np.array([0, 0, 1, 1, 2])
  first = (abs(2 / 3 - 2 / 5) + abs(1 / 3 - 2 / 5) + 1 / 5) / 2
  second = (2 / 5 + abs(1 / 2 - 2 / 5) + abs(1 / 2 - 1 / 5)) / 2
  found = data_summary.heterogeneity(owners, values, 0)
  assert found.distance == pytest.approx((first + second) / 2)


def test_users_of_one_class_each_are_far_from_chance():
  owners = np.repeat(np.arange(10), 100)
  found = data_summary.heterogeneity(owners, owners % 2, 0)
  assert found.distance == pytest.approx(0.5)
  # The share of one of two classes among 100: 0.04 is its mean absolute deviation.
  assert 0.02 < found.chance < 0.06


def test_small_users_differ_from_the_whole_by_chance_alone():
  rng = np.random.default_rng(0)
  owners, values = np.arange(400) // 2, rng.integers(4, size=400)
  found = data_summary.heterogeneity(owners, values, 0)
  assert found.distance == pytest.approx(found.chance, abs=0.05)
  assert found.distance > 0.5


@pytest.fixture
def path(tmp_path):
  file = str(tmp_path / 'converted.sqlite')
  with client_sqlite.create(file) as writer:
    for n in range(30):
      for k in range(1 + 9 * (n == 0)):
        writer.add('all', f'user{n}', f'one two {k}', 'abc'[n % 3])
    writer.note(
      {
        'rows': 45,
        'broken': 2,
        'empty': 4,
        'words': 117,
        'first_broken': ['a.csv:3: b'],
      }
    )
  return file


def test_a_summary_says_all_there_is_in_a_few_lines(path):
  data = own_text.open_groups(path, 'mine.csv', 0)
  examples = own_text.read_labelled(path, data)
  lines = data_summary.describe(path, data, examples, max_texts=4, seed=0)
  assert lines[:5] == [
    'mine.csv: 45 rows',
    '  users     30: 24 train, 2 validation, 4 test; nobody is in two groups',
    '  texts     39; of a user 1 (median), at most 10',
    '  words     117; of a text 3.0 (mean)',
    '  limit     4 texts a user: 33 of 39 are used',
  ]
  assert lines[5] == '  labels    3: a 49%, b 26%, c 26%'
  assert lines[6].startswith('  non-IID   0.6') and 'users’ labels from all' in lines[6]
  assert lines[7:] == [
    '  left out  2 broken rows (4.44%), 4 without text',
    '    a.csv:3: b',
  ]


def test_without_labels_users_are_compared_by_their_words(path):
  data = own_text.open_groups(path, 'mine.csv', 0)
  lines = data_summary.describe(path, data, None, max_texts=None, seed=0)
  assert not any('labels' in line or 'limit' in line for line in lines)
  assert any('distance of users’ words from all users’' in line for line in lines)
