"""Tokenizer files of either kind."""

import pathlib

from tff_textpriv.text import subword, tokenizers, words


def read(file: pathlib.Path) -> tokenizers.Tokenizer:
  """Reads a tokenizer that `to_bytes` of any tokenizer wrote.

  Neither kind of file can make the reader execute anything.

  Raises:
    TokenizerError: If there is no tokenizer in it, or a damaged one; names the file.
  """
  try:
    data = file.read_bytes()
    if data.startswith(words.HEADER):
      return words.from_bytes(data)
    return subword.SubwordTokenizer(data)
  except (OSError, tokenizers.TokenizerError) as error:
    raise tokenizers.TokenizerError(f'{file}: {error}') from error
