"""Reddit self posts, one JSON object a line, which do not tell their authors.

The subreddit stands in for the user: people who write on one subject.
"""

from collections.abc import Iterator

from tff_textpriv.datasets import rows

EXPECTED = 'expected one JSON object a line with strings "subreddit" and "text"'


def read_posts(
  path: str, on_broken_row: rows.OnBrokenRow
) -> Iterator[tuple[int, str, str]]:
  """Reads posts in the order of the file.

  Args:
    path: The file, in UTF-8.
    on_broken_row: See `rows.read`.

  Yields:
    Triples of the number of bytes read so far, the subreddit, and the raw text,
    which may be empty.
  """
  for row in rows.read(path, _parse_row, EXPECTED, on_broken_row):
    yield row.end, *row.value


def _parse_row(line: bytes) -> tuple[str, str]:
  """Extracts subreddit and text; raises `ValueError` with the reason."""
  row = rows.parse_json(line)
  for key in ('subreddit', 'text'):
    if not isinstance(row.get(key), str):
      raise ValueError(f'{key!r} is missing or no string')
  if not row['subreddit'] or not rows.is_encodable(row['subreddit']):
    raise ValueError("'subreddit' is empty, or has half a character in it")
  return row['subreddit'], row['text']
