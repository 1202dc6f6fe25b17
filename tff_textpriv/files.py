"""Writing files that are seen whole or not at all."""

import os
import pathlib


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
