"""Reads the folder of a run, whole or not.

Nothing that is found in a folder stops a report: what is missing or cannot be read
becomes a sentence among the run's problems.
"""

import dataclasses
import math
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tff_textpriv import files, metrics, run_folder
from tff_textpriv import settings as settings_lib

# Texts of each file of samples, and characters of each text, that are kept.
_MAX_TEXTS = 8
_MAX_TEXT_LENGTH = 300
# New pieces of a tokenizer that are shown.
_MAX_TOKENS = 40

Curve = list[tuple[int, float]]
_Content = TypeVar('_Content')


@dataclasses.dataclass(frozen=True)
class Sample:
  """Some of what a model wrote when it was sampled for a tokenizer.

  Attributes:
    file: Where it stands.
    texts: The first texts.
    tokens: Pieces that the tokenizer learnt from them has and the one before had not, the
      most frequent first.
  """

  file: str
  texts: tuple[str, ...]
  tokens: tuple[str, ...] = ()


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
    about: What the run said when it began: its data, settings and outlook.
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
  about: str
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
    known = metrics.number(self.results.get('bytes_up_per_client'))
    measured = self.curves.get('bytes_per_client')
    return measured[-1][1] if known is None and measured else known


def read(folder: pathlib.Path, name: str) -> Run:
  """Reads a run.

  Args:
    folder: A folder with a config.json.
    name: What the report calls it.
  """
  problems: list[str] = []
  config = read_object(folder / run_folder.CONFIG, problems)
  curves = _read_curves(folder, problems)
  results = read_object(folder / run_folder.RESULTS, problems)
  card = read_object(folder / run_folder.CARD, problems)
  run = Run(
    folder=folder,
    name=name,
    config=config or {},
    results=results or {},
    curves=curves,
    card=card or None,
    card_text=read_text(folder / run_folder.CARD_PAGE, problems),
    lineage=read_text(folder / run_folder.LINEAGE, problems),
    samples=_read_samples(folder / run_folder.SAMPLES, problems),
    about=read_text(folder / run_folder.ABOUT, problems),
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
  broken: dict[str, Any] = {}
  return _tolerantly(run_folder.read_object, file, problems, broken)


def read_text(file: pathlib.Path, problems: list[str]) -> str:
  """Reads a text; an empty one if there is none or it is broken."""
  return _tolerantly(run_folder.read_text, file, problems, '') or ''


def _tolerantly(
  read_file: Callable[[pathlib.Path], _Content],
  file: pathlib.Path,
  problems: list[str],
  broken: _Content,
) -> _Content | None:
  """Reads a file; `None` if there is none, and a problem if it is broken."""
  if not os.path.lexists(file):
    return None
  try:
    return read_file(file)
  except files.FileError as error:
    problems.append(f'{file.name} cannot be read ({error.reason})')
    return broken


def _read_curves(folder: pathlib.Path, problems: list[str]) -> dict[str, Curve]:
  """Reads the columns of a run's metrics, up to where they are broken."""
  curves: dict[str, Curve] = {}
  if not os.path.lexists(folder / run_folder.METRICS):
    return curves  # Nothing has been measured yet.
  try:
    for row in run_folder.rounds(folder):
      round_number = int(row.pop('round'))
      for column, value in row.items():
        if math.isfinite(value):
          curves.setdefault(column, []).append((round_number, value))
  except files.FileError as error:
    problems.append(f'metrics.csv cannot be read to its end ({error.reason})')
  return curves


def _read_samples(folder: pathlib.Path, problems: list[str]) -> tuple[Sample, ...]:
  """Reads the first texts of each file of samples."""
  samples = []
  for file in sorted(folder.glob('*.txt')):
    name = f'{folder.name}/{file.name}'
    try:
      texts = run_folder.first_lines(file, _MAX_TEXTS)
    except files.FileError as error:
      problems.append(f'{name} cannot be read ({error.reason})')
      continue
    record = read_object(folder.parent / 'tokenizers' / f'{file.stem}.json', problems)
    tokens = _new_tokens(record or {})
    samples.append(Sample(name, tuple(map(_shortened, texts)), tokens))
  return tuple(samples)


def _new_tokens(record: Mapping[str, Any]) -> tuple[str, ...]:
  """Reads the first new pieces of a tokenizer's record, if it has any."""
  facts = record.get('facts')
  pieces = facts.get('new_pieces') if isinstance(facts, Mapping) else None
  if not isinstance(pieces, list):
    return ()
  return tuple(_shortened(str(piece)) for piece in pieces[:_MAX_TOKENS])


def without_folders(value: Any) -> str:
  """Writes a setting; of a path from the root, which only this machine has, its end."""
  shown = settings_lib.format_value(value)
  return f'…/{pathlib.PurePath(shown).name}' if shown.startswith('/') else shown


def _shortened(text: str) -> str:
  return text if len(text) <= _MAX_TEXT_LENGTH else text[: _MAX_TEXT_LENGTH - 1] + '…'
