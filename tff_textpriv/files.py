"""Files of runs: written so that they are seen whole or not at all, and read back."""

import contextlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

_PARTIAL = '.partial.'


class FileError(ValueError):
  """A file that a run wrote cannot be read; the message names it and says why.

  Attributes:
    reason: The why alone.
  """

  def __init__(self, message: str, reason: str = ''):
    super().__init__(message)
    self.reason = reason or message


@contextlib.contextmanager
def replacing(file: pathlib.Path) -> Iterator[pathlib.Path]:
  """Lets a block write a file that is seen only when it is whole.

  Args:
    file: Where it is to be; its folder is created if missing.

  Yields:
    Where to write it. What the block has written takes the place of `file` at its end,
    and is deleted if the block fails.
  """
  file.parent.mkdir(parents=True, exist_ok=True)
  temporary = file.with_name(f'{_PARTIAL}{os.getpid()}.{file.name}')
  try:
    yield temporary
    with open(temporary, 'rb') as stream:
      os.fsync(stream.fileno())
    os.replace(temporary, file)
    _sync_folder(file.parent)
  finally:
    temporary.unlink(missing_ok=True)


def _sync_folder(folder: pathlib.Path) -> None:
  """Has the disk keep the names of a folder's files."""
  handle = os.open(folder, os.O_RDONLY)
  try:
    os.fsync(handle)
  finally:
    os.close(handle)


def write_atomically(file: pathlib.Path, content: str | bytes) -> None:
  """Writes a file so that readers see the old one or the new one, even after a crash.

  Args:
    file: Where to write; its folder is created if missing.
    content: Bytes, or text that is written as UTF-8.
  """
  with replacing(file) as temporary:
    temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def remove_partial(folder: pathlib.Path) -> None:
  """Deletes what killed processes left half-written in a folder and those in it."""
  for pattern in (f'{_PARTIAL}*', f'*/{_PARTIAL}*'):
    for unfinished in folder.glob(pattern):
      unfinished.unlink()


def read_text(file: pathlib.Path) -> str:
  """Reads a text file in UTF-8; raises `FileError` if there is none, or it is not."""
  try:
    return file.read_text(encoding='utf-8')
  except (OSError, UnicodeDecodeError) as error:
    raise unreadable(file, error) from error


def read_json(file: pathlib.Path) -> dict[str, Any]:
  """Reads a JSON object; raises `FileError` if there is none."""
  text = read_text(file)
  try:
    content = json.loads(text)
  # A number of too many digits is a plain ValueError.
  except (ValueError, RecursionError) as error:
    raise FileError(
      f'{file}: not the JSON that a run writes ({error})', str(error)
    ) from error
  if not isinstance(content, dict):
    raise FileError(
      f'{file}: not the JSON that a run writes (it is no object)',
      'it is not a JSON object',
    )
  return content


def unreadable(file: pathlib.Path, why: object) -> FileError:
  """Returns the error of a file that cannot be read, for a reason."""
  return FileError(f'{file}: cannot be read ({why})', str(why))
