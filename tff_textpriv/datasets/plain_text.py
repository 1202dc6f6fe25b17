"""Plain text files, one document a line: the usual form of public text."""

import re
from collections.abc import Iterator

from tff_textpriv.datasets import clients
from tff_textpriv.text.normalize import normalize

# WikiText's headings, such as `= Title =` and `= = Section = =`.
_HEADING = re.compile(r'(= )+[^=].* =')


def read_lines(*paths: str, keep_headings: bool = False) -> Iterator[str]:
  """Reads the documents of text files, one after the other.

  Blank lines and WikiText headings are left out.

  Args:
    *paths: Files in UTF-8 with one document a line.
    keep_headings: Whether headings are documents too.

  Yields:
    Normalised documents, none of them empty.

  Raises:
    DataError: If a file is missing, or is not in UTF-8; names file and line.
  """
  for path in paths:
    try:
      with open(path, 'rb') as file:
        for number, raw in enumerate(file, start=1):
          line = normalize(_decode(path, number, raw))
          if line and (keep_headings or not _HEADING.fullmatch(line)):
            yield line
    except OSError as error:
      raise clients.DataError.in_file(
        path,
        f'cannot be read ({error.strerror}); expected a text file in UTF-8 with one '
        'document a line',
      ) from error


def _decode(path: str, number: int, raw: bytes) -> str:
  """Decodes one line; a byte-order mark before the first is left out."""
  try:
    return raw.decode('utf-8-sig' if number == 1 else 'utf-8')
  except UnicodeDecodeError as error:
    raise clients.DataError.in_file(
      path,
      f'not UTF-8 ({error.reason} at byte {error.start + 1} of the line); expected a '
      'text file in UTF-8 with one document a line',
      line=number,
    ) from error
