"""Stack Exchange posts, one JSON object a line.

A row has at least `site`, `user` and `text`; a user is known by site and number.
"""

from collections.abc import Callable, Iterator

from tff_textpriv.datasets import clients, rows

EXPECTED = (
  'expected one JSON object a line with a string "site", an integer "user" and a '
  'string "text"'
)


def read_posts(
  path: str, on_broken_row: Callable[[clients.DataError], None]
) -> Iterator[tuple[int, str, str]]:
  """Reads posts in the order of the file.

  Args:
    path: The file, in UTF-8.
    on_broken_row: Called with an error that names the line, for each row that
      cannot be used; the row is left out unless this raises.

  Yields:
    Triples of the number of bytes read so far, the user as `site/number`, and
    the raw text, which may be empty.
  """
  position = 0
  with open(path, 'rb') as file:
    for number, raw in enumerate(file, start=1):
      position += len(raw)
      try:
        user, text = _parse_row(raw)
      except ValueError as error:
        broken = clients.DataError.in_file(path, f'{error}; {EXPECTED}', line=number)
      else:
        yield position, user, text
        continue
      # The error has ended here: it holds the line.
      on_broken_row(broken)


def _parse_row(raw: bytes) -> tuple[str, str]:
  """Extracts user and text from a line; raises `ValueError` with the reason."""
  row = rows.parse_json(raw)
  for key, kind in (('site', str), ('user', int), ('text', str)):
    if type(row.get(key)) is not kind:
      raise ValueError(f'{key!r} is missing or of the wrong type')
  if not rows.is_encodable(row['site']):
    raise ValueError("'site' has half a character in it")
  return f'{row["site"]}/{row["user"]}', row['text']
