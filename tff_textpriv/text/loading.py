"""Tokenizer files of either kind."""

from tff_textpriv.text import subword, tokenizers, words


def read(data: bytes) -> tokenizers.Tokenizer:
  """Reads a tokenizer that `to_bytes` of any tokenizer wrote.

  Neither kind of file can make the reader execute anything.

  Args:
    data: The file's bytes.

  Returns:
    The tokenizer.

  Raises:
    TokenizerError: If the file holds no tokenizer, or a damaged one.
  """
  if data.startswith(words.HEADER):
    return words.from_bytes(data)
  return subword.SubwordTokenizer(data)
