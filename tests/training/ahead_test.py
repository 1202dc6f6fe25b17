"""Values that are made while something else goes on."""

import threading

import pytest

from tff_textpriv.training import ahead


def test_a_value_that_was_begun_is_made_once_and_in_another_thread():
  calls = []

  def make(number):
    calls.append((number, threading.current_thread().name))
    return 10 * number

  with ahead.Ahead(make) as values:
    assert values.take(1) == 10
    values.begin(2)
    assert [values.take(2), values.take(3)] == [20, 30]
  here = threading.current_thread().name
  assert [number for number, _ in calls] == [1, 2, 3]
  assert [name == here for _, name in calls] == [True, False, True]


def test_it_is_made_while_something_else_goes_on():
  begun, may_end = threading.Event(), threading.Event()

  def make(number):
    begun.set()
    assert may_end.wait(10)
    return number

  with ahead.Ahead(make) as values:
    values.begin(1)
    assert begun.wait(10)  # Nobody has taken it yet.
    may_end.set()
    assert values.take(1) == 1


def test_another_value_than_was_begun_is_made_anew():
  with ahead.Ahead(lambda number: 10 * number) as values:
    values.begin(2)
    assert values.take(5) == 50


def test_an_error_is_raised_for_who_takes_the_value_and_not_before():
  def make(number):
    raise ValueError(f'no {number}')

  with ahead.Ahead(make) as values:
    values.begin(1)
    values.wait()
    with pytest.raises(ValueError, match='no 1'):
      values.take(1)


def test_an_error_of_a_value_that_nobody_takes_is_not_raised():
  with ahead.Ahead(lambda number: 1 // (number - 1)) as values:
    values.begin(1)
    assert values.take(2) == 1
