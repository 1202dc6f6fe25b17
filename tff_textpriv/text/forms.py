"""The forms in which data sets have their text: cased or not, in sentences or not.

A tokenizer that is trained on public text is compared with one that is trained on users'
text. Were one of them in lower case and the other not, the comparison would be about
letters. So a data set says in which form its texts are, and public text is brought into
the same.
"""

import dataclasses
from collections.abc import Callable, Sequence

from tff_textpriv.text import corpus_marks, sentences
from tff_textpriv.text.normalize import normalize


@dataclasses.dataclass(frozen=True)
class TextForm:
  """A form of text.

  Attributes:
    name: What it is called in messages.
    split: Brings a raw text into the form: texts, none of them empty.
    fold: What leaves every text of the form as it is, and brings a text that is written
      after them, such as a sample of a model, into the same letters.
    has_marks: Whether texts have the marks of `corpus_marks` themselves.
  """

  name: str
  split: Callable[[str], list[str]]
  fold: Callable[[str], str]
  has_marks: bool = False

  def of_public(self, lines: Sequence[str]) -> list[str]:
    """Brings the lines of a public text into the form.

    Args:
      lines: Normalised lines, all of one file: whether it is a corpus with marks of its
        own is asked of all of them together.
    """
    if not self.has_marks and corpus_marks.are_in(lines):
      lines = [corpus_marks.undone(line) for line in lines]
    return [text for line in lines for text in self.split(line)]


def _whole(text: str) -> list[str]:
  plain = normalize(text)
  return [plain] if plain else []


def _lower(text: str) -> str:
  return normalize(text).lower()


AS_WRITTEN = TextForm('as written', _whole, normalize)
SENTENCES = TextForm(
  'sentences in lower case, punctuation apart', sentences.sentences, sentences.fold
)
CORPUS = TextForm('a corpus as it is distributed', _whole, normalize, has_marks=True)
LOWER_CORPUS = TextForm(
  'a corpus in lower case',
  lambda text: [folded] if (folded := _lower(text)) else [],
  _lower,
  has_marks=True,
)
