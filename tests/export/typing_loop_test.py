"""Answers while a text is typed, in a terminal and without one."""

import io
import threading

import prompt_toolkit.input
import pytest
from prompt_toolkit import application, output

from tff_textpriv.export import typing_loop

_END = '\x04'


class _Terminal(io.StringIO):
  """What a source is asked before keys are read."""

  def isatty(self):
    return True


def _complete(text):
  """A model that knows two words."""
  begun = '' if not text or text.endswith(' ') else text.split()[-1]
  known = [('update', 0.5), ('upgrade', 0.25)]
  return [pair for pair in known if pair[0].startswith(begun)]


def _type(keys, answer=_complete, completes=True):
  """Types keys into the loop; returns what was written."""
  written = io.StringIO()
  with (
    prompt_toolkit.input.create_pipe_input() as pipe,
    application.create_app_session(input=pipe, output=output.DummyOutput()),
  ):
    pipe.send_text(keys)
    typing_loop.run(answer, _Terminal(), written, completes)
  return written.getvalue()


@pytest.mark.parametrize(
  ('keys', 'expected'),
  [
    ('how ', 'how '),
    ('how é', 'how é'),
    ('how\x7f', 'ho'),
    ('\x7f', ''),
    ('how do i up\t', 'how do i update '),
    ('how do i \t', 'how do i update '),
    ('how do i xyz\t', 'how do i xyz'),
    ('up now\x1b[D\x1b[D\x1b[D\x1b[D\t', 'update  now'),
  ],
)
def test_keys_make_a_text(keys, expected):
  assert _type(f'{keys}\r{_END}').splitlines()[1:] == [f'> {expected}']


def test_tab_does_not_take_over_the_name_of_a_class():
  written = _type(f'good\t\r{_END}', lambda text: [('positive', 0.9)], completes=False)
  assert written == 'Enter starts a new text, Ctrl-D ends\n> good\n'


def test_texts_are_typed_until_the_end():
  written = _type(f'how upg\tnow\rxyz\rlost{_END}')
  assert written.splitlines()[1:] == ['> how upgrade now', '> xyz']
  assert _type('lost\x03').splitlines()[1:] == []


def test_a_text_is_answered_before_it_is_finished():
  asked = []
  with (
    prompt_toolkit.input.create_pipe_input() as pipe,
    application.create_app_session(input=pipe, output=output.DummyOutput()),
  ):

    def answer(text):
      asked.append(text)
      if text == 'how upg':
        pipe.send_text(_END)
      return _complete(text)

    pipe.send_text('how upg')
    too_late = threading.Timer(10, pipe.send_text, [_END])
    too_late.start()
    typing_loop.run(answer, _Terminal(), io.StringIO(), True)
    too_late.cancel()
  assert 'how upg' in asked


def test_without_a_terminal_each_line_is_answered():
  written = io.StringIO()
  typing_loop.run(_complete, io.StringIO('how do i upd\nxyz\n'), written, True)
  assert written.getvalue() == '> how do i upd\n  update 50.0%\n> xyz\n  (no word)\n'
