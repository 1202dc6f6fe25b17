"""What a finished run left in its folder, read back: figures, rounds, card, model.

Until the model is asked for, this needs nothing but Python itself: a notebook whose own
Python is too new for TensorFlow Federated can still show what a run has left.
"""

import csv
import dataclasses
import functools
import io
import pathlib
from typing import TYPE_CHECKING, Any

from tff_textpriv import files
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
    file = self.folder / 'model.keras'
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
    return points(self.rounds, names[0])

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
  """Reads the folder of a finished run.

  Args:
    folder: The run's output folder, as in `runs/stackoverflow_fed_avg`.

  Returns:
    What the run has left.

  Raises:
    ResultsError: If the folder holds no run, or one that has not finished.
    FileError: If one of its files is missing or damaged.
  """
  folder = pathlib.Path(folder)
  if not (folder / 'config.json').exists():
    raise ResultsError(f'{folder} is not the folder of a run: it has no config.json')
  if not (folder / 'results.json').exists():
    raise ResultsError(
      f'the run in {folder} has not finished: it has no results.json; repeat its '
      'command to go on with it'
    )
  return Result(
    folder,
    _read(folder / 'config.json', 'algo', 'task'),
    _read(folder / 'results.json', 'rounds'),
    read_rounds(folder),
    PrivacyCard(
      _read(folder / 'privacy_card.json', 'algo', 'task', 'headline'),
      files.read_text(folder / 'privacy_card.md'),
    ),
  )


def read_rounds(folder: pathlib.Path) -> list[dict[str, float]]:
  """Reads metrics.csv: a map for each round, without the cells that are empty."""
  file = folder / 'metrics.csv'
  lines = io.StringIO(files.read_text(file), newline='')
  try:
    rows = list(csv.DictReader(lines))
    rounds = [
      {name: float(value) for name, value in row.items() if value} for row in rows
    ]
    for row in rounds:
      int(row['round'])
    return rounds
  # Too many cells are a list under no name.
  except (ValueError, TypeError, KeyError, OverflowError, csv.Error) as error:
    raise files.FileError(
      f'{file}: not the table that a run writes ({error!r})'
    ) from error


def points(
  rounds: list[dict[str, float]], column: str
) -> tuple[list[int], list[float]]:
  """Returns the rounds that have a column, and its values in them."""
  having = [row for row in rounds if column in row]
  return [int(row['round']) for row in having], [row[column] for row in having]


def _read(file: pathlib.Path, *names: str) -> dict[str, Any]:
  """Reads a JSON object that must have some names."""
  content = files.read_json(file)
  for name in names:
    if name not in content:
      raise files.FileError(f'{file}: there is no {name!r} in it')
  return content
