"""The output folder of a run: one place for its files, one run at a time."""

import errno
import fcntl
import json
import os
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

from tff_textpriv import files
from tff_textpriv import settings as settings_lib

# What Python, TensorFlow, its workers and SQLite say when there is no room.
_FULL = (
  os.strerror(errno.ENOSPC),
  os.strerror(errno.EDQUOT),
  'database or disk is full',
)


class OutputError(ValueError):
  """The output folder cannot be used for this run."""


class OutputFolder:
  """A run's folder, locked while the `with` block of the run lasts.

  Attributes:
    path: The folder.
  """

  def __init__(self, path: pathlib.Path, name_flag: str = 'experiment_name'):
    """Creates the folder if it is missing, locks it, and removes half-written files.

    Args:
      path: The folder of this run alone.
      name_flag: The flag that names the folder, for errors.

    Raises:
      OutputError: If another process is running there, or it cannot be written.
    """
    self.path = path
    self._name_flag = name_flag
    try:
      path.mkdir(parents=True, exist_ok=True)
      self._lock = open(path / '.lock', 'w')  # noqa: SIM115 (held for the run)
    except OSError as error:
      raise OutputError(f'cannot write to {path}: {error.strerror}') from error
    try:
      fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
      raise OutputError(
        f'another process is running in {path}; wait for it, or choose another '
        f'--{name_flag}'
      ) from error
    files.remove_partial(path)

  def __enter__(self) -> 'OutputFolder':
    return self

  def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
    """Frees the folder.

    Raises:
      OutputError: If what ended the block is that the disk is full.
    """
    self._lock.close()
    problem = _no_room(error)
    if problem is not None:
      raise OutputError(
        f'no space is left for what the run in {self.path} writes ({problem}); its last '
        'checkpoint is whole: make room and repeat the command to go on'
      ) from error

  def check_config(
    self, config: Mapping[str, Any], may_grow: Collection[str] = ()
  ) -> None:
    """Compares the run's settings with those that the folder is claimed for.

    Args:
      config: Everything that decides the result; must survive JSON.
      may_grow: Settings that may be larger than they were, for a run that goes on.

    Raises:
      OutputError: If the folder holds a run with other settings; names them.
      FileError: If its config.json is damaged.
    """
    file = self.path / 'config.json'
    if not file.exists():
      return
    before = files.read_json(file)
    now = json.loads(json.dumps(config))
    differing = [
      f'--{name}: {_shown(before, name)} before, {_shown(now, name)} now'
      for name in sorted({*before, *now})
      if before.get(name) != now.get(name)
      and not (name in may_grow and before.get(name, 0) < now.get(name, 0))
    ]
    if differing:
      raise OutputError(
        f'{self.path} holds a run with other settings ('
        + '; '.join(differing)
        + '). Repeat its settings to resume it, or choose another '
        f'--{self._name_flag}.'
      )

  def claim(self, config: Mapping[str, Any]) -> None:
    """Keeps the folder for runs with these settings, once the run is sure to begin.

    A run that has grown is not done any more: its results are not those of its settings.
    """
    file = self.path / 'config.json'
    if file.exists() and files.read_json(file) == json.loads(json.dumps(config)):
      return
    (self.path / 'results.json').unlink(missing_ok=True)
    files.write_atomically(file, json.dumps(config, indent=2) + '\n')


def _no_room(error: BaseException | None) -> str | None:
  """Returns the first line of an error that comes of a full disk, else `None`."""
  while error is not None:
    if any(phrase in str(error) for phrase in _FULL):
      return str(error).splitlines()[0]
    error = error.__cause__ or error.__context__
  return None


def _shown(config: Mapping[str, Any], name: str) -> str:
  return settings_lib.format_value(config[name]) if name in config else '(absent)'
