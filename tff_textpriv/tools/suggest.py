"""Tries the model of a run in the terminal.

python -m tff_textpriv.tools.suggest runs/stackoverflow_fed_avg "how do i"
"""

import dataclasses
import sys

from tff_textpriv import flags
from tff_textpriv.export import typing_loop
from tff_textpriv.settings import (
  REQUIRED,
  IncompatibleSettingsError,
  Settings,
  setting,
)

DESCRIPTION = (
  'Prints the words that a language model finds most likely to follow a text, or the '
  'classes that a classifier finds for it. With --interactive it does so as you type.'
)
_BAR_WIDTH = 30


@dataclasses.dataclass(frozen=True)
class SuggestSettings(Settings):
  """What to try, and on what."""

  run: str = setting(REQUIRED, 'The folder of a finished run.', positional=True)
  text: str | None = setting(
    None, 'The text, unless it is typed with --interactive.', positional=True
  )
  top: int = setting(5, 'How many words or classes to show.', low=1, high=100)
  interactive: bool = setting(
    False,
    'Complete words as they are typed: Tab takes the first one, Enter starts a new text, '
    'Ctrl-D ends. Without a terminal, each line of the input is answered.',
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.interactive == (self.text is not None):
      raise IncompatibleSettingsError(
        'give either a text, such as "how do i", or --interactive to type one'
      )


def main(settings: SuggestSettings) -> int:
  """Answers a text, or what is typed; returns 0."""
  # Help and mistakes are answered without TensorFlow.
  from tff_textpriv.export import assistant, runs

  answering = assistant.Assistant(runs.read(settings.run), settings.top)
  if settings.interactive:
    typing_loop.run(answering.as_typed, sys.stdin, sys.stdout, answering.completes)
  else:
    print(as_table(answering.follow(settings.text or '')))
  return 0


def as_table(answer: typing_loop.Answer) -> str:
  """Writes an answer as lines with bars, the longest for the most likely."""
  if not answer:
    return 'no word to suggest'
  width = max(len(name) for name, _ in answer)
  largest = max(share for _, share in answer)
  return '\n'.join(
    f'{name:<{width}}  {share:7.2%}  {"█" * round(_BAR_WIDTH * share / largest)}'
    for name, share in answer
  )


if __name__ == '__main__':
  flags.run(main, SuggestSettings, DESCRIPTION)
