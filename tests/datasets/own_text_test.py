"""Converted text: groups of users, labels, limits, and how much may be broken."""

import pytest

from tff_textpriv.datasets import client_sqlite, own_text
from tff_textpriv.datasets.clients import DataError

_GROUPS = ('train', 'validation', 'test')


def _write(folder, rows, facts=None):
  """Writes a converted file of (split, user, text, label)."""
  path = str(folder / 'converted.sqlite')
  with client_sqlite.create(path) as writer:
    for row in rows:
      writer.add(*row)
    writer.note(facts or {})
  return path


def _users(number, per_user=2):
  return [
    ('all', f'user{n:02}', f'text {n} {k}', 'ab'[n % 2])
    for k in range(per_user)
    for n in range(number)
  ]


def _all_users(data):
  return [user for group in _GROUPS for user in getattr(data, group).client_ids]


def _sizes(data):
  return [len(getattr(data, group).client_ids) for group in _GROUPS]


def test_users_are_dealt_by_the_seed_in_the_wanted_shares(tmp_path):
  path = _write(tmp_path, _users(400))
  data = own_text.open_groups(path, 'mine', 3, validation_share=0.2, test_share=0.05)
  data.check_disjoint()
  # Each by itself, to 5 standard deviations.
  sizes = _sizes(data)
  assert sum(sizes) == 400
  assert abs(sizes[1] - 80) < 5 * 8 and abs(sizes[2] - 20) < 5 * 4.4
  assert data.name == 'mine'
  again, other = (
    own_text.open_groups(path, 'mine', seed, validation_share=0.2, test_share=0.05)
    for seed in (3, 4)
  )
  assert data.test.client_ids == again.test.client_ids
  assert data.train.client_ids != other.train.client_ids
  user = data.train.client_ids[0]
  number = int(user.removeprefix('user'))
  assert data.train.read(user) == [f'text {number} 0', f'text {number} 1']


def test_a_column_of_splits_decides_who_is_where(tmp_path):
  rows = [(split, f'{split}{n}', 'a') for split in _GROUPS for n in range(2)]
  data = own_text.open_groups(_write(tmp_path, rows), 'mine', 0)
  for group in _GROUPS:
    assert getattr(data, group).client_ids == [f'{group}0', f'{group}1']
    assert getattr(data, group).read(f'{group}0') == ['a']


def test_without_validation_users_some_training_users_take_their_place(tmp_path):
  rows = [('train', f'train{n}', 'a') for n in range(20)] + [('test', 'x', 'a')]
  data = own_text.open_groups(_write(tmp_path, rows), 'mine', 0, validation_share=0.2)
  data.check_disjoint()
  assert _sizes(data) == [16, 4, 1]
  assert data.validation.read(data.validation.client_ids[0]) == ['a']


def test_a_user_of_two_splits_is_noticed(tmp_path):
  rows = [(split, user, 'a') for split in _GROUPS for user in (split, 'ann')]
  data = own_text.open_groups(_write(tmp_path, rows), 'mine', 0)
  with pytest.raises(DataError, match='1 of the users are both train and validation'):
    data.check_disjoint()


@pytest.mark.parametrize(
  ('rows', 'missing'),
  [
    (_users(2), 'validation and test'),
    ([('train', 'ann', 'a'), ('validation', 'bob', 'a')], 'test'),
    ([('test', 'ann', 'a')], 'train and validation'),
  ],
)
def test_a_group_without_users_is_an_error(tmp_path, rows, missing):
  path = _write(tmp_path, rows)
  with pytest.raises(DataError, match=f'users none is left for {missing}; there must'):
    own_text.open_groups(path, 'mine', 0)


def test_the_limit_of_texts_keeps_a_user_s_first_ones(tmp_path):
  path = _write(tmp_path, _users(10, per_user=5))
  data = own_text.open_groups(path, 'mine', 0, max_texts=2)
  whole = own_text.open_groups(path, 'mine', 0)
  user = data.train.client_ids[0]
  assert data.train.read(user) == whole.train.read(user)[:2]
  assert data.train.fingerprint != whole.train.fingerprint
  examples = own_text.read_labelled(path, data, max_texts=2)
  assert len(examples.train) == 2 * len(data.train.client_ids)


def test_labelled_texts_stay_with_their_users_and_groups(tmp_path):
  path = _write(tmp_path, _users(20))
  data = own_text.open_groups(path, 'mine', 0)
  examples = own_text.read_labelled(path, data)
  assert examples.classes == ('a', 'b')
  seen = set()
  for group in _GROUPS:
    found, texts = getattr(examples, group), getattr(data, group)
    assert len(found) == 2 * len(texts.client_ids)
    for text, label, user in zip(found.texts, found.labels, found.users, strict=True):
      name = _all_users(data)[user]
      assert name in texts.client_ids and text in texts.read(name)
      assert examples.classes[label] == 'ab'[int(name.removeprefix('user')) % 2]
    assert not seen & set(found.users)
    seen |= set(found.users)


@pytest.mark.parametrize(
  ('labels', 'classes'),
  [(['10', '9', '2'], ('2', '9', '10')), (['10', '9', 'x'], ('10', '9', 'x'))],
)
def test_classes_are_in_the_order_of_numbers_if_they_are_numbers(
  tmp_path, labels, classes
):
  rows = [('all', f'user{n}', 'text', labels[n % 3]) for n in range(12)]
  path = _write(tmp_path, rows)
  data = own_text.open_groups(path, 'mine', 0)
  assert own_text.read_labelled(path, data).classes == classes


@pytest.mark.parametrize('number', [1, 1001])
def test_too_few_and_too_many_classes_are_refused(tmp_path, number):
  rows = [('all', f'user{n}', 'text', f'class {n % number}') for n in range(2000)]
  path = _write(tmp_path, rows)
  data = own_text.open_groups(path, 'mine', 0)
  with pytest.raises(
    DataError, match=f'--label_column has {number:,} different values'
  ):
    own_text.read_labelled(path, data)


def test_too_many_broken_rows_stop_with_the_first_of_them(tmp_path):
  facts = {'rows': 200, 'broken': 3, 'first_broken': ['a.csv:2: odd', 'a.csv:9: bad']}
  path = _write(tmp_path, _users(3), facts)
  own_text.check_broken(path, 0.015)
  with pytest.raises(DataError) as caught:
    own_text.check_broken(path, 0.01)
  message = str(caught.value)
  assert '3 of 200 rows cannot be used (1.5%), and --max_broken_share=0.01' in message
  assert message.endswith('\n  a.csv:2: odd\n  a.csv:9: bad')


def test_a_data_set_is_called_like_its_file():
  assert own_text.data_set_name('some/where/posts.csv') == 'posts.csv'
  assert own_text.data_set_name('some/where/') == 'where'
