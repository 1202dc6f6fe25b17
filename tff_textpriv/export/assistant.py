"""A run's model that answers texts: the words that follow them, or their classes."""

from collections.abc import Sequence
from typing import Any

from tff_textpriv.export import runs, typing_loop


class Assistant:
  """A model that answers texts."""

  def __init__(self, run: runs.FinishedRun, top: int):
    """Prepares the model of a run for so many answers.

    Raises:
      ExportError: If the model cannot be asked about texts alone.
    """
    self._top = top
    self._model: Any = run.text_model(top)
    if getattr(run.usage, 'dense_width', 0):
      raise runs.ExportError(
        f'{run.folder}: the model reads side features beside the text, which cannot be '
        'typed; the saved model (tff_textpriv.tools.export) takes them as its second '
        'input'
      )
    self.completes = hasattr(self._model, 'complete')

  def follow(self, text: str) -> typing_loop.Answer:
    """Returns the words that follow a text, or its classes, the likeliest first."""
    if self.completes:
      return self._words('suggest', text)
    return self.classify([text])[0][: self._top]

  def as_typed(self, text: str) -> typing_loop.Answer:
    """Returns what the last word of a text may become, or its classes."""
    return self._words('complete', text) if self.completes else self.follow(text)

  def classify(self, texts: Sequence[str]) -> list[typing_loop.Answer]:
    """Returns all classes of each text with their probabilities, the likeliest first."""
    answer = self._model.classify(list(texts))
    names = [name.decode() for name in answer['classes'].numpy()]
    return [
      sorted(zip(names, map(float, shares), strict=True), key=lambda pair: -pair[1])
      for shares in answer['probabilities'].numpy()
    ]

  def _words(self, function: str, text: str) -> typing_loop.Answer:
    answer = getattr(self._model, function)([text])
    found = zip(
      answer['words'][0].numpy(), answer['probabilities'][0].numpy(), strict=True
    )
    return [(word.decode(), float(share)) for word, share in found if word]
