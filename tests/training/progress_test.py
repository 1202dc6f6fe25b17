"""Progress: a bar on a terminal, a line per evaluation elsewhere."""

import contextlib
import io
import math
import re
import time

from tff_textpriv.training import progress

_ROUND = {'train_loss': 4.5678, 'num_examples': 300.0, 'epsilon': 1.2345}
_EVALUATION = {'validation_word_accuracy': 0.125, 'validation_word_perplexity': 98.765}


class _Terminal(io.StringIO):
  def isatty(self):
    return True


def test_without_a_terminal_there_is_a_line_for_each_evaluation_alone(capsys):
  with progress.Progress(0, 10) as shown:
    shown.show(1, _ROUND, 2.0)
    assert capsys.readouterr().err == ''
    shown.show(2, _ROUND | _EVALUATION, 2.0)
  line = capsys.readouterr().err
  assert line.startswith('round 2/10  loss 4.568  epsilon 1.234  examples/s 150  ')
  assert 'accuracy 12.50%  perplexity 98.8' in line
  assert line.count('\n') == 1


def test_the_time_left_counts_only_rounds_of_this_start(capsys, monkeypatch):
  now = [1000.0]
  monkeypatch.setattr(time, 'monotonic', lambda: now[0])
  with progress.Progress(90, 100) as shown:
    now[0] += 30
    shown.show(92, _ROUND | _EVALUATION, 15.0)
  # Two rounds took 30 s, and 8 are left.
  assert capsys.readouterr().err.endswith('  120 s left\n')


def test_a_run_without_privacy_shows_no_epsilon(capsys):
  metrics = {'train_loss': math.nan, 'num_examples': 0.0, **_EVALUATION}
  with progress.Progress(0, 1) as shown:
    shown.show(1, metrics, 1.0)
  line = capsys.readouterr().err
  assert 'epsilon' not in line
  assert 'loss nan  examples/s 0' in line


def test_on_a_terminal_a_bar_shows_round_loss_epsilon_speed_and_time_left():
  terminal = _Terminal()
  with contextlib.redirect_stderr(terminal), progress.Progress(3, 10) as shown:
    shown.show(4, _ROUND, 2.0)
    time.sleep(0.15)  # A bar is drawn anew at most every tenth of a second.
    shown.show(5, _ROUND | _EVALUATION, 2.0)
  drawn = terminal.getvalue()
  assert ' 5/10 ' in drawn
  assert 'loss=4.568, epsilon=1.234, examples/s=150' in drawn
  # Elapsed, then left.
  assert re.search(r'\[\d\d:\d\d<\d\d:\d\d', drawn)
  assert 'round 5/10' in drawn and 's left' not in drawn
