"""Stopping in good order: the first signal asks, the second one interrupts."""

import os
import signal

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
def test_a_second_signal_interrupts(first, second):
  with pytest.raises(KeyboardInterrupt), stopping.stop_on_signals():
    os.kill(os.getpid(), first)
    os.kill(os.getpid(), second)


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
