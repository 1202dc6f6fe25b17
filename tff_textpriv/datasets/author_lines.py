"""One comment a line, after its author's id and a tab."""

from collections.abc import Iterator

from tff_textpriv.datasets import rows

EXPECTED = 'expected a line in UTF-8 with an author, a tab and a comment'

# Reddit's name for all authors who are gone: many people, who are no one user.
_GONE = '[deleted]'


def index(path: str, on_broken_row: rows.OnBrokenRow) -> Iterator[tuple[str, int, int]]:
  """Finds the comments of a file of any size, without keeping any.

  Empty comments, and those whose author is `[deleted]`, are left out.

  Args:
    path: The file.
    on_broken_row: See `rows.read`.

  Yields:
    Triples of an author, and where in the file the line starts and ends.
  """
  for row in rows.read(path, _parse, EXPECTED, on_broken_row):
    author, comment = row.value
    if comment.strip() and author != _GONE:
      yield author, row.start, row.end


def texts(lines: bytes) -> list[str]:
  """Returns the comments in a part of a file that consists of good lines."""
  return [_parse(line)[1] for line in lines.split(b'\n') if line]


def _parse(line: bytes) -> tuple[str, str]:
  """Extracts author and comment from a line; raises `ValueError` with the reason."""
  author, tab, comment = line.decode().rstrip('\r\n').partition('\t')
  if not tab:
    raise ValueError('there is no tab')
  if not author.strip():
    raise ValueError('there is no author before the tab')
  return author.strip(), comment
