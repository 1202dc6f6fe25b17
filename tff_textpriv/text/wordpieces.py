"""BERT's way of splitting text: words and marks, and words into pieces of a list."""

import unicodedata
from collections.abc import Sequence

from tff_textpriv.text import normalize, tokens

# Marks a piece that is not the beginning of a word.
INSIDE = '##'
# A longer word counts as unknown, as in BERT's own code.
_MAX_WORD = 100


class WordPieces:
  """Splits texts into the pieces of a vocabulary, longest first.

  Attributes:
    pieces: The vocabulary, in the order of its file.
  """

  def __init__(self, pieces: Sequence[str], *, is_cased: bool = False):
    """Takes the pieces; `##` marks those that are not the beginning of a word.

    Args:
      pieces: The vocabulary.
      is_cased: Whether letters keep their case and their accents.
    """
    self.pieces = list(pieces)
    self._known = set(pieces)
    self._is_cased = is_cased

  def split(self, text: str) -> list[str]:
    """Splits a text into pieces, without marks of its start and its end."""
    return [piece for word in self._words(text) for piece in self.split_word(word)]

  def _words(self, text: str) -> list[str]:
    """Splits a text at white space, and marks off punctuation."""
    text = normalize.normalize(text)
    if not self._is_cased:
      decomposed = unicodedata.normalize('NFD', text.lower())
      text = ''.join(c for c in decomposed if unicodedata.category(c) != 'Mn')
    spaced = ''.join(f' {c} ' if _is_mark(c) else c for c in text)
    return spaced.split()

  def split_word(self, word: str) -> list[str]:
    """Takes the longest piece that fits, again and again; unknown if none does."""
    if len(word) > _MAX_WORD:
      return [tokens.UNKNOWN]
    pieces, start = [], 0
    while start < len(word):
      prefix = INSIDE if start else ''
      end = len(word)
      while end > start and prefix + word[start:end] not in self._known:
        end -= 1
      if end == start:
        return [tokens.UNKNOWN]
      pieces.append(prefix + word[start:end])
      start = end
    return pieces


def _is_mark(character: str) -> bool:
  """Tells whether a character stands alone: punctuation, symbols of ASCII, CJK."""
  code = ord(character)
  if 33 <= code <= 126 and not character.isalnum():
    return True
  is_chinese = 0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF
  return is_chinese or unicodedata.category(character).startswith('P')
