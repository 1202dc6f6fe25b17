"""Tries the model of a run in the terminal.

python -m tff_textpriv.tools.suggest runs/stackoverflow_fed_avg "how do i"
"""

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from tff_textpriv import flags
from tff_textpriv.export import typing_loop
from tff_textpriv.settings import (
  REQUIRED,
  IncompatibleSettingsError,
  Settings,
  setting,
)

if TYPE_CHECKING:
  from tff_textpriv.export import runs

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


class Assistant:
  """A model that answers texts."""

  def __init__(self, run: 'runs.FinishedRun', top: int):
    """Prepares the model of a run for so many answers."""
    self._top = top
    self._model: Any = run.text_model(top)
    if getattr(run.usage, 'dense_width', 0):
      raise IncompatibleSettingsError(
        f'{run.folder}: the model reads side features beside the text, which cannot be '
        'typed; the saved model (tff_textpriv.tools.export) takes them as its second '
        'input'
      )
    self.completes = hasattr(self._model, 'complete')

  def follow(self, text: str) -> typing_loop.Answer:
    """Returns the words that follow a text, or its classes."""
    return self._words('suggest', text) if self.completes else self._classes(text)

  def as_typed(self, text: str) -> typing_loop.Answer:
    """Returns what the last word of a text may become, or its classes."""
    return self._words('complete', text) if self.completes else self._classes(text)

  def _words(self, function: str, text: str) -> typing_loop.Answer:
    answer = getattr(self._model, function)([text])
    found = zip(
      answer['words'][0].numpy(), answer['probabilities'][0].numpy(), strict=True
    )
    return [(word.decode(), float(share)) for word, share in found if word]

  def _classes(self, text: str) -> typing_loop.Answer:
    answer = self._model.classify([text])
    found = zip(
      answer['classes'].numpy(), answer['probabilities'][0].numpy(), strict=True
    )
    named = [(name.decode(), float(share)) for name, share in found]
    return sorted(named, key=lambda pair: -pair[1])[: self._top]


def main(settings: SuggestSettings) -> int:
  """Answers a text, or what is typed; returns 0."""
  # Help and mistakes are answered without TensorFlow.
  from tff_textpriv.export import runs

  assistant = Assistant(runs.read(settings.run), settings.top)
  if settings.interactive:
    typing_loop.run(assistant.as_typed, sys.stdin, sys.stdout, assistant.completes)
  else:
    print(as_table(assistant.follow(settings.text or '')))
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
