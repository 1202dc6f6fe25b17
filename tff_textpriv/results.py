"""What a finished run left in its folder, read back: figures, rounds, card, model.

Until the model is asked for, this needs nothing but Python itself: a notebook whose own
Python is too new for TensorFlow Federated can still show what a run has left.
"""

import dataclasses
import functools
import pathlib
from typing import TYPE_CHECKING, Any

from tff_textpriv import run_folder
from tff_textpriv import settings as settings_lib

if TYPE_CHECKING:
  import tensorflow as tf


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
