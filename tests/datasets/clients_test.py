import pytest

from tff_textpriv.datasets import clients


def _in_memory(*ids):
  return clients.InMemoryClientText(
    {client_id: [f'by {client_id}'] for client_id in ids}
  )


def test_texts_in_memory_are_normalised_and_empty_ones_left_out():
  data = clients.InMemoryClientText({'ann': [' a\tb ', '', '\n'], 'bob': []})
  assert data.client_ids == ['ann', 'bob']
  assert data.read('ann') == ['a b']
  assert data.read('bob') == []


def test_changing_what_was_read_does_not_change_the_data():
  data = _in_memory('ann')
  data.read('ann').clear()
  assert data.read('ann') == ['by ann']


def test_an_unknown_user_is_a_key_error_that_names_nobody():
  with pytest.raises(KeyError, match='no such user among the 2 users') as caught:
    _in_memory('ann', 'bob').read('eve')
  assert str(caught.value).startswith('there is no')
  assert 'eve' not in f'{caught.value!r} {vars(caught.value)}'


@pytest.mark.parametrize(
  'other',
  [
    {'ann': ['one', 'two'], 'bob': ['three']},
    {'ann': ['one'], 'bob': ['two', 'four']},
    {'ann': ['onetwo'], 'bob': ['three']},
    {'ann': ['one'], 'eve': ['two', 'three']},
  ],
)
def test_other_content_has_another_fingerprint(other):
  texts = {'ann': ['one'], 'bob': ['two', 'three']}
  fingerprint = clients.InMemoryClientText(texts).fingerprint
  assert clients.InMemoryClientText(dict(texts)).fingerprint == fingerprint
  assert clients.InMemoryClientText(other).fingerprint != fingerprint


def test_a_subset_knows_only_its_own_users():
  whole = _in_memory('ann', 'bob', 'cid')
  part = clients.Subset(whole, ['cid', 'ann'])
  assert part.client_ids == ['cid', 'ann']
  assert part.read('cid') == ['by cid']
  with pytest.raises(clients.UnknownClientError, match='among the 2 users'):
    part.read('bob')
  assert part.fingerprint not in (
    whole.fingerprint,
    clients.Subset(whole, ['cid']).fingerprint,
  )


def test_a_subset_cannot_have_users_that_the_whole_has_not():
  with pytest.raises(clients.UnknownClientError, match='among the 1 users'):
    clients.Subset(_in_memory('ann'), ['ann', 'eve'])


def test_disjoint_groups_pass_the_check():
  groups = (_in_memory('ann', 'bob'), _in_memory('cid'), _in_memory('dan'))
  clients.FederatedText('mine', *groups).check_disjoint()


@pytest.mark.parametrize(
  ('train', 'validation', 'test', 'message'),
  [
    ('ab', 'bc', 'd', '1 of the users are both train and validation users'),
    ('ab', 'c', 'da', '1 of the users are both train and test users'),
    ('ab', 'c', 'dc', '1 of the users are both validation and test users'),
  ],
)
def test_a_user_in_two_groups_is_an_error(train, validation, test, message):
  groups = (_in_memory(*ids) for ids in (train, validation, test))
  with pytest.raises(clients.DataError, match=message):
    clients.FederatedText('mine', *groups).check_disjoint()


def test_a_data_error_names_file_and_line():
  assert str(clients.DataError.in_file('a.txt', 'is bad', line=3)) == 'a.txt:3: is bad'
  assert str(clients.DataError.in_file('a.txt', 'is bad')) == 'a.txt: is bad'
