"""LEAF's JSON: many users in one file, whose comments are texts or lists of tokens.

A file is one object, {"users": [id, ...], "num_samples": [...], "user_data":
{id: {"x": [comment, ...], "y": [...]}, ...}}. In LEAF's Reddit a comment is a list
of pieces of ten tokens; before LEAF's last step it is a string.
"""

import codecs
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from tff_textpriv.datasets import clients, rows

EXPECTED = (
  'expected LEAF\'s JSON: an object with the users\' ids in "users" and, for each of '
  'them, an object in "user_data" whose "x" is a list of comments, each a string or '
  'lists of tokens'
)

# LEAF's own control tokens; tokenizers have theirs.
_CONTROL_TOKENS = frozenset({'<PAD>', '<BOS>', '<EOS>'})
_DECODER = json.JSONDecoder()
# Characters that are read at a time, and those of the longest of NaN, null, Infinity ...
_CHUNK = 1_000_000
_LONGEST_LITERAL = 16
_SPACE = frozenset(' \t\n\r')


def index(path: str, on_broken_row: rows.OnBrokenRow) -> Iterator[tuple[str, int, int]]:
  """Finds the users of a file of any size. Users without any word are left out.

  Users are parsed one at a time, and no other is in memory; to read a user later,
  only that user's part of the file is needed.

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
  for user in read_users(path):
    try:
      comments = user.comments()
    except ValueError as error:
      on_broken_row(user.error(str(error)))
    else:
      if any(comments):
        yield user.name, user.start, user.end


class User(NamedTuple):
  """A user of a file.

  Attributes:
    path: The file.
    name: The user's id.
    line: The line where the value in `user_data` starts, from 1.
    start: Where it starts, in bytes.
    end: Where it ends, in bytes.
    value: The value, parsed.
  """

  path: str
  name: str
  line: int
  start: int
  end: int
  value: Any

  def __repr__(self) -> str:
    return object.__repr__(self)  # Without what users wrote.

  def comments(self) -> list[str]:
    """Extracts the comments; raises `ValueError` with the reason."""
    if not rows.is_encodable(self.name):
      raise ValueError('the id has half a character in it')
    return _comments(self.value)

  def labels(self) -> list[Any]:
    """Extracts the labels, one a comment; raises `ValueError` with the reason."""
    labels = self.value.get('y')
    if not isinstance(labels, list) or len(labels) != len(self.value['x']):
      raise ValueError('there is no list "y" with a label for each comment')
    return labels

  def error(self, problem: str) -> clients.DataError:
    """Makes an error that names the user's line, and neither its id nor its text."""
    return clients.DataError.in_file(
      self.path, f'a user: {problem}; {EXPECTED}', line=self.line
    )


def texts(value: bytes) -> list[str]:
  """Returns the comments in the JSON of one user."""
  return _comments(json.loads(value))


def _comments(value: Any) -> list[str]:
  """Extracts a user's comments; raises `ValueError` with the reason."""
  if not isinstance(value, dict) or not isinstance(value.get('x'), list):
    raise ValueError('there is no list "x"')
  try:
    return [
      ' '.join([token for token in _tokens(comment) if token not in _CONTROL_TOKENS])
      for comment in value['x']
    ]
  except RecursionError as error:
    raise ValueError('a comment is of lists in lists, too deep') from error


def _tokens(comment: Any) -> list[str]:
  """Returns the tokens of a comment, nested in lists or not."""
  if isinstance(comment, str):
    return [comment]
  if not isinstance(comment, list):
    raise ValueError(
      f'a comment holds {type(comment).__name__}, which is neither string nor list'
    )
  # Nearly all lists hold only tokens, and those are many.
  if set(map(type, comment)) == {str}:
    return comment
  return [token for part in comment for token in _tokens(part)]


def read_users(path: str) -> Iterator[User]:
  """Reads the users of a file, of which no more than a user and a bit is in memory.

  Raises:
    DataError: If the file cannot be read, is not complete JSON, or of another kind.
  """
  with clients.reading(path, EXPECTED), open(path, 'rb') as file:
    yield from _Shard(path, file).users()


