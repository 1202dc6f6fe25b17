"""LEAF's JSON: many users in one file, whose comments are texts or lists of tokens.

A file is one object, {"users": [id, ...], "num_samples": [...], "user_data":
{id: {"x": [comment, ...], "y": [...]}, ...}}. In LEAF's Reddit a comment is a list
of pieces of ten tokens; before LEAF's last step it is a string.
"""

import json
from collections.abc import Iterator
from typing import Any

from tff_textpriv.datasets import clients, rows

EXPECTED = (
  'expected LEAF\'s JSON: an object with the users\' ids in "users" and, for each of '
  'them, an object in "user_data" whose "x" is a list of comments, each a string or '
  'lists of tokens'
)

# LEAF's own control tokens; tokenizers have theirs.
_CONTROL_TOKENS = frozenset({'<PAD>', '<BOS>', '<EOS>'})
_DECODER = json.JSONDecoder()
_SPACE = frozenset(' \t\n\r')


def index(path: str, on_broken_row: rows.OnBrokenRow) -> Iterator[tuple[str, int, int]]:
  """Finds the users of a file. Users without any word are left out.

  The file is held in memory, but users are parsed one at a time; to read a user
  later, only that user's part of the file is needed.

  Args:
    path: The file.
    on_broken_row: Called with an error for each user whose data cannot be used;
      the user is left out unless this raises.

  Yields:
    Triples of a user, and where in the file the value in `user_data` starts and
    ends, in bytes.

  Raises:
    DataError: If the file is not complete JSON, or of another kind.
  """
  shard = _Shard(path)
  for user, start, end, value in shard.users():
    try:
      comments = _comments(value)
    except ValueError as error:
      on_broken_row(shard.error(f'user {user!r}: {error}', start))
    else:
      if any(comments):
        yield user, shard.num_bytes(start), shard.num_bytes(end)


def texts(value: bytes) -> list[str]:
  """Returns the comments in the JSON of one user."""
  return _comments(json.loads(value))


def _comments(value: Any) -> list[str]:
  """Extracts a user's comments; raises `ValueError` with the reason."""
  if not isinstance(value, dict) or not isinstance(value.get('x'), list):
    raise ValueError('there is no list "x"')
  return [
    ' '.join([token for token in _tokens(comment) if token not in _CONTROL_TOKENS])
    for comment in value['x']
  ]


def _tokens(comment: Any) -> list[str]:
  """Returns the tokens of a comment, nested in lists or not."""
  if isinstance(comment, str):
    return [comment]
  if not isinstance(comment, list):
    raise ValueError(f'a comment holds {comment!r}, which is neither string nor list')
  # Nearly all lists hold only tokens, and those are many.
  if set(map(type, comment)) == {str}:
    return comment
  return [token for part in comment for token in _tokens(part)]


class _Shard:
  """A file that is walked through once, from its beginning to its end."""

  def __init__(self, path: str):
    with open(path, 'rb') as file:
      content = file.read()
    self._path = path
    try:
      self._text = content.decode()
    except UnicodeDecodeError as error:
      raise clients.DataError.in_file(
        path,
        f'not UTF-8 ({error.reason}); {EXPECTED}',
        line=content.count(b'\n', 0, error.start) + 1,
      ) from error
    # The next character to parse.
    self._cursor = 0
    # A place that was passed, in characters and in bytes.
    self._passed = (0, 0)

  def error(self, problem: str, position: int) -> clients.DataError:
    """Makes an error that names the line of a character."""
    line = self._text.count('\n', 0, position) + 1
    return clients.DataError.in_file(self._path, f'{problem}; {EXPECTED}', line=line)

  def num_bytes(self, position: int) -> int:
    """Counts the bytes before a character; positions may only grow from call to call."""
    characters, num_bytes = self._passed
    num_bytes += len(self._text[characters:position].encode())
    self._passed = (position, num_bytes)
    return num_bytes

  def users(self) -> Iterator[tuple[str, int, int, Any]]:
    """Yields each entry of `user_data`: user, start and end in characters, value."""
    listed: Any = None
    found: set[str] = set()
    try:
      for key in self._keys():
        if key == 'user_data':
          for user in self._keys():
            start = self._cursor
            value = self._value()
            found.add(user)
            yield user, start, self._cursor, value
        else:
          value = self._value()
          listed = value if key == 'users' else listed
      if self._cursor < len(self._text):
        raise json.JSONDecodeError('more after the end', self._text, self._cursor)
    except json.JSONDecodeError as error:
      raise self.error(
        f'damaged, truncated or no JSON ({error.msg}, column {error.colno})', error.pos
      ) from error
    if not isinstance(listed, list) or found != set(map(str, listed)):
      raise clients.DataError.in_file(
        self._path, f'"users" and "user_data" do not list the same users; {EXPECTED}'
      )

  def _keys(self) -> Iterator[str]:
    """Yields the keys of the object at the cursor, which stands at each one's value.

    Whoever asks for the next key must have moved the cursor behind the value.
    """
    self._expect('{')
    if self._found('}'):
      return
    while True:
      key = self._value()
      if not isinstance(key, str):
        raise json.JSONDecodeError('a key is no string', self._text, self._cursor)
      self._expect(':')
      yield key
      if self._found('}'):
        return
      self._expect(',')

  def _value(self) -> Any:
    """Parses the value at the cursor."""
    value, self._cursor = _DECODER.raw_decode(self._text, self._cursor)
    return value

  def _expect(self, character: str) -> None:
    """Moves behind a character, and the white space around it."""
    if not self._found(character):
      raise json.JSONDecodeError(f'no {character!r} here', self._text, self._cursor)

  def _found(self, character: str) -> bool:
    """Moves as `_expect` does, if the character is there."""
    self._skip_space()
    if not self._text.startswith(character, self._cursor):
      return False
    self._cursor += 1
    self._skip_space()
    return True

  def _skip_space(self) -> None:
    while self._text[self._cursor : self._cursor + 1] in _SPACE:
      self._cursor += 1
