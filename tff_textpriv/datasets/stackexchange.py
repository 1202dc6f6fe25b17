"""Stack Exchange posts, one JSON object a line, as sentences of users.

A row has at least `site`, `user` and `text`; a user is known by site and number.
The text is brought into the form of TFF's StackOverflow: sentences in lower case,
with punctuation as words of its own and `<URL>` in place of addresses.
"""

import html
import re
from collections.abc import Callable, Iterator

from tff_textpriv.datasets import clients, rows
from tff_textpriv.text.normalize import normalize

EXPECTED = (
  'expected one JSON object a line with a string "site", an integer "user" and a '
  'string "text"'
)

# Typographic characters and their plain forms.
_PLAIN = str.maketrans('‘’“”–—', '\'\'""--')
_TAG = re.compile(
  r'</?(?:a|b|blockquote|br|code|em|hr|i|img|kbd|li|ol|p|pre|strong|sub|sup|ul)\b[^<>]*>',
  re.IGNORECASE,
)
# [text](address) and [text][1], of which the text stays; [1]: address.
_LINK = re.compile(r'!?\[([^\[\]]*)\](?:\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)|\[\d+\])')
_LINK_TARGET = re.compile(r'^\s*\[\d+\]:\s+\S+\s*$', re.MULTILINE)
_URL = re.compile(
  r'(?:https?|ftp)://[^\s<>"\']+[^\s<>"\'.,;:!?)\]]|www\.\S+\w', re.IGNORECASE
)
_MARKS = re.compile(r'[*`]+|^\s*(?:#+|>+)\s', re.MULTILINE)
_SENTENCE_END = re.compile(r'(?<=[.!?])\s+(?=["\'(\[]?[A-Z0-9])')
# A word with inner hyphens and apostrophes, or a run of one punctuation mark.
_TOKEN = re.compile(r'<URL>|\w+(?:[\'-]\w+)*|([^\w\s])\1*')


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


def sentences(text: str) -> list[str]:
  """Splits a raw post into clean sentences.

  Args:
    text: The post, maybe with HTML entities and tags and Markdown.

  Returns:
    Non-empty sentences whose words and punctuation are separated by spaces.
  """
  text = html.unescape(text).translate(_PLAIN)
  text = _LINK_TARGET.sub(' ', _LINK.sub(r'\1', _TAG.sub(' ', text)))
  text = _MARKS.sub(' ', _URL.sub(' <URL> ', text))
  cleaned = (
    ' '.join(match.group() for match in _TOKEN.finditer(_lower(normalize(sentence))))
    for line in text.splitlines()
    for sentence in _SENTENCE_END.split(line)
  )
  return [sentence for sentence in cleaned if sentence]


def _lower(text: str) -> str:
  """Makes all letters small but those of the token `<URL>`."""
  return text.lower().replace('<url>', '<URL>')


def _parse_row(raw: bytes) -> tuple[str, str]:
  """Extracts user and text from a line; raises `ValueError` with the reason."""
  row = rows.parse_json(raw)
  for key, kind in (('site', str), ('user', int), ('text', str)):
    if type(row.get(key)) is not kind:
      raise ValueError(f'{key!r} is missing or of the wrong type')
  if not rows.is_encodable(row['site']):
    raise ValueError("'site' has half a character in it")
  return f'{row["site"]}/{row["user"]}', row['text']
