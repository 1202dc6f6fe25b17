"""Plain text files, one document a line: the usual form of public text."""

import re
from collections.abc import Iterator

from tff_textpriv.datasets import rows
from tff_textpriv.text.normalize import normalize

_EXPECTED = 'expected a text file in UTF-8 with one document a line'
# WikiText's headings, such as `= Title =` and `= = Section = =`.
_HEADING = re.compile(r'(= )+[^=].* =')


def read_lines(*paths: str) -> Iterator[str]:
  """Reads the documents of text files, one after the other.

  Blank lines and WikiText headings are left out.

  Args:
    *paths: Files in UTF-8 with one document a line.

  Yields:
    Normalised documents, none of them empty.

  Raises:
    DataError: If a file is missing, or is not in UTF-8; names file and line.
  """
  for path in paths:
    for line in rows.decoded_lines(path, _EXPECTED):
      text = normalize(line.text)
      if text and not _HEADING.fullmatch(text):
        yield text
