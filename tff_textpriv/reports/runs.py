"""Reads the folder of a run, whole or not.

Nothing that is found in a folder stops a report: what is missing or cannot be read
becomes a sentence among the run's problems.
"""

import csv
import dataclasses
import itertools
import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any

# Texts of each file of samples, and characters of each text, that are kept.
_MAX_TEXTS = 8
_MAX_TEXT_LENGTH = 300

Curve = list[tuple[int, float]]


@dataclasses.dataclass(frozen=True)
class Sample:
  """Some of what a model wrote when it was sampled for a tokenizer."""

  file: str
  texts: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Run:
  """What a run left.

  Attributes:
    folder: Where.
    name: Its name in the report, unlike that of any other run.
    config: Its settings; empty if they cannot be read.
    results: The figures of results.json; empty if the run has not ended.
    curves: Columns of metrics.csv: (round, value), where there is a finite value.
    card: The privacy card; `None` if there is none.
    card_text: The card in Markdown.
    lineage: tokenizer_lineage.md, if there is one.
    samples: What the model wrote.
    problems: Sentences on what is missing or broken.
  """

  folder: pathlib.Path
  name: str
  config: Mapping[str, Any]
  results: Mapping[str, Any]
  curves: Mapping[str, Curve]
  card: Mapping[str, Any] | None
  card_text: str
  lineage: str
  samples: tuple[Sample, ...]
  problems: tuple[str, ...]

  @property
  def task(self) -> str:
    """The task's name."""
    return str(self.config.get('task', 'unknown task'))

  @property
  def algo(self) -> str:
    """The algorithm's name."""
    return str(self.config.get('algo', 'unknown algorithm'))

  @property
  def is_finished(self) -> bool:
    """Whether the run came to its end and can be compared with others."""
    return bool(self.config and self.results)

  @property
  def rounds_done(self) -> int:
    """The last round that was measured."""
    return max((curve[-1][0] for curve in self.curves.values() if curve), default=0)

  @property
  def bytes_up(self) -> float | None:
    """Bytes that a client sends in a round, where the run says so."""
    known = number(self.results.get('bytes_up_per_client'))
    measured = self.curves.get('bytes_per_client')
    return measured[-1][1] if known is None and measured else known


def number(value: Any) -> float | None:
  """Returns a finite number, or `None` for anything else."""
  is_number = isinstance(value, int | float) and not isinstance(value, bool)
  return float(value) if is_number and math.isfinite(value) else None


def read(folder: pathlib.Path, name: str) -> Run:
  """Reads a run.

  Args:
    folder: A folder with a config.json.
    name: What the report calls it.
  """
  problems: list[str] = []
  config = read_object(folder / 'config.json', problems)
  curves = _read_curves(folder / 'metrics.csv', problems)
  results = read_object(folder / 'results.json', problems)
  card = read_object(folder / 'privacy_card.json', problems)
  run = Run(
    folder=folder,
    name=name,
    config=config or {},
    results=results or {},
    curves=curves,
    card=card or None,
    card_text=read_text(folder / 'privacy_card.md', problems),
    lineage=read_text(folder / 'tokenizer_lineage.md', problems),
    samples=_read_samples(folder / 'samples', problems),
    problems=(),
  )
  if results is None:
    planned = run.config.get('total_rounds', '?')
    problems.append(
      f'it has not ended: {run.rounds_done} of {planned} rounds are in metrics.csv and '
      'there is no results.json. It is still running, was stopped, or failed; repeating '
      'its command goes on with it'
    )
  elif card is None:
    problems.append(
      'it has no privacy_card.json, so that it is shown without a promise'
    )
  return dataclasses.replace(run, problems=tuple(problems))


def read_object(file: pathlib.Path, problems: list[str]) -> dict[str, Any] | None:
  """Reads a JSON object; `None` if there is no file, empty if it is broken."""
  try:
    content = json.loads(_own_file(file).read_text(encoding='utf-8'))
  except FileNotFoundError:
    return None
  except (OSError, ValueError, RecursionError) as error:
    problems.append(f'{file.name} cannot be read ({error})')
    return {}
  if not isinstance(content, dict):
    problems.append(f'{file.name} cannot be read (it is not a JSON object)')
    return {}
  return content


def _read_curves(file: pathlib.Path, problems: list[str]) -> dict[str, Curve]:
  """Reads the columns of a run's metrics."""
  curves: dict[str, Curve] = {}
  try:
    with open(_own_file(file), newline='', encoding='utf-8') as stream:
      for row in csv.DictReader(stream):
        round_number = int(row.pop('round'))
        for column, text in row.items():
          if text and math.isfinite(float(text)):
            curves.setdefault(column, []).append((round_number, float(text)))
  except FileNotFoundError:
    pass  # Nothing has been measured yet.
  except (OSError, ValueError, LookupError, TypeError, csv.Error) as error:
    problems.append(f'metrics.csv cannot be read to its end ({error})')
  return curves


def read_text(file: pathlib.Path, problems: list[str]) -> str:
  """Reads a text; an empty one if there is none or it is broken."""
  try:
    return _own_file(file).read_text(encoding='utf-8')
  except FileNotFoundError:
    return ''
  except (OSError, ValueError) as error:
    problems.append(f'{file.name} cannot be read ({error})')
    return ''


def _read_samples(folder: pathlib.Path, problems: list[str]) -> tuple[Sample, ...]:
  """Reads the first texts of each file of samples."""
  samples = []
  for file in sorted(folder.glob('*.txt')):
    try:
      with open(_own_file(file), encoding='utf-8') as stream:
        lines = list(
          itertools.islice((line for line in stream if line.strip()), _MAX_TEXTS)
        )
    except (OSError, ValueError) as error:
      problems.append(f'samples/{file.name} cannot be read ({error})')
      continue
    texts = tuple(_shortened(line.strip()) for line in lines)
    samples.append(Sample(f'samples/{file.name}', texts))
  return tuple(samples)


def _own_file(file: pathlib.Path) -> pathlib.Path:
  """Refuses a link: a run has none, and a report shows what it leads to."""
  if file.is_symlink():
    raise OSError('it is a link to another file')
  return file


def _shortened(text: str) -> str:
  return text if len(text) <= _MAX_TEXT_LENGTH else text[: _MAX_TEXT_LENGTH - 1] + '…'
