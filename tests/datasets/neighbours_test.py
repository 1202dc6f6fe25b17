"""Neighbours stay neighbours: where one user is removed, nobody else moves.

A promise about one user's data compares two data sets that differ in that user. It says
nothing if the others are dealt anew.
"""

import csv
import dataclasses

import numpy as np
import pytest

from tff_textpriv import randomness
from tff_textpriv.datasets import imdb, labelled, lm_text, movielens, partition, splits
from tff_textpriv.datasets.clients import FederatedText, InMemoryClientText
from tff_textpriv.iterative_processes import algorithm
from tff_textpriv.training import classifier_workbench, phases

_USERS = [f'user {i}' for i in range(60)]
_STREAM = randomness.Stream.of_seed(4)


def _labels(users):
  return np.array([int(user.split()[1]) % 3 for user in users])


def _places(parts):
  """Returns where each user is, given the groups, of names or lists of users."""
  named = parts.items() if isinstance(parts, dict) else enumerate(parts)
  return {user: name for name, users in named for user in users}


def _of_rows(users, parts):
  return {name: [users[row] for row in rows] for name, rows in parts.items()}


def _texts_of(examples):
  return [examples.texts[number] for number in examples.text_of]


def _halves(users):
  return [
    phases.members(users, half, _STREAM)
    for half in (algorithm.FIRST_HALF, algorithm.SECOND_HALF)
  ]


def _shards(users):
  return _of_rows(users, partition.shards(users, 7, seed=4))


def _dirichlet(users):
  parts = partition.dirichlet(users, _labels(users), 7, 1.0, seed=4)
  return _of_rows(users, parts)


def _dealt_text(users):
  text = InMemoryClientText({'all': users})
  data = FederatedText(
    'x', text, InMemoryClientText({'v': ['v']}), InMemoryClientText({'t': ['t']})
  )
  dealt = lm_text.deal(data, 7, seed=4).train
  return {client: dealt.read(client) for client in dealt.client_ids}


def _held_out(users):
  examples = labelled.Examples.of_texts(users, _labels(users))
  return [_texts_of(part) for part in labelled.hold_out(examples, seed=4)]


def _held_out_by_user(users):
  """Two examples each; the user decides."""
  twice = [f'{user}, {which}' for user in users for which in 'ab']
  examples = labelled.Examples.of_texts(twice, np.repeat(_labels(users), 2))
  examples = dataclasses.replace(examples, users=np.repeat(users, 2))
  groups = [_texts_of(part) for part in labelled.hold_out(examples, seed=4)]
  whose = [{text.split(',')[0] for text in group} for group in groups]
  assert not whose[0] & whose[1]
  return whose


def _ratings(users):
  numbers = np.array([int(user.split()[1]) for user in users])
  size = len(users)
  data = movielens.split(
    'x',
    movielens.Ratings(
      np.zeros((size, 23), np.float32),
      np.zeros((1, 19), np.float32),
      ['film'],
      numbers,
      np.arange(size),
      np.zeros(size, int),
      np.full(size, 5),
    ),
    seed=4,
  )
  groups = (data.train, data.validation, data.test)
  return [[f'user {number}' for number in group.users] for group in groups]


_DEALS = {
  'halves': _halves,
  'groups': lambda users: splits.deal_users(users, seed=4),
  'shards': _shards,
  'dirichlet': _dirichlet,
  'dealt text': _dealt_text,
  'held out': _held_out,
  'held out by user': _held_out_by_user,
  'ratings': _ratings,
}


def _somebody_moves(deal):
  """Tells whether anybody but the user who is removed is dealt elsewhere."""
  before = _places(deal(_USERS))
  assert len(set(before.values())) > 1 and before.keys() == set(_USERS)
  for gone in _USERS[::7]:
    after = _places(deal([user for user in _USERS if user != gone]))
    if after != {user: place for user, place in before.items() if user != gone}:
      return True
  return False


@pytest.mark.parametrize('name', _DEALS)
def test_where_a_user_is_removed_nobody_else_moves(name):
  assert not _somebody_moves(_DEALS[name])


def test_dealing_by_position_is_caught():
  def by_position(users):
    order = np.random.default_rng(4).permutation(len(users))
    return [[users[i] for i in part] for part in np.array_split(order, 3)]

  assert _somebody_moves(by_position)


def test_of_reviews_in_a_table_those_that_stay_stay_in_their_halves(tmp_path):
  def halves(users):
    file = tmp_path / 'reviews.csv'
    with open(file, 'w', newline='') as stream:
      writer = csv.writer(stream)
      writer.writerow(['review', 'sentiment'])
      writer.writerows([user, 'positive'] for user in users)
    return [_texts_of(part) for part in imdb._read_csv(file, seed=4)]

  assert not _somebody_moves(halves)


def test_who_is_kept_of_many_is_a_matter_of_each_one_alone():
  """The share that is kept is public, as is the share of users in a cohort."""
  numbers = np.arange(400)
  kept = set(partition.by_user(numbers, 100, seed=4))
  # A quarter of 400, and a quarter of those without every eighth.
  fewer = numbers[numbers % 8 > 0]
  kept_of_fewer = set(partition.by_user(fewer, len(fewer) * 100 / 400, seed=4))
  assert kept_of_fewer == {name for name in kept if int(name.split('_')[1]) % 8}

  texts = [str(number) for number in numbers]
  examples = labelled.Examples.of_texts(texts, numbers % 2)
  kept_texts = _texts_of(classifier_workbench.kept_examples(examples, 100, seed=4))
  rest = examples.take(fewer)
  kept_of_rest = _texts_of(
    classifier_workbench.kept_examples(rest, len(fewer) * 100 / 400, seed=4)
  )
  assert kept_of_rest == [text for text in kept_texts if int(text) % 8]
