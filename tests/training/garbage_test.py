"""Garbage of a long run is found without a look at what was there before."""

import gc
import sys
import weakref

import pytest

from tff_textpriv.training import garbage


class _Graph:
  """Refers to itself, as TensorFlow's graphs do."""

  def __init__(self):
    self.itself = self


@pytest.fixture(autouse=True)
def nothing_set_aside():
  """Undoes what the tests' own setting aside has done."""
  gc.unfreeze()
  yield
  gc.freeze()


def test_only_what_the_block_makes_is_looked_at():
  old = weakref.ref(_Graph())  # Garbage at once, and collected before the block.
  with garbage.old_set_aside():
    assert old() is None
    assert len(gc.get_objects()) < gc.get_freeze_count() / 10
    new = weakref.ref(_Graph())
    assert gc.collect() > 0
    assert new() is None


def test_after_the_block_all_is_as_before():
  held = _Graph()
  seen = weakref.ref(held)
  with garbage.old_set_aside():
    del held
    gc.collect()
    assert seen() is not None  # Of the time before: not looked at.
  assert gc.get_freeze_count() == 0
  gc.collect()
  assert seen() is None


def test_what_was_set_aside_before_the_block_stays_so():
  gc.freeze()
  with garbage.old_set_aside():
    pass
  assert gc.get_freeze_count() > 0


def test_what_is_raised_while_garbage_is_collected_is_not_lost(monkeypatch):
  lost = []
  monkeypatch.setattr(sys, 'unraisablehook', lost.append)

  def lose(phase, _):
    if phase == 'start':
      raise KeyboardInterrupt

  gc.callbacks.append(lose)
  try:
    gc.collect()
    assert len(lost) == 1  # Whoever pressed Ctrl-C then would wait in vain.
    with garbage.without_callbacks():
      gc.collect()
    assert len(lost) == 1
    assert lose in gc.callbacks
  finally:
    gc.callbacks.remove(lose)
