"""Files of runs: written so that they are seen whole or not at all, and read back."""

import json
import os
import pathlib
from typing import Any


class FileError(ValueError):
  """A file that a run wrote cannot be read; the message names it and says why."""


def write_atomically(file: pathlib.Path, content: str | bytes) -> None:
  """Writes a file so that readers see the old one or the new one, even after a crash.

  Args:
    file: Where to write; its folder is created if missing.
    content: Bytes, or text that is written as UTF-8.
  """
  data = content.encode() if isinstance(content, str) else content
  file.parent.mkdir(parents=True, exist_ok=True)
  temporary = file.with_name(f'.{file.name}.{os.getpid()}')
  try:
    with open(temporary, 'wb') as stream:
      stream.write(data)
      stream.flush()
      os.fsync(stream.fileno())
    os.replace(temporary, file)
  finally:
    temporary.unlink(missing_ok=True)


def read_text(file: pathlib.Path) -> str:
  """Reads a text file in UTF-8; raises `FileError` if there is none, or it is not."""
  try:
    return file.read_text(encoding='utf-8')
  except (OSError, UnicodeDecodeError) as error:
    raise FileError(f'{file}: cannot be read ({error})') from error


def read_json(file: pathlib.Path) -> dict[str, Any]:
  """Reads a JSON object; raises `FileError` if there is none."""
  try:
    content = json.loads(read_text(file))
  # A number of too many digits is a plain ValueError.
  except (ValueError, RecursionError) as error:
    if isinstance(error, FileError):
      raise
    raise FileError(f'{file}: not the JSON that a run writes ({error})') from error
  if not isinstance(content, dict):
    raise FileError(f'{file}: not the JSON that a run writes (it is no object)')
  return content
