"""Raw text in the form of TFF's StackOverflow.

That form is sentences in lower case, with punctuation as words of its own and `<URL>` in
place of addresses.
"""

import html
import re

from tff_textpriv.text.normalize import normalize

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
    ' '.join(match.group() for match in _TOKEN.finditer(fold(sentence)))
    for line in text.splitlines()
    for sentence in _SENTENCE_END.split(line)
  )
  return [sentence for sentence in cleaned if sentence]


def fold(text: str) -> str:
  """Normalises a text and makes all letters small but those of the token `<URL>`."""
  return normalize(text).lower().replace('<url>', '<URL>')
