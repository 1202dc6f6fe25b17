"""Stopping in good order: the first signal asks, the second one insists."""

import os
import signal
import time

import pytest

from tff_textpriv.training import stopping

_SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture(autouse=True)
def _harmless_handlers():
  """Should a signal get past the code under test, it must not end the tests."""
  arrived = []
  before = {
    number: signal.signal(number, lambda number, frame: arrived.append(number))
    for number in _SIGNALS
  }
  yield arrived
  for number, handler in before.items():
    signal.signal(number, handler)


@pytest.mark.parametrize('number', _SIGNALS)
def test_the_first_signal_asks_and_tells_how_to_insist(number, capsys):
  with stopping.stop_on_signals() as stop:
    assert not stop and stop.signal_number is None
    os.kill(os.getpid(), number)
    assert stop and stop.signal_number == number
  assert 'stopping after this round' in capsys.readouterr().err


@pytest.mark.parametrize('first', _SIGNALS)
@pytest.mark.parametrize('second', _SIGNALS)
def test_a_second_signal_interrupts_what_may_be_interrupted(first, second):
  with stopping.stop_on_signals() as stop:
    with pytest.raises(KeyboardInterrupt), stop.interruptible():
      os.kill(os.getpid(), first)
      os.kill(os.getpid(), second)
    assert stop.is_urgent


def test_a_second_signal_waits_for_what_must_not_be_interrupted_and_a_third_does_not():
  with stopping.stop_on_signals() as stop:
    for _ in range(2):
      os.kill(os.getpid(), signal.SIGINT)
    entered = False
    with pytest.raises(KeyboardInterrupt), stop.interruptible():
      entered = True
    assert not entered
    with pytest.raises(KeyboardInterrupt):
      os.kill(os.getpid(), signal.SIGINT)


def test_what_is_stuck_is_interrupted_after_a_grace_time(monkeypatch):
  monkeypatch.setattr(stopping, 'GRACE_SECONDS', 0.2)
  with stopping.stop_on_signals() as stop:
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), stop.interruptible():
      time.sleep(10)


def test_a_round_that_takes_no_longer_than_others_is_not_stuck(monkeypatch):
  monkeypatch.setattr(stopping, 'GRACE_SECONDS', 0.1)
  with stopping.stop_on_signals() as stop:
    stop.expect(seconds=1)
    os.kill(os.getpid(), signal.SIGINT)
    with stop.interruptible():
      time.sleep(0.5)
    assert stop and not stop.is_urgent
  # Nor does it strike after all is done.
  assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


@pytest.mark.parametrize('error', [None, RuntimeError, KeyboardInterrupt])
def test_the_handlers_of_before_are_in_force_again(_harmless_handlers, error):
  if error is None:
    with stopping.stop_on_signals() as stop:
      pass
  else:
    with pytest.raises(error), stopping.stop_on_signals() as stop:
      raise error
  for number in _SIGNALS:
    os.kill(os.getpid(), number)
  assert _harmless_handlers == _SIGNALS
  assert not stop
