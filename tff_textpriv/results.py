"""What a finished run left in its folder, read back: figures, rounds, card, model.

Figures, rounds and card need nothing but Python itself: a notebook whose own Python is too
new for TensorFlow Federated can still show what a run has left. Only what asks the model
imports TensorFlow.
"""

import dataclasses
import functools
import importlib
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tff_textpriv import run_folder
from tff_textpriv import settings as settings_lib

if TYPE_CHECKING:
  import tensorflow as tf

  from tff_textpriv.export import assistant

_DEFAULT_SUGGESTIONS = 5


class ResultsError(ValueError):
  """A folder does not hold what was asked for."""


class PrivacyCard(dict[str, Any]):
  """The content of privacy_card.json; shown as its headline, in notebooks as a page.

  Attributes:
    markdown: The whole card as a page of Markdown.
  """

  def __init__(self, content: dict[str, Any], markdown: str):
    super().__init__(content)
    self.markdown = markdown

  def __repr__(self) -> str:
    return f'PrivacyCard({self["algo"]} on {self["task"]}: {self["headline"]})'

  def _repr_markdown_(self) -> str:
    return self.markdown


@dataclasses.dataclass(frozen=True, repr=False)
class Result:
  """A finished run.

  Attributes:
    folder: The run's output folder.
    config: Every setting that decided the result, by its flag's name.
    metrics: The figures of results.json; those of the test begin with `test_`.
    rounds: A map for each round, from the columns of metrics.csv to numbers. Only
      rounds that were evaluated have the columns that begin with `validation_`.
    privacy_card: What the run promises, to whom, and what not.
  """

  folder: pathlib.Path
  config: dict[str, Any]
  metrics: dict[str, Any]
  rounds: list[dict[str, float]]
  privacy_card: PrivacyCard

  @functools.cached_property
  def model(self) -> 'tf.keras.Model | None':
    """The trained Keras model; `None` where the server has none (`local_only`)."""
    file = self.folder / run_folder.MODEL
    if not file.exists():
      return None
    from tff_textpriv.models import saved_models

    return saved_models.read(file)

  @property
  def sanity(self) -> list[str]:
    """Sentences on whether the model is any good, beside guesses that need none."""
    return list(self.metrics.get('sanity', ()))

  def to_frame(self) -> Any:
    """Returns the rounds as a data frame of pandas, if that is installed; `round` is its index."""
    try:
      pandas = importlib.import_module('pandas')  # It is nobody's requirement.
    except ImportError as error:
      raise ResultsError(
        'to_frame needs pandas, which is not installed: pip install pandas; `rounds` has '
        'the same as maps'
      ) from error
    return pandas.DataFrame(self.rounds).set_index('round')

  def predict(self, texts: Sequence[str]) -> list[str]:
    """Returns the class that a classifier finds for each text."""
    return [classes[0][0] for classes in self._classify(texts)]

  def probabilities(self, texts: Sequence[str]) -> list[dict[str, float]]:
    """Returns the probabilities of the classes of each text, the likeliest first."""
    return [dict(classes) for classes in self._classify(texts)]

  def suggest(
    self, text: str, top: int = _DEFAULT_SUGGESTIONS
  ) -> list[tuple[str, float]]:
    """Returns the words that a language model finds most likely to follow a text.

    Args:
      text: What has been written so far.
      top: How many words, at most.

    Returns:
      Words and their probabilities; of a classifier, classes.
    """
    return list(self._assistant(top).follow(text))

  def export(
    self,
    format: str = 'saved_model',
    output: str | pathlib.Path | None = None,
    *,
    suggestions: int = _DEFAULT_SUGGESTIONS,
    quantize: bool = False,
  ) -> pathlib.Path:
    """Writes the model for use without this package, as `tools.export` does.

    Args:
      format: `saved_model`, `keras`, `tflite`, `hf` or `tokenizer`.
      output: The folder to write; by default export/FORMAT in that of the run.
      suggestions: How many words a saved language model suggests.
      quantize: Whether a TFLite model keeps its weights as bytes.

    Returns:
      The folder, with a README on how to use what is in it.
    """
    from tff_textpriv import flags

    flags.silence_tensorflow()
    from tff_textpriv.export import folders, runs

    target = pathlib.Path(output or self.folder / 'export' / format)
    folders.write(
      runs.read(str(self.folder)), format, target, number=suggestions, quantize=quantize
    )
    return target

  def report(self, output: str | pathlib.Path | None = None) -> pathlib.Path:
    """Writes the page on the run, by default into its folder; returns where it is."""
    from tff_textpriv.reports import page

    target = pathlib.Path(output or self.folder / run_folder.REPORT)
    page.write([self.folder], target)
    return target

  def _classify(self, texts: Sequence[str]) -> list[list[tuple[str, float]]]:
    """Returns the classes of texts, the likeliest first."""
    if isinstance(texts, str):
      raise ResultsError('texts must be a list of texts, and not one')
    answering = self._assistant(_DEFAULT_SUGGESTIONS)
    if answering.completes:
      raise ResultsError(
        f'the model of {self.folder} is a language model, which has no classes: ask '
        '`suggest` for the words that follow a text'
      )
    return [list(classes) for classes in answering.classify(texts)]

  def _assistant(self, top: int) -> 'assistant.Assistant':
    """Returns the model that reads texts; it is made once for so many answers."""
    if top not in self._assistants:
      from tff_textpriv import flags

      flags.silence_tensorflow()
      from tff_textpriv.export import assistant, runs

      run = runs.read(str(self.folder))
      self._assistants[top] = assistant.Assistant(run, top)
    return self._assistants[top]

  @functools.cached_property
  def _assistants(self) -> 'dict[int, assistant.Assistant]':
    return {}

  def curve(self, metric: str) -> tuple[list[int], list[float]]:
    """Returns a figure over rounds, to be plotted: `plt.plot(*result.curve('auc'))`.

    Args:
      metric: A column of metrics.csv; `validation_` may be left out.

    Returns:
      The rounds in which it was measured, and its values.

    Raises:
      ResultsError: If no round has it; names those that there are.
    """
    columns = list(dict.fromkeys(name for row in self.rounds for name in row))
    names = [name for name in (f'validation_{metric}', metric) if name in columns]
    if not names:
      near = settings_lib.did_you_mean(metric, columns)
      raise ResultsError(
        f'{self.folder} has no rounds of {metric!r}, but {", ".join(columns)}{near}'
      )
    return run_folder.points(self.rounds, names[0])

  def __repr__(self) -> str:
    run = f'{self.config["algo"]} on {self.config["task"]}'
    figures = [
      f'  {name.removeprefix("test_")}: {value:.6g}'
      for name, value in self.metrics.items()
      if name.startswith('test_') and isinstance(value, int | float)
    ]
    return '\n'.join(
      [
        f'{run}, {self.metrics["rounds"]} rounds, in {self.folder}',
        *figures,
        *(f'  sanity: {sentence}' for sentence in self.sanity),
        f'  privacy: {self.privacy_card["headline"]}',
      ]
    )


def load(folder: str | pathlib.Path) -> Result:
  """Reads what a finished run has left in its folder.

  Args:
    folder: The run's output folder, as in `runs/stackoverflow_fed_avg`.

  Raises:
    ResultsError: If the folder holds no run, or one that has not finished.
    FileError: If one of its files is missing or damaged.
  """
  folder = pathlib.Path(folder)
  if not run_folder.is_run(folder):
    raise ResultsError(f'{folder} is not the folder of a run: it has no config.json')
  if not run_folder.has_finished(folder):
    raise ResultsError(
      f'the run in {folder} has not finished: it has no results.json; repeat its '
      'command to go on with it'
    )
  return Result(
    folder,
    run_folder.read_config(folder),
    run_folder.read_results(folder),
    list(run_folder.rounds(folder)),
    PrivacyCard(
      run_folder.read_object(folder / run_folder.CARD, 'algo', 'task', 'headline'),
      run_folder.read_text(folder / run_folder.CARD_PAGE),
    ),
  )
