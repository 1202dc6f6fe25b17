"""Streams: what they are told decides their numbers, and nothing else does."""

import itertools

import numpy as np
import pytest

from tff_textpriv.randomness import Stream, generator

_STREAM = Stream.of_seed(0)


def test_the_same_names_give_the_same_numbers_and_others_do_not():
  names = [('a',), ('a', 1), ('a', '1'), ('a', 1, 2), ('a', 12), ('b', 1), ('a', -1)]
  words = {name: tuple(_STREAM.words(*name)) for name in names}
  assert len(set(words.values())) == len(names)
  assert words == {name: tuple(Stream.of_seed(0).words(*name)) for name in names}
  assert tuple(Stream.of_seed(1).words('a', 1)) != words['a', 1]
  np.testing.assert_array_equal(
    generator(0, 'a', 1).random(5), _STREAM.generator('a', 1).random(5)
  )


def test_words_are_128_bits_of_which_none_stands_still():
  words = np.array([_STREAM.words('x', number) for number in range(200)])
  assert words.dtype == np.int64 and words.shape == (200, 2)
  bits = np.unpackbits(words.view(np.uint8), axis=1)
  # Each of 128 bits is set in half of 200 words, to 5 standard errors.
  assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(200)


def _collisions(key):
  """Counts pairs of names, of a hundred thousand, that get the same key."""
  keys = [key(f'user {number}') for number in range(100_000)]
  return len(keys) - len(set(keys))


def test_no_two_users_share_a_stream_as_they_would_by_32_bits():
  assert _collisions(lambda user: _STREAM.child('user', user).key) == 0
  # A good hash of 32 bits has a collision among so many: n^2 / 2^33 = 1.2 on average.
  assert _collisions(lambda user: _STREAM.child('user', user).key[:4]) > 0


def test_children_tell_nothing_of_their_parents_or_each_other():
  first, second = _STREAM.child('phase', 0), _STREAM.child('phase', 1)
  assert len({_STREAM.key, first.key, second.key}) == 3
  numbers = [stream.generator('x').normal(size=20_000) for stream in (first, second)]
  assert abs(np.corrcoef(numbers)[0, 1]) < 5 / np.sqrt(20_000)


def test_shares_are_even_and_are_those_of_the_name_alone():
  shares = np.array([_STREAM.share('half', f'user {i}') for i in range(4000)])
  assert (shares >= 0).all() and (shares < 1).all()
  assert abs(shares.mean() - 0.5) < 5 / np.sqrt(12 * 4000)
  assert _STREAM.share('half', 'user 7') == shares[7]


def test_a_system_stream_is_new_each_time_and_not_shown():
  streams = [Stream.of_system() for _ in range(3)]
  assert all(a != b for a, b in itertools.combinations(streams, 2))
  assert streams[0].key.hex() not in repr(streams[0])
  assert str(list(streams[0].key)) not in repr(streams[0])


def test_a_short_key_is_refused():
  with pytest.raises(ValueError, match='32 bytes, not 4'):
    Stream(b'1234')
