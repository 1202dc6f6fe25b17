"""The tokenizer of a run, for use without its model: what is written, and checked."""

import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tff_textpriv import files, run_folder
from tff_textpriv.export import runs, tokenizer_json
from tff_textpriv.models import usage as usage_lib
from tff_textpriv.text import subword, tokenizers
from tff_textpriv.text.normalize import normalize

FILE = 'tokenizer.json'

# What the check encodes, besides what is always the same.
_MOST_SAMPLES = 2000
_NUM_DRAWN = 1000
_LONGEST_DRAWN = 40
_SEED = 20
_ALWAYS = (
  '',
  'a',
  'How do I parse JSON in Python 3.11? I tried json.loads() and it failed!',
  '<s>struck</s> <unk> <pad> <0x41> [CLS] \u2581 \u2581\u2581x',
  'https://example.org/a/very/long/path?with=arguments&and=' + 'x' * 300,
  'aaaaaaaaaaaaaaaaaaaaaaa hahahahahahaha ......... ------ ==== 1000000000000000',
  'cafe\u0301 caf\u00e9 na\u00efve Stra\u00dfe \u0130stanbul',
  '\u65e5\u672c\u8a9e\u306e\u6587 \ud55c\uad6d\uc5b4 \u0440\u0443\u0441\u0441\u043a\u0438\u0439 \u05e2\u05d1\u05e8\u05d9\u05ea \u0639\u0631\u0628\u064a',
  '\U0001f600\U0001f469\u200d\U0001f4bb\U0001f1e9\U0001f1ea \U0001f3f3\ufe0f\u200d\U0001f308 \u2665\ufe0f',
  'zero\u200bwidth \u200e\u200f joined\u2060words \ufeff \U000e0041',
)


class Made(NamedTuple):
  """The file, and a line that says how it was checked."""

  content: bytes
  checked: str


def make(run: runs.FinishedRun) -> Made:
  """Makes the tokenizer.json of a run, and compares it with its SentencePiece model.

  Raises:
    ExportError: If the run has no sub-word tokenizer.
    DifferenceError: If the two do not encode alike.
  """
  tokenizer = (
    run.tokenizer if isinstance(run.usage, usage_lib.LanguageModelUsage) else None
  )
  if not isinstance(tokenizer, subword.SubwordTokenizer):
    raise runs.ExportError(
      f'{run.folder}: --format=tokenizer is for language models with --tokenizer=bpe; '
      'this run has no sub-word tokenizer'
    )
  content = tokenizer_json.make(tokenizer)
  if not tokenizer_json.can_be_checked():
    return Made(
      content,
      'tokenizer.json was NOT checked against the SentencePiece model: the package '
      'tokenizers is not installed (pip install tokenizers)',
    )
  number = tokenizer_json.check(content, tokenizer, texts(tokenizer, run.folder))
  return Made(
    content, f'tokenizer.json and tokenizer.model encode {number:,} texts alike'
  )


def texts(tokenizer: subword.SubwordTokenizer, folder: pathlib.Path) -> Iterator[str]:
  """Yields texts for the check: samples of the run, and what is hard to get right.

  Args:
    tokenizer: The tokenizer; some texts are its own pieces, in random order.
    folder: The run's folder.
  """
  yield from _ALWAYS
  for file in sorted((folder / run_folder.SAMPLES).glob('*.txt')):
    yield from map(normalize, files.read_text(file).split('\n')[:_MOST_SAMPLES])
  pieces = np.array(tokenizer.pieces[tokenizers.NUM_CONTROL_IDS :], object)
  rng = np.random.default_rng(_SEED)
  for _ in range(_NUM_DRAWN):
    drawn = rng.choice(pieces, rng.integers(1, _LONGEST_DRAWN))
    yield ''.join(drawn).replace(subword.WORD_START, ' ')
