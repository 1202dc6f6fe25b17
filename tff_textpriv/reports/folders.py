"""Finds what can be reported in folders: runs, attacks, and summaries of many runs."""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Sequence

from tff_textpriv import run_folder
from tff_textpriv.reports import attacks, runs


class ReportError(ValueError):
  """A report cannot be made, or not be written."""


@dataclasses.dataclass(frozen=True)
class Summary:
  """A page of Markdown in which a study or a sweep set its runs side by side.

  Attributes:
    name: The name of its folder.
    text: The page.
    plot: Its picture, as SVG, if there is one.
  """

  name: str
  text: str
  plot: bytes | None = None


@dataclasses.dataclass(frozen=True)
class Material:
  """Everything that a report is made of."""

  runs: tuple[runs.Run, ...]
  scoreboards: tuple[attacks.Scoreboard, ...]
  summaries: tuple[Summary, ...]

  @property
  def contents(self) -> str:
    """Says what there is, e.g. `2 runs, 1 scoreboard of attacks`."""
    counts = (
      (len(self.runs), 'run', ''),
      (len(self.scoreboards), 'scoreboard', ' of attacks'),
    )
    return ', '.join(
      f'{number} {name}{"" if number == 1 else "s"}{of}'
      for number, name, of in counts
      if number
    )


def search(folders: Sequence[pathlib.Path]) -> Material:
  """Searches folders, each with all that is inside it.

  Args:
    folders: Folders of runs, studies, sweeps or attacks, or folders of such.

  Returns:
    What was found, in the order of the folders and of names, nothing twice.

  Raises:
    ReportError: If a folder does not exist or has nothing in it.
  """
  found_runs: dict[pathlib.Path, None] = {}
  found_attacks: dict[pathlib.Path, None] = {}
  found_pages: dict[pathlib.Path, None] = {}
  for folder in folders:
    if not folder.is_dir():
      raise ReportError(f'{folder}: there is no such folder')
    for parent, subfolders, names in os.walk(folder.resolve()):
      path = pathlib.Path(parent)
      subfolders[:] = sorted(name for name in subfolders if not name.startswith('.'))
      if run_folder.CONFIG in names:
        found_runs[path] = None
        subfolders.clear()  # What is in a run belongs to it.
      elif 'attack.csv' in names or 'attack.json' in names:
        found_attacks[path] = None
      else:
        found_pages |= dict.fromkeys(path / name for name in _summaries(names))
    # A folder may lie in one that was searched before.
    if not any(
      path.is_relative_to(folder.resolve()) for path in (*found_runs, *found_attacks)
    ):
      raise ReportError(
        f'{folder}: there is no run (a folder with a config.json) and no attack (one with '
        'an attack.csv) in it'
      )
  shown = _short_names([*found_runs, *found_attacks])
  return Material(
    tuple(runs.read(path, shown[path]) for path in found_runs),
    tuple(attacks.read(path, shown[path]) for path in found_attacks),
    tuple(_read_summary(page) for page in found_pages),
  )


def _read_summary(page: pathlib.Path) -> Summary:
  problems: list[str] = []
  text = runs.read_text(page, problems)
  picture = page.with_suffix('.svg')
  has_plot = picture.is_file() and not picture.is_symlink()
  return Summary(
    page.parent.name,
    text or '\n'.join(problems),
    picture.read_bytes() if has_plot else None,
  )


def _summaries(names: Sequence[str]) -> list[str]:
  """Returns the pages among a folder's files: those with a table beside them."""
  return sorted(
    name
    for name in names
    if name.endswith('.md') and f'{name.removesuffix(".md")}.csv' in names
  )


def _short_names(paths: Sequence[pathlib.Path]) -> dict[pathlib.Path, str]:
  """Names each folder by the shortest end of its path that no other one has."""
  names: dict[pathlib.Path, str] = {}
  left = list(paths)
  length = 1
  while left:
    ends = {path: '/'.join(path.parts[-length:]) for path in left}
    counts = collections.Counter(ends.values())
    longest = [path for path in left if length >= len(path.parts)]
    names |= {
      path: end for path, end in ends.items() if counts[end] == 1 or path in longest
    }
    left = [path for path in left if path not in names]
    length += 1
  return names
