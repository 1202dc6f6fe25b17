"""Word-level tokenizer: the most frequent words, and one id for all others."""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from tff_textpriv.text import statistics, tokenizers

# The first line of a tokenizer file; a word a line follows.
HEADER = b'tff_textpriv word tokenizer 1\n'

_CONTROL_PIECES = ['<pad>', '<unk>', '<s>', '</s>']


class WordTokenizer(tokenizers.Tokenizer):
  """A closed vocabulary: a word is one token, known or not."""

  kind = 'word'

  def __init__(self, words: Sequence[str]):
    """Makes a tokenizer of given words.

    Args:
      words: The vocabulary, in the order of the ids after the control ids.

    Raises:
      TokenizerError: If these are not different words without white space.
    """
    self._words = list(words)
    self._ids = {
      word: i for i, word in enumerate(words, start=tokenizers.NUM_CONTROL_IDS)
    }
    for word in words:
      if statistics.split_words(word) != [word]:
        raise tokenizers.TokenizerError(f'{word!r} in a vocabulary is not one word')
    if not words or len(self._ids) < len(words):
      raise tokenizers.TokenizerError(
        'a vocabulary needs one word or more, and each of them once'
      )
    self.size = tokenizers.NUM_CONTROL_IDS + len(words)
    self.pieces = [*_CONTROL_PIECES, *words]
    self.starts_word = np.ones(self.size, bool)
    self.starts_word[[tokenizers.PAD_ID, tokenizers.BOS_ID, tokenizers.EOS_ID]] = False
    self.fingerprint = hashlib.sha256(self.to_bytes()).hexdigest()[:16]

  def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
    """Encodes normalised texts; each result is int32, BOS first and EOS last."""
    return [
      tokenizers.surround(
        [
          self._ids.get(word, tokenizers.UNKNOWN_ID)
          for word in statistics.split_words(text)
        ]
      )
      for text in texts
    ]

  def decode(self, ids: Sequence[int]) -> str:
    """Turns ids back into text; control ids, unknown words too, are dropped."""
    return ' '.join(self.pieces[i] for i in ids if i >= tokenizers.NUM_CONTROL_IDS)

  def to_bytes(self) -> bytes:
    """Writes the vocabulary in UTF-8, a word a line; `from_bytes` reads it."""
    return HEADER + ''.join(f'{word}\n' for word in self._words).encode()


def from_bytes(data: bytes) -> WordTokenizer:
  """Reads what `WordTokenizer.to_bytes` wrote.

  Raises:
    TokenizerError: If these are not the bytes of a complete word tokenizer.
  """
  expected = (
    f'expected the line {HEADER.decode().rstrip()!r} and then, in UTF-8, a word a line'
  )
  if not data.startswith(HEADER):
    raise tokenizers.TokenizerError(f'not a word tokenizer: {expected}')
  body = data.removeprefix(HEADER)
  if not body.endswith(b'\n'):
    raise tokenizers.TokenizerError(f'a truncated word tokenizer: {expected}')
  try:
    words = body.decode().removesuffix('\n').split('\n')
  except UnicodeDecodeError:
    raise tokenizers.TokenizerError(
      f'a word tokenizer that is not in UTF-8: {expected}'
    ) from None
  return WordTokenizer(words)


def train(texts: Iterable[str], vocab_size: int) -> WordTokenizer:
  """Makes a tokenizer of the most frequent words.

  Of equally frequent words, those first in the alphabet are taken. A `<unk>` in the text
  is what a corpus has in the place of a word that it does not tell: the unknown word.

  Args:
    texts: Normalised texts.
    vocab_size: The number of ids: 4 control ids, the rest words.

  Raises:
    TokenizerError: If there is no text, or too little for so many words.
  """
  if vocab_size <= tokenizers.NUM_CONTROL_IDS:
    raise tokenizers.TokenizerError(
      f'--vocab_size={vocab_size}: a word vocabulary needs more than '
      f'{tokenizers.NUM_CONTROL_IDS} ids, which have a use of their own'
    )
  counts = statistics.word_counts(texts)
  del counts[_CONTROL_PIECES[tokenizers.UNKNOWN_ID]]
  if not counts:
    raise tokenizers.TokenizerError('there is no text to train a tokenizer on')
  most = tokenizers.NUM_CONTROL_IDS + len(counts)
  if vocab_size > most:
    raise tokenizers.TokenizerError(
      f'--vocab_size={vocab_size}: the text ({counts.total():,} words) supports at '
      f'most {most} ids'
    )
  return WordTokenizer(
    statistics.top_words(counts, vocab_size - tokenizers.NUM_CONTROL_IDS)
  )
