"""The marks of corpora for language modelling, and how to undo them.

WikiText and Penn Treebank come in words separated by spaces: punctuation and endings
such as `'s` stand alone, rare words are `<unk>`, and WikiText has `@-@`, `@,@` and `@.@`
where a mark joins two words. Nobody writes so. Where users' text is as people write, a
tokenizer that is trained on such marks wastes its pieces on them.
"""

import re
from collections.abc import Sequence

_UNKNOWN = re.compile(r'(?<!\S)<unk>(?!\S)')
_JOINED = re.compile(r' @([-,.])@ ')
_MARKS = re.compile(r'(?<!\S)(?:<unk>|@[-,.]@)(?!\S)')
_ENDINGS = re.compile(r" (n't|'(?:s|t|re|ve|ll|d|m))(?!\S)", re.IGNORECASE)
_BEFORE = re.compile(r' ([,.;:!?%)\]]+)(?!\S)')
_AFTER = re.compile(r'(?<!\S)([(\[$£€]) ')
_QUOTED = re.compile(r'(?<!\S)" ([^"]*) "(?!\S)')


def are_in(lines: Sequence[str]) -> bool:
  """Tells whether lines are those of such a corpus: whether any has one of its marks."""
  return any(_MARKS.search(line) for line in lines)


def undone(line: str) -> str:
  """Returns a line of such a corpus as somebody would have written it.

  Rare words, of which nothing is known, are left out.

  Args:
    line: Words separated by single spaces.
  """
  line = ' '.join(_UNKNOWN.sub('', line).split())
  line = _ENDINGS.sub(r'\1', _JOINED.sub(r'\1', line))
  line = _QUOTED.sub(r'"\1"', line)
  return _AFTER.sub(r'\1', _BEFORE.sub(r'\1', line))
