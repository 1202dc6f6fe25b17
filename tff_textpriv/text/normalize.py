"""How raw text is cleaned: the one rule that every reader applies."""

import unicodedata


def normalize(text: str) -> str:
  """Brings text into the form in which all data sets are read.

  Compatibility characters are replaced by their plain forms (NFKC), so that
  look-alikes count as one word; control characters and lone surrogates (which
  no file can hold) become spaces, and white space is collapsed to single spaces.
  Letter case stays as it is. The function is idempotent.

  Args:
    text: Any text.

  Returns:
    The text on one line, without leading or trailing space; maybe empty.
  """
  plain = unicodedata.normalize('NFKC', text)
  if not plain.isprintable():
    plain = ''.join(
      ' ' if unicodedata.category(character) in ('Cc', 'Cs') else character
      for character in plain
    )
  return ' '.join(plain.split())
