"""Answers in a terminal while a text is being typed."""

import codecs
import os
import shutil
import termios
import tty
from collections.abc import Callable, Sequence
from typing import TextIO

# Words or classes with their probabilities, the most likely first.
Answer = Sequence[tuple[str, float]]

_PROMPT = '> '
_END, _TAB, _ESCAPE = '\x04', '\t', '\x1b'
_ENTER = ('\n', '\r')
_BACKSPACE = ('\x7f', '\b')
# Clears from the cursor to the end of the screen; moves up a line.
_CLEAR, _UP = '\x1b[J', '\x1b[A'
# A key that sends several characters sends them at once.
_KEY_BYTES = 64


def run(
  answer: Callable[[str], Answer], source: TextIO, output: TextIO, completes: bool
) -> None:
  """Answers until the input ends.

  Args:
    answer: What to say to a text that may end within a word.
    source: Where the text is typed; lines are read if it is no terminal.
    output: Where answers go.
    completes: Whether answers are words that Tab can take over.
  """
  if not source.isatty():
    for line in source:
      text = line.rstrip('\n')
      output.write(f'{_PROMPT}{text}\n  {in_a_line(answer(text))}\n')
    return
  file = source.fileno()
  before = termios.tcgetattr(file)
  tty.setcbreak(file)
  try:
    _read_keys(answer, file, output, completes)
  except KeyboardInterrupt:
    pass
  finally:
    termios.tcsetattr(file, termios.TCSADRAIN, before)
    output.write(f'\r{_CLEAR}')


def type_key(text: str, key: str, found: Answer, completes: bool) -> str:
  """Returns a text after a key was pressed.

  Args:
    text: What was typed before.
    key: A character.
    found: What was answered to it.
    completes: Whether Tab takes over the first word of that.
  """
  if key in _BACKSPACE:
    return text[:-1]
  if key == _TAB:
    if not completes or not found:
      return text
    return text[: len(text) - len(_begun(text))] + found[0][0] + ' '
  return text + key if key.isprintable() else text


def in_a_line(found: Answer) -> str:
  """Writes an answer in one line."""
  shown = (f'{name} {_percent(share)}' for name, share in found)
  return '   '.join(shown) or '(no word)'


def _read_keys(
  answer: Callable[[str], Answer], file: int, output: TextIO, completes: bool
) -> None:
  """Reads keys and draws, until Ctrl-D."""
  decode = codecs.getincrementaldecoder('utf-8')('replace').decode
  hint = 'Tab completes, ' if completes else ''
  output.write(f'{hint}Enter starts a new text, Ctrl-D ends\n')
  text, found = '', answer('')
  while True:
    _draw(text, found, output)
    keys = decode(os.read(file, _KEY_BYTES))
    if keys.startswith(_ESCAPE):
      continue  # Arrows and other keys that write nothing.
    for key in keys:
      if key == _END:
        return
      if key in _ENTER:
        output.write(f'\r{_CLEAR}{_PROMPT}{text}\n')
        text = ''
      else:
        text = type_key(text, key, found, completes)
      found = answer(text)


def _draw(text: str, found: Answer, output: TextIO) -> None:
  """Draws the text and the answer below it, and leaves the cursor in the text."""
  room = shutil.get_terminal_size().columns - 1
  typed = _PROMPT + text[-(room - len(_PROMPT)) :]
  below = f'  {in_a_line(found)}'[:room]
  output.write(f'\r{_CLEAR}{typed}\n{below}{_UP}\r{typed}')
  output.flush()


def _percent(share: float) -> str:
  return f'{share:.1%}' if share >= 0.001 else '<0.1%'


def _begun(text: str) -> str:
  """Returns the word that a text ends within; empty after white space."""
  return '' if not text or text[-1].isspace() else text.split()[-1]