class _Shard:
  """A file that is walked through once, from its beginning to its end."""

  def __init__(self, path: str, file: BinaryIO):
    self._path = path
    self._file = file
    self._decoder = codecs.getincrementaldecoder('utf-8')()
    # The part of the file that is in memory, and the next character to parse.
    self._text = ''
    self._cursor = 0
    self._is_whole = False
    # How many bytes and lines there were up to a character of the part.
    self._passed = (0, 0, 0)

  def users(self) -> Iterator[User]:
    """Yields each entry of `user_data`."""
    listed: Any = None
    found: set[str] = set()
    try:
      for key in self._keys():
        if key == 'user_data':
          for name in self._keys():
            start, line = self._place()
            value = self._value()
            end, _ = self._place()
            found.add(name)
            yield User(self._path, name, line, start, end, value)
        else:
          value = self._value()
          listed = value if key == 'users' else listed
      if self._peek():
        raise json.JSONDecodeError('more after the end', self._text, self._cursor)
    except json.JSONDecodeError as error:
      self._cursor = error.pos
      _, line = self._place()
      raise clients.DataError.in_file(
        self._path,
        f'damaged, truncated or no JSON ({error.msg}); {EXPECTED}',
        line=line,
      ) from None
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
    """Parses the value at the cursor, and reads on as far as it goes."""
    while True:
      try:
        value, end = _DECODER.raw_decode(self._text, self._cursor)
      except json.JSONDecodeError as error:
        is_cut = len(self._text) - error.pos < _LONGEST_LITERAL
        is_cut = is_cut or error.msg.startswith('Unterminated string')
        if self._is_whole or not is_cut:
          raise
      except (RecursionError, ValueError) as error:  # Too deep, or too many digits.
        raise json.JSONDecodeError(str(error), self._text, self._cursor) from error
      else:
        # At the end of what was read, the number 12 may be the first part of 123.
        if self._is_whole or end < len(self._text):
          self._cursor = end
          return value
      self._read_on()

  def _expect(self, character: str) -> None:
    """Moves behind a character, and the white space around it."""
    if not self._found(character):
      raise json.JSONDecodeError(f'no {character!r} here', self._text, self._cursor)

  def _found(self, character: str) -> bool:
    """Moves as `_expect` does, if the character is there."""
    if self._peek() != character:
      return False
    self._cursor += 1
    self._peek()
    return True

  def _peek(self) -> str:
    """Skips white space; returns the character after it, nothing at the end."""
    while True:
      while self._text[self._cursor : self._cursor + 1] in _SPACE:
        self._cursor += 1
      if self._cursor < len(self._text) or not self._read_on():
        return self._text[self._cursor : self._cursor + 1]

  def _place(self) -> tuple[int, int]:
    """Returns how many bytes are before the cursor, and the number of its line."""
    position, num_bytes, num_lines = self._passed
    part = self._text[position : self._cursor]
    num_bytes += len(part.encode())
    num_lines += part.count('\n')
    self._passed = (self._cursor, num_bytes, num_lines)
    return num_bytes, num_lines + 1

  def _read_on(self) -> bool:
    """Lets go of what is parsed and reads more; returns whether there was more."""
    if self._is_whole:
      return False
    _, num_bytes, num_lines = self._passed
    self._text = self._text[self._passed[0] :]
    self._cursor -= self._passed[0]
    self._passed = (0, num_bytes, num_lines)
    # As much again as is waiting, so that a long value is not parsed too often.
    content = self._file.read(max(_CHUNK, len(self._text)))
    self._is_whole = not content
    try:
      self._text += self._decoder.decode(content, final=self._is_whole)
    except UnicodeDecodeError as error:
      line = num_lines + self._text.count('\n') + 1
      rows.decode(self._path, line, error.object, EXPECTED)
    return not self._is_whole
