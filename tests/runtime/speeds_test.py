"""Faster workers get more clients, and each of them gets some."""

import pytest

from tff_textpriv.runtime import client_slices, speeds


def test_who_is_twice_as_fast_gets_twice_as_much():
  measured = speeds.Speeds()
  assert measured.weights('ab') == [1, 1]
  for _ in range(3):
    measured.note('a', 10, 1.0)
    measured.note('b', 10, 2.0)
  assert measured.weights('ab') == [8, 4]
  assert measured.weights('ba') == [4, 8]


def test_one_slow_round_is_soon_forgotten():
  measured = speeds.Speeds()
  measured.note('b', 10, 1.0)
  measured.note('a', 10, 100.0)
  assert measured.weights('ab') == [1, 8]
  for _ in range(6):
    measured.note('a', 10, 1.0)
    measured.note('b', 10, 1.0)
  assert measured.weights('ab') == [8, 8]


def test_one_that_is_new_or_got_nothing_is_not_taken_for_slow():
  measured = speeds.Speeds()
  measured.note('a', 10, 1.0)
  measured.note('c', 0, 1.0)
  assert measured.weights('abc') == [8, 8, 8]


@pytest.mark.parametrize('num_clients', [3, 4, 10, 1001])
@pytest.mark.parametrize('weights', [(1, 1, 1), (8, 4, 1), (1, 8, 8)])
def test_parts_by_weight_are_all_of_a_cohort_and_none_is_empty(num_clients, weights):
  parts = client_slices.by_weight(num_clients, weights)
  sizes = [part.stop - part.start for part in parts]
  assert parts[0].start == 0 and parts[-1].stop == num_clients == sum(sizes)
  assert min(sizes) >= 1
  for size, weight in zip(sizes, weights, strict=True):
    assert abs(size - num_clients * weight / sum(weights)) <= len(weights)


def test_a_part_is_cut_up_into_as_few_as_fit():
  parts = client_slices.cut_up(slice(5, 16), most=4)
  assert parts == [slice(5, 8), slice(8, 12), slice(12, 16)]
  assert client_slices.cut_up(slice(2, 4), most=4) == [slice(2, 4)]
