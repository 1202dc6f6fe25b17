"""The folder of a run: the names of its files, and the one way to read each.

Whoever reads a run reads it here: results, reports, exports, studies and sweeps. All
that is here needs nothing but Python itself. A file that is missing, damaged or a link
raises `FileError`; a report makes a sentence of its `reason`.
"""

import csv
import itertools
import json
import pathlib
import shutil
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tff_textpriv import files

CONFIG = 'config.json'
RESULTS = 'results.json'
METRICS = 'metrics.csv'
CARD = 'privacy_card.json'
CARD_PAGE = 'privacy_card.md'
LINEAGE = 'tokenizer_lineage.md'
SAMPLES = 'samples'
MODEL = 'model.keras'
SECRET = 'secret.key'
REPORT = 'report.html'
ABOUT = 'about.txt'


class BranchError(ValueError):
  """A run cannot begin as the copy of another one."""


def is_run(folder: pathlib.Path) -> bool:
  """Tells whether a folder has been claimed by a run."""
  return (folder / CONFIG).exists()


def has_finished(folder: pathlib.Path) -> bool:
  """Tells whether the run has come to its end: its results are written last."""
  return (folder / RESULTS).exists()


def read_config(folder: pathlib.Path) -> dict[str, Any]:
  """Reads every setting that decided the result, by flag; `algo` and `task` are text."""
  config = read_object(folder / CONFIG)
  for name in ('algo', 'task'):
    if not isinstance(config.get(name), str):
      raise _without(folder / CONFIG, name)
  return config


def read_results(folder: pathlib.Path) -> dict[str, Any]:
  """Reads the figures of a finished run."""
  return read_object(folder / RESULTS, 'rounds')


def finished_results(
  folder: pathlib.Path, config: Mapping[str, Any]
) -> dict[str, Any] | None:
  """Reads the results of a run that is done with these settings; `None` if it is not."""
  if not has_finished(folder) or not is_run(folder):
    return None
  if read_object(folder / CONFIG) != json.loads(json.dumps(config)):
    # Running it will say which settings differ.
    return None
  return read_object(folder / RESULTS)


def rounds(folder: pathlib.Path) -> Iterator[dict[str, float]]:
  """Reads metrics.csv round after round, up to where it is broken.

  Yields:
    The columns of a round, without the cells that are empty; `round` is one of them.
  """
  file = _own(folder / METRICS)
  try:
    with open(file, newline='', encoding='utf-8') as stream:
      for row in csv.DictReader(stream):
        measured = {name: float(value) for name, value in row.items() if value}
        int(measured['round'])  # It is a number, and not infinite.
        yield measured
  except (OSError, UnicodeDecodeError) as error:
    raise files.unreadable(file, error) from error
  # Too many cells are a list under no name.
  except (ValueError, TypeError, KeyError, OverflowError, csv.Error) as error:
    raise files.FileError(
      f'{file}: not the table that a run writes ({error!r})', str(error)
    ) from error


def points(
  measured: list[dict[str, float]], column: str
) -> tuple[list[int], list[float]]:
  """Returns the rounds that have a column, and its values in them."""
  having = [row for row in measured if column in row]
  return [int(row['round']) for row in having], [row[column] for row in having]


def last_round(folder: pathlib.Path) -> int:
  """Returns the last round that is in metrics.csv; 0 if there is none."""
  if not (folder / METRICS).exists():
    return 0
  return max((int(row['round']) for row in rounds(folder)), default=0)


def branch(
  source: pathlib.Path,
  target: pathlib.Path,
  config: Mapping[str, Any],
  differing: Collection[str],
) -> None:
  """Copies a run that was stopped, as the beginning of one with other settings.

  The copy is seen whole or not at all. Nobody may be running in the source.

  Args:
    source: The folder of the run.
    target: The folder of the new one, which must not exist.
    config: The settings of the new one.
    differing: The settings in which they may differ: those that have changed nothing
      so far. That is for the caller to know.

  Raises:
    BranchError: If they differ in other settings, or the run has finished, or has a
      secret: two runs with one secret would share their noise.
  """
  if (source / SECRET).exists():
    raise BranchError(
      f'{source}: its noise follows from a secret that no other run may have; '
      'branches need --noise_source=seeded'
    )
  if has_finished(source):
    raise BranchError(f'{source}: the run has finished, and cannot be branched from')
  now = json.loads(json.dumps(config))
  before = read_object(source / CONFIG)
  for name in sorted({*before, *now} - set(differing)):
    if before.get(name) != now.get(name):
      raise BranchError(
        f'{target} cannot branch from {source}: they differ in --{name}, too'
      )
  if target.exists():
    raise BranchError(f'{target} exists, and cannot become a branch')
  partial = target.with_name(f'.branch.{target.name}')
  shutil.rmtree(partial, ignore_errors=True)  # One that was killed.
  left_out = shutil.ignore_patterns('.lock', CONFIG)
  shutil.copytree(source, partial, symlinks=True, ignore=left_out)
  files.write_atomically(partial / CONFIG, json.dumps(config, indent=2) + '\n')
  partial.rename(target)


def read_object(file: pathlib.Path, *names: str) -> dict[str, Any]:
  """Reads a JSON object that must have some names."""
  content = files.read_json(_own(file))
  for name in names:
    if name not in content:
      raise _without(file, name)
  return content


def read_text(file: pathlib.Path) -> str:
  """Reads a page or another text."""
  return files.read_text(_own(file))


def first_lines(file: pathlib.Path, number: int) -> list[str]:
  """Reads the first lines of a file of samples that are not empty."""
  try:
    with open(_own(file), encoding='utf-8') as stream:
      stripped = (line.strip() for line in stream)
      return list(itertools.islice((line for line in stripped if line), number))
  except (OSError, UnicodeDecodeError) as error:
    raise files.unreadable(file, error) from error


def _own(file: pathlib.Path) -> pathlib.Path:
  """Refuses a link: a run has none, and what is read may be shown or passed on."""
  if file.is_symlink():
    raise files.unreadable(file, 'it is a link to another file')
  return file


def _without(file: pathlib.Path, name: str) -> files.FileError:
  return files.FileError(f'{file}: there is no {name!r} in it')
