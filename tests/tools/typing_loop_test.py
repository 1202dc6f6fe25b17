"""Answers while a text is typed, in a terminal and without one."""

import io
import os
import pty
import threading

import pytest

from tff_textpriv.tools import typing_loop

# What ends each drawing: back to the line of the text.
_UP = '\x1b[A'


def _complete(text):
  """A model that knows two words."""
  begun = '' if not text or text.endswith(' ') else text.split()[-1]
  known = [('update', 0.5), ('upgrade', 0.25)]
  return [pair for pair in known if pair[0].startswith(begun)]


@pytest.mark.parametrize(
  ('text', 'key', 'expected'),
  [
    ('how', ' ', 'how '),
    ('how ', 'é', 'how é'),
    ('how', '\x7f', 'ho'),
    ('', '\x7f', ''),
    ('how do i up', '\t', 'how do i update '),
    ('how do i ', '\t', 'how do i update '),
    ('how do i xyz', '\t', 'how do i xyz'),
    ('how', '\x01', 'how'),
  ],
)
def test_a_key_changes_the_text(text, key, expected):
  assert typing_loop.type_key(text, key, _complete(text), True) == expected


def test_tab_does_not_take_over_the_name_of_a_class():
  assert typing_loop.type_key('good', '\t', [('positive', 0.9)], False) == 'good'


def test_without_a_terminal_each_line_is_answered():
  output = io.StringIO()
  typing_loop.run(_complete, io.StringIO('how do i upd\nxyz\n'), output, True)
  assert output.getvalue() == '> how do i upd\n  update 50.0%\n> xyz\n  (no word)\n'


def test_in_a_terminal_words_are_completed_as_they_are_typed():
  ours, theirs = pty.openpty()
  output = io.StringIO()
  with os.fdopen(theirs) as terminal:
    loop = threading.Thread(
      target=typing_loop.run, args=(_complete, terminal, output, True), daemon=True
    )
    loop.start()
    # Text, an arrow, which does nothing, then Tab, Enter and the end; each of them once
    # there is an answer to the one before.
    keys = (b'how upg', b'\x1b[A', b'\t', b'now', b'\n', b'\x04')
    for number, key in enumerate(keys, start=1):
      while loop.is_alive() and output.getvalue().count(_UP) < number:
        loop.join(0.01)
      os.write(ours, key)
    loop.join(5)
    assert not loop.is_alive()
  os.close(ours)
  drawn = output.getvalue()
  assert '> how upg\n  upgrade 25.0%' in drawn
  assert '> how upgrade now\n' in drawn
