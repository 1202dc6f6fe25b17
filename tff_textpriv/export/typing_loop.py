"""Answers in a terminal while a text is being typed."""

import functools
from collections.abc import Callable, Sequence
from typing import TextIO

from prompt_toolkit import application, key_binding, layout, widgets
from prompt_toolkit.layout import controls

# Words or classes with their probabilities, the most likely first.
Answer = Sequence[tuple[str, float]]

_PROMPT = '> '


def run(
  answer: Callable[[str], Answer], source: TextIO, output: TextIO, completes: bool
) -> None:
  """Answers until the input ends.

  Args:
    answer: What to say to a text that may end within a word.
    source: Where the text is typed; lines are read if it is no terminal.
    output: Where answers to lines go.
    completes: Whether answers are words that Tab can take over.
  """
  if not source.isatty():
    for line in source:
      text = line.rstrip('\n')
      output.write(f'{_PROMPT}{text}\n  {in_a_line(answer(text))}\n')
    return
  hint = 'Tab completes, ' if completes else ''
  print(f'{hint}Enter starts a new text, Ctrl-D ends', file=output)
  # In raw mode all along: keys between two texts must not be echoed by the terminal.
  with application.get_app_session().input.raw_mode():
    while (typed := read(answer, completes)) is not None:
      print(f'{_PROMPT}{typed}', file=output)


def read(answer: Callable[[str], Answer], completes: bool) -> str | None:
  """Lets one text be typed, with the answer to it on the line below; see `run`.

  Returns:
    The text, or `None` for Ctrl-D and Ctrl-C.
  """
  # An answer is asked for at every drawing, and again by Tab.
  known = functools.lru_cache(maxsize=1)(answer)
  line = widgets.TextArea(prompt=_PROMPT, multiline=False)
  keys = key_binding.KeyBindings()

  def before_cursor() -> str:
    return line.document.text_before_cursor

  @keys.add('tab')
  def complete(event: key_binding.KeyPressEvent) -> None:
    found = known(before_cursor())
    if completes and found:
      line.buffer.delete_before_cursor(len(_begun(before_cursor())))
      line.buffer.insert_text(f'{found[0][0]} ')

  @keys.add('enter')
  def take(event: key_binding.KeyPressEvent) -> None:
    event.app.exit(result=line.text)

  @keys.add('c-c')
  @keys.add('c-d')
  def end(event: key_binding.KeyPressEvent) -> None:
    event.app.exit(result=None)

  below = controls.FormattedTextControl(
    lambda: f'  {in_a_line(known(before_cursor()))}'
  )
  app = application.Application[str | None](
    layout.Layout(layout.HSplit([line, layout.Window(below, height=1)])),
    key_bindings=keys,
    erase_when_done=True,
  )
  return app.run()


def in_a_line(found: Answer) -> str:
  """Writes an answer in one line."""
  shown = (f'{name} {_percent(share)}' for name, share in found)
  return '   '.join(shown) or '(no word)'


def _percent(share: float) -> str:
  return f'{share:.1%}' if share >= 0.001 else '<0.1%'


def _begun(text: str) -> str:
  """Returns the word that a text ends within; empty after white space."""
  return '' if not text or text[-1].isspace() else text.split()[-1]
