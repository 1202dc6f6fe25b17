"""What `text/` does to strings, as TensorFlow operations that a saved model can hold.

Each function gives what its namesake in `text/` gives, as far as the tables of
characters agree: Python's are of Unicode 14, those of TensorFlow a little older.
"""

import tensorflow as tf
import tensorflow_text as tf_text

from tff_textpriv.text import subword

# White space of all scripts, and control characters.
SPACES = r'[\p{Z}\p{Cc}]+'
_WORD_STARTS = f'[{subword.WORD_START} ]+'
# What Python's `\w` takes for a letter: also numbers that are not digits.
_LETTER = r'[\p{L}\p{Nl}\p{No}]'
TOKEN = rf"{_LETTER}+(?:'{_LETTER}+)*|\p{{Nd}}+(?:[.,]\p{{Nd}}+)*|[^\p{{L}}\p{{N}}_ ]|_"
# What stands alone in BERT's splitting: punctuation, symbols of ASCII, CJK.
MARK = r'[!-/:-@\[-`{-~\p{P}\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}]'
ACCENT = r'\p{Mn}'
_INSIDE = '##'
_LONGEST_WORD = 100


def collapse(texts: tf.Tensor) -> tf.Tensor:
  """Normalises strings [batch], but leaves one space where they begin or end with some."""
  plain = tf_text.normalize_utf8(texts, 'NFKC')
  return tf.strings.regex_replace(plain, SPACES, ' ')


def normalize(texts: tf.Tensor) -> tf.Tensor:
  """Normalises strings [batch]; see `text.normalize.normalize`."""
  return tf.strings.strip(collapse(texts))


def without_word_starts(texts: tf.Tensor) -> tf.Tensor:
  """Takes SentencePiece's own mark in a text for the white space that it stands for."""
  return tf.strings.regex_replace(texts, _WORD_STARTS, ' ')


def split_words(texts: tf.Tensor) -> tf.RaggedTensor:
  """Splits into words, numbers and marks; see `text.tokens.split_words`.

  Args:
    texts: Strings [batch].

  Returns:
    Strings [batch, (tokens)].
  """
  small = tf.strings.lower(normalize(texts), encoding='utf-8')
  return tf.strings.split(tf.strings.regex_replace(small, TOKEN, r'\0 '))


def split_letters(texts: tf.Tensor) -> tf.RaggedTensor:
  """Splits into words of the letters a to z; see `text.rolling_hash.split_words`.

  Args:
    texts: Strings [batch].

  Returns:
    Strings [batch, (words)].
  """
  # Making letters small would end a string at its first zero byte.
  whole = tf.strings.regex_replace(texts, r'\x00', '')
  small = tf.strings.lower(whole, encoding='utf-8')
  spaced = tf.strings.regex_replace(small, r'[\p{Z}\t-\r\x1c-\x1f\x{85}]', ' ')
  return tf.strings.split(tf.strings.regex_replace(spaced, '[^a-z ]+', ''))


def rolling_hash(words: tf.RaggedTensor, base: int, buckets: int) -> tf.RaggedTensor:
  """Hashes words of the letters a to z; see `text.rolling_hash.hash_word`.

  Args:
    words: Strings [batch, (words)].
    base: P of the hash.
    buckets: M of the hash, below 2^31.

  Returns:
    int64 [batch, (words)].
  """
  codes = tf.strings.unicode_decode(words.flat_values, 'UTF-8').to_tensor()
  letters = tf.cast(tf.transpose(codes), tf.int64) - ord('a') + 1
  # With both factors below M there is no overflow: M * M + 26 < 2^63.
  factor = tf.constant(base % buckets, tf.int64)

  def add_letter(value: tf.Tensor, letter: tf.Tensor) -> tf.Tensor:
    return tf.where(letter > 0, (value * factor + letter) % buckets, value)

  start = tf.zeros_like(words.flat_values, tf.int64)
  return words.with_flat_values(tf.foldr(add_letter, letters, start))


class WordPieces(tf.Module):
  """Splits texts into the pieces of a vocabulary; see `text.wordpieces.WordPieces`."""

  def __init__(self, table: tf.lookup.StaticHashTable, *, is_cased: bool):
    """Takes the pieces.

    Args:
      table: Its keys are the pieces.
      is_cased: Whether letters keep their case and their accents.
    """
    super().__init__()
    self._is_cased = is_cased
    self._split_word = tf_text.WordpieceTokenizer(
      table,
      suffix_indicator=_INSIDE,
      # A character has four bytes at most.
      max_bytes_per_word=4 * _LONGEST_WORD,
      token_out_type=tf.string,
    )

  def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
    """Splits strings [batch] into pieces [batch, (pieces)]."""
    plain = normalize(texts)
    if not self._is_cased:
      small = tf.strings.lower(plain, encoding='utf-8')
      decomposed = tf_text.normalize_utf8(small, 'NFD')
      plain = tf.strings.regex_replace(decomposed, ACCENT, '')
    words = tf.strings.split(tf.strings.regex_replace(plain, MARK, r' \0 '))
    lengths = tf.strings.length(words.flat_values, 'UTF8_CHAR')
    # No word has a space in it, so that none of this is in the vocabulary.
    too_long = tf.fill(tf.shape(lengths), ' ')
    words = words.with_flat_values(
      tf.where(lengths > _LONGEST_WORD, too_long, words.flat_values)
    )
    return self._split_word.tokenize(words).merge_dims(1, 2)
